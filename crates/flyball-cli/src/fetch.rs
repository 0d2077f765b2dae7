//! One HTTP GET from a node, bounded in bytes; the caller bounds it in time.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use flyball_core::cluster::host_of;
use flyball_server::tls::TlsClient;
use http::StatusCode;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// A cluster of hundreds of peers is described in a fraction of this.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The node is there, and speaks TLS.
#[derive(Debug)]
pub(crate) struct SpeaksTls;

impl fmt::Display for SpeaksTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the node speaks TLS there; give --tls, or the GUBER_TLS_ variables that the node has")
    }
}

impl std::error::Error for SpeaksTls {}

/// What a node says to who speaks plain HTTP where it speaks TLS.
const SPEAKS_TLS: &[u8] = b"Client sent an HTTP request to an HTTPS server";

/// The status and the body of `path` from the node at `target` (`host:port`), over TLS if there is any.
///
/// # Errors
/// Nobody answers, or not in HTTP/1.1, or without end. The text does not name the target.
pub(crate) async fn get(
    target: &str,
    tls: Option<&TlsClient>,
    path: &str,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = tokio::net::TcpStream::connect(target).await.context("cannot connect")?;
    let (status, body) = match tls {
        None => ask(stream, target, path).await?,
        Some(tls) => {
            let secured =
                tls.secure(host_of(target), stream).await.context("cannot secure the connection")?;
            ask(secured, target, path).await?
        }
    };
    if status == StatusCode::BAD_REQUEST && body.starts_with(SPEAKS_TLS) {
        return Err(SpeaksTls.into());
    }
    Ok((status, body))
}

async fn ask<S>(stream: S, target: &str, path: &str) -> anyhow::Result<(StatusCode, Bytes)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = http::Request::get(path).header(http::header::HOST, target);
    let exchange = async {
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await.map_err(unheard)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(anyhow::Error::from_boxed).context("cannot read the answer")?;
        Ok((status, body.to_bytes()))
    };
    let mut exchange = std::pin::pin!(exchange);
    // The connection does the input and output of the exchange. A server that closes right after its answer
    // ends it first; the exchange then still has the answer, or the reason why there is none.
    tokio::select! {
        biased;
        found = &mut exchange => found,
        _ = connection => exchange.await,
    }
}

/// [`get`], with a bound in time.
///
/// # Errors
/// As there, or there is no answer in time.
pub(crate) async fn get_within(
    patience: Duration,
    target: &str,
    tls: Option<&TlsClient>,
    path: &str,
) -> anyhow::Result<(StatusCode, Bytes)> {
    match tokio::time::timeout(patience, get(target, tls, path)).await {
        Ok(found) => found,
        Err(_) => bail!("no answer within {patience:?}"),
    }
}

/// Why there is no answer to read.
fn unheard(error: hyper::Error) -> anyhow::Error {
    let foreign = error.is_parse();
    let error = anyhow::Error::new(error);
    if foreign { error.context("it does not speak HTTP/1.1; is this the gRPC port?") } else { error }
}
