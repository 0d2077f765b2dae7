//! One HTTP GET from a node, bounded in bytes; the caller bounds it in time.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;

/// A cluster of hundreds of peers is described in a fraction of this.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The status and the body of `path` from the node at `target` (`host:port`).
///
/// # Errors
/// Nobody answers, or not in HTTP/1.1, or without end. The text does not name the target.
pub(crate) async fn get(target: &str, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = tokio::net::TcpStream::connect(target).await.context("cannot connect")?;
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
    path: &str,
) -> anyhow::Result<(StatusCode, Bytes)> {
    match tokio::time::timeout(patience, get(target, path)).await {
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
