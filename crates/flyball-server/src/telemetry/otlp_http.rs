//! The HTTP client of the OTLP exporter's `http/protobuf` form.
//!
//! The exporter runs on a thread of its own without an async runtime, so each request is a task on the daemon's
//! runtime and the thread waits for it. Every request ends: connecting, sending and reading share one timeout.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use tokio::runtime::Handle;

/// Most bytes read of a collector's answer, which says at most which spans it did not like.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Plaintext HTTP/1.1 with connections kept alive between exports.
#[derive(Debug)]
pub(super) struct OtlpHttpClient {
    client: Client<HttpConnector, Full<Bytes>>,
    timeout: Duration,
    runtime: Handle,
}

impl OtlpHttpClient {
    /// A client whose requests run on `runtime` and end within `timeout`.
    pub(super) fn new(timeout: Duration, runtime: Handle) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), timeout, runtime }
    }
}

#[tonic::async_trait]
impl HttpClient for OtlpHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = self.client.request(request.map(Full::new));
        let exchange = async move {
            let (head, body) = sending.await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| {
                match error.downcast::<http_body_util::LengthLimitError>() {
                    Ok(_) => ResponseBodyTooLarge::new().into(),
                    Err(error) => error,
                }
            })?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let timeout = self.timeout;
        self.runtime.spawn(async move { tokio::time::timeout(timeout, exchange).await }).await??
    }
}
