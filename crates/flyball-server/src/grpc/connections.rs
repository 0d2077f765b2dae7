//! The gRPC listener's connections: accept, serve HTTP/2, let go.
//!
//! One task per connection on hyper's HTTP/2 server. tonic's own transport is the same loop with other choices:
//! it ends a call at `grpc-timeout` by itself with a text of its own, routes through a table built for thousands
//! of services, and with a connection age *and* a grace it closes without ever saying GOAWAY. What is here is the
//! part of it that we need, with every limit spelled out.
//!
//! A connection ends gently (GOAWAY, open calls finish, no new ones) when the daemon drains or the connection
//! reaches its age. How long a drain may take is the caller's bound: dropping [`serve`]'s future cuts whatever is
//! still open. A connection on which nothing was ever sent is closed at once when draining, and after
//! [`FIRST_BYTES_WITHIN`] anyway.

use std::convert::Infallible;
use std::future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::server::{Connected, TcpConnectInfo};

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
/// A client speaks first in HTTP/2; one that doesn't is a port scan or lost its network.
const FIRST_BYTES_WITHIN: Duration = Duration::from_secs(20);
/// Pause after the system refuses a new connection (out of file descriptors): the refusal comes again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `service` on `listener` until `drain` is cancelled and every connection has ended.
///
/// `max_age`: connections this old are asked to go, and closed when they are still there after as much again.
/// `service` is told each connection's addresses through [`PerConnection`].
pub(super) async fn serve<S>(
    listener: TcpListener,
    service: S,
    max_age: Option<Duration>,
    drain: CancellationToken,
) where
    S: PerConnection,
{
    let protocol = protocol();
    let mut connections = JoinSet::new();
    let mut accepted = 0_u64;
    let mut refused = false;
    loop {
        let stream = tokio::select! {
            biased;
            () = drain.cancelled() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                report_panic(ended);
                continue;
            }
            accepting = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepting {
                Ok((stream, _)) => stream,
                Err(error) if is_the_clients(&error) => continue,
                Err(error) => {
                    // Once per spell: a process without file descriptors gets here ten times a second.
                    if !std::mem::replace(&mut refused, true) {
                        tracing::warn!(%error, "cannot accept gRPC connections; trying again every {ACCEPT_PAUSE:?}");
                    }
                    let _ = tokio::time::timeout(ACCEPT_PAUSE, drain.cancelled()).await;
                    continue;
                }
            },
        };
        refused = false;
        // Answers are small and must not wait for company. Fails only for a connection that is already gone.
        let _ = stream.set_nodelay(true);
        accepted += 1;
        let service = service.for_connection(stream.connect_info());
        let age = max_age.map(|age| spread(age, accepted));
        connections.spawn(connection(stream, protocol.clone(), service, age, max_age, drain.clone()));
    }
    // From here the port answers "connection refused" instead of letting new clients hang.
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        report_panic(ended);
    }
}

/// A service that wants to know whom it talks to.
pub(super) trait PerConnection: Send + 'static {
    /// What serves one connection.
    type Service: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Send
        + 'static;

    /// The service for the connection with these addresses.
    fn for_connection(&self, addresses: TcpConnectInfo) -> Self::Service;
}

fn protocol() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
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

/// The client went away between the kernel's handshake and our accept.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

async fn connection<S>(
    stream: TcpStream,
    protocol: http2::Builder<TokioExecutor>,
    service: S,
    age: Option<Duration>,
    grace: Option<Duration>,
    drain: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let mut first = [0];
    tokio::select! {
        spoke = stream.peek(&mut first) => if !spoke.is_ok_and(|bytes| bytes > 0) { return },
        () = drain.cancelled() => return,
        () = tokio::time::sleep(FIRST_BYTES_WITHIN) => return,
    }

    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
    let grace = tokio::select! {
        ended = connection.as_mut() => return report_error(ended),
        () = drain.cancelled() => None,
        () = after(age) => grace,
    };
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection => report_error(ended),
        () = after(grace) => tracing::debug!("closed a gRPC connection past its age and grace"),
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
