//! A gRPC server that reads the same messages as flyball and answers as many items, without deciding anything:
//! the least that a rate limiter on these libraries can cost. `cargo xtask bench` measures flyball against it.
//!
//! Runtime, allocator, message limit, connection settings and accepted encodings are the daemon's. The answers are as
//! long as real ones: every field that a granted check fills is filled.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use flyball_proto::pb;
use pb::v1_server::{V1, V1Server};
use tonic::codec::CompressionEncoding;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A moment of 13 digits, as real ones are.
const RESET_TIME: i64 = 1_800_000_000_000;
/// The wire's limit for one message.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// As the daemon's listener has them.
const CONCURRENT_STREAMS: u32 = 1_000;
const WINDOW_BYTES: u32 = 1 << 20;

#[derive(Debug)]
struct Floor;

#[tonic::async_trait]
impl V1 for Floor {
    async fn get_rate_limits(
        &self,
        request: Request<pb::GetRateLimitsReq>,
    ) -> Result<Response<pb::GetRateLimitsResp>, Status> {
        let responses = request.into_inner().requests.iter().map(answer).collect();
        Ok(Response::new(pb::GetRateLimitsResp { responses }))
    }

    async fn health_check(
        &self,
        _: Request<pb::HealthCheckReq>,
    ) -> Result<Response<pb::HealthCheckResp>, Status> {
        Ok(Response::new(pb::HealthCheckResp { status: "healthy".to_owned(), ..Default::default() }))
    }

    async fn live_check(&self, _: Request<pb::LiveCheckReq>) -> Result<Response<pb::LiveCheckResp>, Status> {
        Ok(Response::new(pb::LiveCheckResp {}))
    }
}

fn answer(item: &pb::RateLimitReq) -> pb::RateLimitResp {
    pb::RateLimitResp {
        limit: item.limit,
        remaining: item.limit.saturating_sub(item.hits),
        reset_time: RESET_TIME,
        ..Default::default()
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let address = std::env::args().nth(1).context("usage: flyball-floor HOST:PORT")?;
    let address: SocketAddr = address.parse().with_context(|| format!("{address:?} is not HOST:PORT"))?;
    let incoming = TcpIncoming::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let service = V1Server::new(Floor)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip);
    Server::builder()
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .add_service(service)
        .serve_with_incoming(incoming.with_nodelay(Some(true)))
        .await
        .context("the server stopped")
}
