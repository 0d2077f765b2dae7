//! Connections: accepted, served one task each, ended gracefully.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::HttpService;
use crate::accept::Acceptor;
use crate::activity::{Activity, Counted, Watched};

/// The most connections at a time. Further ones are not accepted until one ends, so they wait in the listener's
/// backlog.
pub const CONNECTIONS_MAX: usize = 16_384;

/// The largest header section, in bytes; a larger one is answered with 431.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long a header section may take, counted from the end of the answer before it, so also how long a connection
/// may idle. Longer than common clients keep an idle connection (90 s), so that it is they who close it.
pub const HEADER_WITHIN: Duration = Duration::from_secs(120);

/// Serves HTTP/1.1 on `listener` until `shutdown`, then lets open requests finish. HTTP/2 is not spoken here.
///
/// After `shutdown` the port is closed, idle connections are closed, busy ones after the answer they are working
/// on, and those that do not finish their header section after a second. Connections that wait in the backlog at
/// that moment get one answer. This has no time limit of its own: dropping the future closes everything at once.
pub async fn serve(listener: TcpListener, service: HttpService, shutdown: CancellationToken) {
    let mut connections = JoinSet::new();
    let mut acceptor = Acceptor::new(listener, "HTTP");
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            stream = acceptor.next(), if connections.len() < CONNECTIONS_MAX => {
                connections.spawn(connection(stream, service.clone(), Some(shutdown.clone())));
            }
        }
    }
    for stream in acceptor.close(CONNECTIONS_MAX.saturating_sub(connections.len())) {
        connections.spawn(connection(stream, service.clone(), None));
    }
    while connections.join_next().await.is_some() {}
}

/// One connection. Without a `shutdown` to wait for it begins during one: it serves a single request.
async fn connection(stream: TcpStream, service: HttpService, shutdown: Option<CancellationToken>) {
    let activity = Activity::default();
    let service = Counted { service, activity: activity.clone() };
    let stream = Watched { stream, activity: activity.clone() };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .max_header_size(HEADER_BYTES_MAX)
        .keep_alive(shutdown.is_some())
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    if let Some(shutdown) = shutdown {
        tokio::select! {
            // The connection first: a request that has arrived is read before the shutdown is looked at.
            biased;
            ended = connection.as_mut() => return report(ended),
            () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
        }
    }
    tokio::select! {
        ended = connection => report(ended),
        () = activity.abandoned() => tracing::debug!("closed an HTTP connection that began no request"),
    }
}

fn report(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP connection ended");
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
