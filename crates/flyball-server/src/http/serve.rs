//! Connections: accepted, served one task each, ended gracefully.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::HttpService;
use crate::accept::Acceptor;
use crate::activity::{Activity, Counted, Watched};
use crate::greeting::greeted;
use crate::grpc::protocol;
use crate::tls::{Secured, TlsPort};

/// The most connections at a time. Further ones are not accepted until one ends, so they wait in the listener's
/// backlog.
pub const CONNECTIONS_MAX: usize = 16_384;

/// The largest header section, in bytes; a larger one is answered with 431.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long a header section may take, counted from the end of the answer before it, so also how long a connection
/// may idle. Longer than common clients keep an idle connection (90 s), so that it is they who close it.
pub const HEADER_WITHIN: Duration = Duration::from_secs(120);

/// How long a handshake, and then an HTTP/2 client's greeting, may still take during a shutdown.
const BEGUN_WITHIN: Duration = Duration::from_secs(1);

/// Serves HTTP/1.1 on `listener` until `shutdown`, then lets open requests finish. HTTP/2 is spoken only with `tls`, to
/// clients that ask for it in the handshake; with `tls` the port speaks nothing that is not secured.
///
/// After `shutdown` the port is closed, idle connections are closed, busy ones after the answer they are working
/// on, and those that do not finish their header section after a second. Connections that wait in the backlog at
/// that moment get one answer. This has no time limit of its own: dropping the future closes everything at once.
pub async fn serve(
    listener: TcpListener,
    service: HttpService,
    tls: Option<TlsPort>,
    shutdown: CancellationToken,
) {
    let mut connections = JoinSet::new();
    let mut acceptor = Acceptor::new(listener, "HTTP");
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            stream = acceptor.next(), if connections.len() < CONNECTIONS_MAX => {
                connections.spawn(accepted(stream, service.clone(), tls.clone(), Some(shutdown.clone())));
            }
        }
    }
    for stream in acceptor.close(CONNECTIONS_MAX.saturating_sub(connections.len())) {
        connections.spawn(accepted(stream, service.clone(), tls.clone(), None));
    }
    while connections.join_next().await.is_some() {}
}

/// One connection, secured first where that is asked for. Without a `shutdown` to wait for it begins during one: it
/// serves a single request.
async fn accepted(
    stream: TcpStream,
    service: HttpService,
    tls: Option<TlsPort>,
    shutdown: Option<CancellationToken>,
) {
    let Some(tls) = tls else {
        return connection(stream, service, shutdown).await;
    };
    let secured = until(shutdown.as_ref(), tls.accept(stream)).await;
    let Some(Secured { stream, http2, .. }) = secured else { return };
    match http2 {
        true => connection_of_many(stream, service, shutdown).await,
        false => connection(stream, service, shutdown).await,
    }
}

/// What begins a connection, or `None` when it is still not there some time after the shutdown. Without a `shutdown` to
/// wait for it is under way already.
async fn until<T>(
    shutdown: Option<&CancellationToken>,
    beginning: impl Future<Output = Option<T>>,
) -> Option<T> {
    let given_up = async {
        if let Some(shutdown) = shutdown {
            shutdown.cancelled().await;
        }
        tokio::time::sleep(BEGUN_WITHIN).await;
    };
    tokio::select! {
        begun = beginning => begun,
        () = given_up => None,
    }
}

/// A connection with one request at a time.
async fn connection<S>(stream: S, service: HttpService, shutdown: Option<CancellationToken>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
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

/// A connection with many requests at a time.
async fn connection_of_many<S>(stream: S, service: HttpService, shutdown: Option<CancellationToken>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(stream) = until(shutdown.as_ref(), greeted(stream)).await else { return };
    let activity = Activity::default();
    let service = Counted { service, activity: activity.clone() };
    let stream = Watched { stream, activity: activity.clone() };
    // A client that lost its network is noticed as soon as one over HTTP/1.
    let mut protocol = protocol();
    let connection =
        protocol.keep_alive_interval(HEADER_WITHIN).serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    if let Some(shutdown) = shutdown {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return report(ended),
            () = shutdown.cancelled() => {}
        }
    }
    // A client that was let in during a shutdown gets the answers to what it has sent.
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection => report(ended),
        () = activity.abandoned() => tracing::debug!("closed an HTTP/2 connection that did not answer a GOAWAY"),
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
