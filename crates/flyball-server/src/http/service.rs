//! One request to one answer.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use flyball::intake::{ARRIVES_WITHIN, ArrivalError};
use flyball::{CallContext, CallError, MESSAGE_BYTES_MAX, Node, Semantics, TraceParent};
use http::{HeaderMap, HeaderName, Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use prost::Message as _;
use tokio::time::{Instant, timeout_at};
use tonic::Code;

use super::answer::{self, Answer};
use super::json::{self, Decoded};
use super::route::{self, Route, Target};
use super::{HttpOptions, admin, openapi};

/// The largest body that is read, in bytes. Larger than the largest message, because JSON is wordier than protobuf
/// and because what a request carries in unknown fields does not count.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a body may take to arrive, also for a caller whose deadline is later.
pub const BODY_WITHIN: Duration = ARRIVES_WITHIN;

type BoxError = Box<dyn Error + Send + Sync>;

/// Answers HTTP requests from a node. Cheap to clone; every connection has one.
#[derive(Clone, Debug)]
pub struct HttpService {
    node: Node,
    options: HttpOptions,
}

impl HttpService {
    /// A service in front of `node`, which it calls within the process.
    pub fn new(node: Node, options: HttpOptions) -> Self {
        Self { node, options }
    }

    /// The answer to a request. Never fails: what is wrong with a request is in its answer.
    pub async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        let route = match route::target(&head.method, &head.uri, &head.headers, &self.options) {
            Target::Serve(route) => route,
            Target::Redirect(location) => return answer::redirect(&head.method, &location),
            Target::WrongMethod => return answer::error(Code::Unimplemented, "Method Not Allowed"),
            Target::Unknown => return answer::error(Code::NotFound, "Not Found"),
            Target::Nothing => return answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Target::Malformed => return answer::malformed(),
        };
        match route {
            Route::RateLimits | Route::HealthCheck | Route::LiveCheck => self
                .call(route, &head.headers, body)
                .await
                .unwrap_or_else(|refusal| answer::error(refusal.code, &refusal.message)),
            Route::Metrics => answer::metrics(self.node.metrics().scrape()),
            Route::Healthz | Route::Livez => answer::text(StatusCode::OK, "ok"),
            // A node without its first peers answers all the same, and says so.
            Route::Readyz if self.node.is_ready() => match self.node.missing_peers() {
                None => answer::text(StatusCode::OK, "ok"),
                Some(why) => answer::text(StatusCode::OK, format!("ok, but alone: {why}")),
            },
            Route::Readyz => {
                answer::text(StatusCode::SERVICE_UNAVAILABLE, "not ready: the node is shutting down")
            }
            Route::OpenApi => answer::json(openapi::DOCUMENT),
            Route::Admin(view) => {
                admin::answer(&self.options.admin, view, &self.node, &head.uri, &head.headers)
            }
        }
    }

    /// A call of the API.
    async fn call<B>(&self, route: Route, headers: &HeaderMap, body: B) -> Result<Answer, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let deadline = deadline(headers, self.node.rules().semantics)?;
        let body = match route {
            Route::HealthCheck | Route::LiveCheck
                if deadline.is_some_and(|deadline| deadline <= Instant::now()) =>
            {
                return Err(CallError::DeadlineExceeded.into());
            }
            Route::HealthCheck => json::health_body(&self.node.health()?),
            Route::LiveCheck => {
                self.node.live()?;
                Bytes::from_static(b"{}")
            }
            _ => {
                let bytes = read(&self.node, body, deadline).await?;
                let Decoded { request, dropped_len } = json::decode(&bytes, self.node.rules().semantics)
                    .map_err(|error| Refusal { code: Code::InvalidArgument, message: error.to_string() })?;
                // What is kept the node measures itself.
                if dropped_len > 0 {
                    let len = request.encoded_len() + dropped_len;
                    if len > MESSAGE_BYTES_MAX {
                        return Err(CallError::MessageTooLarge(len).into());
                    }
                }
                let context = CallContext { deadline, trace: trace(headers) };
                let call = self.node.get_rate_limits(request, context);
                let response = match deadline {
                    None => call.await,
                    Some(deadline) => {
                        timeout_at(deadline, call).await.unwrap_or(Err(CallError::DeadlineExceeded))
                    }
                };
                json::rate_limits_body(&response?)
            }
        };
        Ok(answer::call(body))
    }
}

impl<B> hyper::service::Service<Request<B>> for HttpService
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

/// Why a call is refused.
struct Refusal {
    code: Code,
    message: String,
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self { code: error.code(), message: error.to_string() }
    }
}

fn deadline(headers: &HeaderMap, semantics: Semantics) -> Result<Option<Instant>, Refusal> {
    let timeout = super::deadline::timeout(headers, semantics).map_err(|value| Refusal {
        code: Code::InvalidArgument,
        message: format!("invalid grpc-timeout: {}", String::from_utf8_lossy(value.as_bytes())),
    })?;
    // A time too far away to be told is no deadline.
    Ok(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
}

/// The caller's trace: as the original takes it, in headers meant for gRPC, else in the plain ones (W4).
fn trace(headers: &HeaderMap) -> TraceParent {
    if !headers.contains_key("grpc-metadata-traceparent") {
        return TraceParent::from_headers(headers);
    }
    let pairs = [("grpc-metadata-traceparent", "traceparent"), ("grpc-metadata-tracestate", "tracestate")];
    let named = pairs
        .into_iter()
        .filter_map(|(theirs, name)| Some((HeaderName::from_static(name), headers.get(theirs)?.clone())));
    TraceParent::from_headers(&named.collect())
}

async fn read<B>(node: &Node, body: B, deadline: Option<Instant>) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let too_large = || Refusal {
        code: Code::ResourceExhausted,
        message: format!("request body is larger than {BODY_BYTES_MAX} bytes; send several calls"),
    };
    // What announces itself as too large is not read at all.
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let reading = Limited::new(node.receive(body), BODY_BYTES_MAX).collect();
    let read = match deadline {
        None => reading.await,
        Some(deadline) => timeout_at(deadline, reading).await.map_err(|_| CallError::DeadlineExceeded)?,
    };
    match read {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => {
            let code = error.downcast_ref().map_or(Code::InvalidArgument, ArrivalError::code);
            Err(Refusal { code, message: error.to_string() })
        }
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
