//! The gRPC listener's connections: accept, serve HTTP/2, let go.
//!
//! One task per connection on hyper's HTTP/2 server. tonic's own transport is the same loop with other choices:
//! it ends a call at `grpc-timeout` by itself with a text of its own, routes through a table built for thousands
//! of services, and with a connection age *and* a grace it closes without ever saying GOAWAY. What is here is the
//! part of it that we need, with every limit spelled out.
//!
//! A connection ends gently (GOAWAY, open calls finish, no new ones) when the daemon drains or the connection
//! reaches its age. How long a drain may take is the caller's bound: dropping [`serve`]'s future cuts whatever is
//! still open. Two kinds of clients get less patience: one that has not said a whole first frame is dropped at once when
//! draining, and anyway when that takes it too long ([`greeted`]); and one without an open call that does not answer the
//! ping of the GOAWAY is dropped after a second ([`Activity::abandoned`]).

use std::convert::Infallible;
use std::future;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::executor::OnTheSpot;
use crate::accept::Acceptor;
use crate::activity::{Activity, Counted, Watched};
use crate::greeting::greeted;
use crate::tls::{Secured, TlsPort};

/// The most connections at a time; further ones wait in the listener's backlog until one ends.
const CONNECTIONS_MAX: usize = 16_384;
/// Calls open at once on one connection; a client with more waits, as HTTP/2 tells it to. Each may hold one
/// message (1 MiB) while it arrives, so this bounds what one connection can make us keep.
const CONCURRENT_STREAMS: u32 = 1_000;
/// All header fields of one call, as HTTP/2 counts them: room for tokens and baggage, not for more.
const HEADER_LIST_BYTES: u32 = 64 << 10;
/// Flow-control windows: one whole message may be under way on a stream, and as much on a connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// Answers waiting for a slow reader, per stream, before the writer waits too.
const SEND_BUFFER_BYTES: usize = 400 << 10;
/// Cancelled calls that were not yet looked at before the connection is told to calm down. Clients with tight
/// deadlines cancel in bursts, hostile ones without end.
const PENDING_RESETS: usize = 256;
/// Calls ended by our own protocol errors before the connection is closed.
const LOCAL_RESETS: usize = 1_024;
/// The original's keepalive: a ping after two idle hours, an answer within 20 s.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(2 * 60 * 60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves `service` on `listener` until `drain` is cancelled and every connection has ended.
///
/// `max_age`: connections this old are asked to go, and closed when they are still there after as much again.
/// `service` is told about each connection through [`PerConnection`]. With `tls` a connection is secured first, in
/// its own task.
pub(super) async fn serve<S>(
    listener: TcpListener,
    service: S,
    tls: Option<TlsPort>,
    max_age: Option<Duration>,
    drain: CancellationToken,
) where
    S: PerConnection,
{
    let life = Life { protocol: protocol(), grace: max_age, drain: drain.clone() };
    let mut connections = JoinSet::new();
    let mut accepted = 0_u64;
    let mut acceptor = Acceptor::new(listener, "gRPC");
    loop {
        let stream = tokio::select! {
            biased;
            () = drain.cancelled() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                report_panic(ended);
                continue;
            }
            stream = acceptor.next(), if connections.len() < CONNECTIONS_MAX => stream,
        };
        accepted += 1;
        let addresses = stream.connect_info();
        let age = max_age.map(|age| spread(age, accepted));
        let life = life.clone();
        match &tls {
            None => {
                let service = service.for_connection(addresses, false);
                connections.spawn(connection(stream, service, age, life));
            }
            Some(tls) => {
                let (tls, services) = (tls.clone(), service.clone());
                connections.spawn(async move {
                    let securing = life.drain.run_until_cancelled(tls.accept(stream));
                    if let Some(Some(Secured { stream, verified, .. })) = securing.await {
                        connection(stream, services.for_connection(addresses, verified), age, life).await;
                    }
                });
            }
        }
    }
    // From here the port answers "connection refused" instead of letting new clients hang. What waits in the backlog
    // has made no call yet; its client tries elsewhere, as it does after a refusal.
    drop(acceptor);
    while let Some(ended) = connections.join_next().await {
        report_panic(ended);
    }
}

/// A service that wants to know whom it talks to.
pub(super) trait PerConnection: Clone + Send + 'static {
    /// What serves one connection.
    type Service: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send + Unpin>
        + Send
        + 'static;

    /// The service for the connection with these addresses. `verified`: its client showed a certificate, and it was
    /// verified.
    fn for_connection(&self, addresses: TcpConnectInfo, verified: bool) -> Self::Service;
}

/// What all connections have in common.
#[derive(Clone)]
struct Life {
    protocol: http2::Builder<OnTheSpot>,
    /// What a connection past its age gets to finish.
    grace: Option<Duration>,
    drain: CancellationToken,
}

/// How HTTP/2 is spoken, with every limit.
pub(crate) fn protocol() -> http2::Builder<OnTheSpot> {
    let mut builder = http2::Builder::new(OnTheSpot);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .max_header_list_size(HEADER_LIST_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(LOCAL_RESETS)
        .keep_alive_interval(KEEPALIVE_AFTER)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .auto_date_header(false);
    builder
}

async fn connection<IO, S>(stream: IO, service: S, age: Option<Duration>, life: Life)
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + Unpin + 'static,
{
    let Life { protocol, grace, drain } = life;
    let Some(Some(stream)) = drain.run_until_cancelled(greeted(stream)).await else { return };

    let activity = Activity::default();
    let service = Counted { service, activity: activity.clone() };
    let stream = TokioIo::new(Watched { stream, activity: activity.clone() });
    let mut connection = pin!(protocol.serve_connection(stream, service));
    let grace = tokio::select! {
        ended = connection.as_mut() => return report_error(ended),
        () = drain.cancelled() => None,
        () = after(age) => grace,
    };
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection.as_mut() => report_error(ended),
        () = after(grace) => tracing::debug!("closed a gRPC connection past its age and grace"),
        () = activity.abandoned() => tracing::debug!("closed a gRPC connection that did not answer a GOAWAY"),
    }
}

async fn after(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => future::pending().await,
    }
}

fn report_error(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn std::error::Error, "a gRPC connection ended with an error");
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a gRPC connection ended by a bug");
    }
}

/// `age` ± 10 %, so that connections opened together don't all come back together. The golden ratio spreads
/// successive connections evenly without a random source.
fn spread(age: Duration, connection: u64) -> Duration {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    // The top 16 bits: exact in an f64, and far finer than anybody can see.
    let fraction = f64::from((connection.wrapping_mul(GOLDEN) >> 48) as u16) / f64::from(u16::MAX);
    age.mul_f64(0.9 + 0.2 * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_stay_within_ten_percent_and_differ() {
        let age = Duration::from_secs(100);
        let ages: Vec<Duration> = (0..100).map(|n| spread(age, n)).collect();
        assert!(ages.iter().all(|a| (90..=110).contains(&a.as_secs())));
        for tenth in 0..10 {
            let range = 90.0 + 2.0 * f64::from(tenth)..92.0 + 2.0 * f64::from(tenth);
            let inside = ages.iter().filter(|a| range.contains(&a.as_secs_f64())).count();
            assert!((9..=11).contains(&inside), "{inside} of 100 in {range:?}");
        }
    }

    #[test]
    fn spreading_never_overflows() {
        assert!(spread(Duration::from_secs(i32::MAX as u64), u64::MAX) > Duration::ZERO);
    }
}
