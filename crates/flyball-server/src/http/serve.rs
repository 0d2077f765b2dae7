//! Connections: accepted, served one task each, ended gracefully.

use std::io;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::HttpService;

/// The most connections at a time. Further ones are not accepted until one ends, so they wait in the listener's
/// backlog.
pub const CONNECTIONS_MAX: usize = 16_384;

/// The largest header section, in bytes; a larger one is answered with 431.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long a header section may take, counted from the end of the answer before it, so also how long a connection
/// may idle. Longer than common clients keep an idle connection (90 s), so that it is they who close it.
pub const HEADER_WITHIN: Duration = Duration::from_secs(120);

/// The pause after the system could not give a connection, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves HTTP/1.1 on `listener` until `shutdown`, then lets open requests finish. HTTP/2 is not spoken here.
///
/// After `shutdown` no connection is accepted, idle ones are closed, busy ones after the answer they are working
/// on. This has no time limit of its own: dropping the future closes everything at once.
pub async fn serve(listener: TcpListener, service: HttpService, shutdown: CancellationToken) {
    let mut connections = JoinSet::new();
    let mut refused = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                refused = false;
                connections.spawn(connection(stream, service.clone(), shutdown.clone()));
            }
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                // Once per spell: a process without file descriptors gets here ten times a second.
                if !std::mem::replace(&mut refused, true) {
                    tracing::warn!(%error, "cannot accept HTTP connections; trying again every {ACCEPT_PAUSE:?}");
                }
                let _ = tokio::time::timeout(ACCEPT_PAUSE, shutdown.cancelled()).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// The client went away between the kernel's handshake and our accept.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

async fn connection(stream: TcpStream, service: HttpService, shutdown: CancellationToken) {
    // Fails only for a connection that is already gone.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .max_header_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "HTTP connection ended");
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
