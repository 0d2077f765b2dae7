//! A daemon from start to stop, in this process, on ports the system chooses. Nothing here sends a signal to the
//! process or needs anything outside it.
// Helpers fail a test as its own lines do.
#![allow(clippy::unwrap_used)]

mod grpc;
mod start;
mod stop;
mod traces;

use std::net::SocketAddr;
use std::time::Duration;

use flyball::pb::v1_client::V1Client;
use flyball::pb::{GetRateLimitsReq, RateLimitReq};
use flyball_server::config::HostPort;
use flyball_server::daemon::Exit;
use flyball_server::shutdown::{SignalSender, Signals};
use flyball_server::{Config, Daemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1;

/// Far above everything that should happen; what takes this long hangs.
const HANGS: Duration = Duration::from_secs(20);

fn config() -> Config {
    let mut config = Config::default();
    config.grpc.address = HostPort { host: "127.0.0.1".into(), port: 0 };
    config.http.address = HostPort { host: "localhost".into(), port: 0 };
    config.shutdown.timeout = HANGS * 2;
    config
}

async fn start(config: Config) -> Daemon {
    Daemon::start(config).await.unwrap()
}

/// A daemon that runs until it is told to stop.
fn run(daemon: Daemon) -> (SignalSender, JoinHandle<Exit>) {
    let (sender, signals) = Signals::channel();
    (sender, tokio::spawn(daemon.run(signals)))
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANGS, future).await.expect("it hangs")
}

async fn channel(daemon: &Daemon) -> Channel {
    Endpoint::from_shared(format!("http://{}", daemon.grpc_address())).unwrap().connect().await.unwrap()
}

fn request(key: &str) -> GetRateLimitsReq {
    let item = RateLimitReq {
        name: "daemon".into(),
        unique_key: key.into(),
        hits: 1,
        limit: 10,
        duration: 60_000,
        ..RateLimitReq::default()
    };
    GetRateLimitsReq { requests: vec![item] }
}

async fn remaining(channel: &Channel, key: &str) -> i64 {
    let answer = V1Client::new(channel.clone()).get_rate_limits(request(key)).await.unwrap();
    answer.into_inner().responses[0].remaining
}

/// One HTTP request on a connection of its own: status code and body.
async fn http_get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    Ok((head[9..12].parse().unwrap(), body.to_owned()))
}

async fn health(channel: &Channel, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest { service: service.into() };
    let answer = HealthClient::new(channel.clone()).check(request).await;
    answer.map(|answer| answer.into_inner().status()).map_err(|status| status.code())
}

/// A reflection stream that stays open, and an answer to prove that it is.
async fn open_stream(
    channel: &Channel,
) -> (mpsc::Sender<v1::ServerReflectionRequest>, Streaming<v1::ServerReflectionResponse>) {
    let (sender, receiver) = mpsc::channel(1);
    let list = v1::server_reflection_request::MessageRequest::ListServices(String::new());
    sender
        .send(v1::ServerReflectionRequest { host: String::new(), message_request: Some(list) })
        .await
        .unwrap();
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let mut answers =
        client.server_reflection_info(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    answers.next().await.unwrap().unwrap();
    (sender, answers)
}
