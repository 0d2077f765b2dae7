//! The node's two gRPC services, `V1` and `PeersV1`, to be mounted on any tonic server.
//!
//! They stand directly on tonic's unary handler instead of the generated server types, for two reasons. Every
//! error a caller can provoke, also one that tonic finds before a handler runs, must read as the wire
//! contract says and be counted; so the code that dispatches has to see the failure. And a call then costs
//! one boxed future instead of three. Clients use the generated types as always.
//!
//! Limits: messages of at most [`MESSAGE_BYTES_MAX`] bytes, before and after decompression; gzip or no
//! compression; what [`intake`](crate::intake) says about messages that are still arriving. A caller's deadline
//! (`grpc-timeout`) also ends a call whose body is still arriving. (tonic's own `Server` watches that header
//! too, and when it is first, the text is its.)

pub(crate) mod codec;
mod refusal;
mod rpc;
mod timeout;

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::StdError;
use tonic::server::{Grpc, NamedService};
use tonic::service::Routes;
use tonic::transport::server::TcpConnectInfo;
use tonic::{Code, Response, Status};
use tower::{Service, service_fn};

use self::codec::WireCodec;
use self::rpc::Rpc;
use crate::MESSAGE_BYTES_MAX;
use crate::call::{Call, CallContext};
use crate::error::CallError;
use crate::method::{Method, PEERS_V1, V1};
use crate::node::Node;
use crate::peers::guard::CallOrigin;
use crate::trace::TraceParent;

type Answer = Result<http::Response<Body>, Infallible>;
type BoxedAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Both services, and the answer for everything else. Further services can be added.
pub fn routes(node: &Node) -> Routes {
    let routes = Routes::new(node.v1_service()).add_service(node.peers_service());
    Routes::from(routes.into_axum_router().fallback_service(UnknownService)).prepare()
}

impl Node {
    /// `pb.gubernator.V1`, for clients.
    pub fn v1_service(&self) -> V1Service {
        V1Service(self.clone())
    }

    /// `pb.gubernator.PeersV1`, for peers.
    pub fn peers_service(&self) -> PeersV1Service {
        PeersV1Service(self.clone())
    }
}

/// `pb.gubernator.V1`; see [`Node::v1_service`].
#[derive(Clone, Debug)]
pub struct V1Service(Node);

/// `pb.gubernator.PeersV1`; see [`Node::peers_service`].
#[derive(Clone, Debug)]
pub struct PeersV1Service(Node);

/// Answers every call with UNIMPLEMENTED and says what is unknown: the fallback of a router.
#[derive(Clone, Copy, Debug)]
pub struct UnknownService;

impl NamedService for V1Service {
    const NAME: &'static str = V1;
}

impl NamedService for PeersV1Service {
    const NAME: &'static str = PEERS_V1;
}

impl<B> Service<http::Request<B>> for V1Service
where
    B: http_body::Body + Send + Unpin + 'static,
    B::Error: Into<StdError> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxedAnswer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> BoxedAnswer {
        if let Some(refusal) = refusal(&request) {
            return Box::pin(ready(Ok(refusal)));
        }
        let node = self.0.clone();
        match method_name(&request) {
            path if path == Method::GetRateLimits.path() => {
                Box::pin(serve::<_, rpc::GetRateLimits>(node, request))
            }
            path if path == Method::HealthCheck.path() => {
                Box::pin(serve::<_, rpc::HealthCheck>(node, request))
            }
            path if path == Method::LiveCheck.path() => Box::pin(serve::<_, rpc::LiveCheck>(node, request)),
            path => Box::pin(ready(Ok(refusal::unknown(path)))),
        }
    }
}

impl<B> Service<http::Request<B>> for PeersV1Service
where
    B: http_body::Body + Send + Unpin + 'static,
    B::Error: Into<StdError> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxedAnswer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> BoxedAnswer {
        if let Some(refusal) = refusal(&request) {
            return Box::pin(ready(Ok(refusal)));
        }
        let node = self.0.clone();
        match method_name(&request) {
            path if path == Method::GetPeerRateLimits.path() => {
                Box::pin(serve::<_, rpc::GetPeerRateLimits>(node, request))
            }
            path if path == Method::UpdatePeerGlobals.path() => {
                Box::pin(serve::<_, rpc::UpdatePeerGlobals>(node, request))
            }
            path => Box::pin(ready(Ok(refusal::unknown(path)))),
        }
    }
}

impl<B> Service<http::Request<B>> for UnknownService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        ready(Ok(refusal(&request).unwrap_or_else(|| refusal::unknown(method_name(&request)))))
    }
}

/// The refusal of what is no gRPC call, whichever method it is for; `None` when it is one. The services here look
/// for themselves: this is for who serves others beside them.
pub fn refusal<B>(request: &http::Request<B>) -> Option<http::Response<Body>> {
    refusal::of_request(request.method(), request.headers())
}

/// What a call asks for: everything after the authority. A gRPC path has no query, so what looks like one belongs
/// to the name of the method.
fn method_name<B>(request: &http::Request<B>) -> &str {
    request.uri().path_and_query().map_or("", PathAndQuery::as_str)
}

/// A call with more items than this steps back before it decides, so that whoever polls it can do something else
/// first: about as much work as handing a task to another thread.
const MANY_ITEMS: usize = 32;

/// One call from its headers to its answer.
async fn serve<B, R>(node: Node, request: http::Request<B>) -> Answer
where
    B: http_body::Body + Send + Unpin + 'static,
    B::Error: Into<StdError> + Send,
    R: Rpc,
{
    let inner = node.inner();
    let from = who_calls(request.extensions());
    let mut call = Call::begin(&inner.metrics, inner.tracing.as_ref(), R::METHOD, || {
        (TraceParent::from_headers(request.headers()), from.address)
    });
    let response = match R::admit(inner, from, request.headers()) {
        Err(error) => Status::from(error).into_http(),
        Ok(()) => match refusal::of_encoding(request.headers()) {
            Some(status) => status.into_http(),
            None => unary::<B, R>(&node, request, &mut call).await,
        },
    };
    // Success tells its status in the trailers; a failure has no body and tells it in the headers.
    let Some(status) = Status::from_header_map(response.headers()) else {
        call.close(Code::Ok, None);
        return Ok(response);
    };
    let (status, response) = match refusal::reworded(&status) {
        Some(status) => (status.clone(), status.into_http()),
        None => (status, response),
    };
    call.close(status.code(), Some(status.message()));
    Ok(response)
}

async fn unary<B, R>(node: &Node, request: http::Request<B>, call: &mut Call<'_>) -> http::Response<Body>
where
    B: http_body::Body + Send + Unpin + 'static,
    B::Error: Into<StdError> + Send,
    R: Rpc,
{
    let deadline = match timeout::deadline(request.headers()) {
        Ok(deadline) => deadline,
        // Unreached: `refusal` came first.
        Err(malformed) => return malformed.into_http(),
    };
    let context = CallContext { deadline, trace: TraceParent::default() };
    let mut grpc = Grpc::new(WireCodec::<R::Request, R::Answer>::default())
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let (mut call, context) = (Some(call), &context);
    let service = service_fn(move |message: tonic::Request<R::Request>| {
        let call = call.take();
        async move {
            let message = message.into_inner();
            if R::items(&message) > MANY_ITEMS {
                tokio::task::yield_now().await;
            }
            let call = call.expect("a unary call has one message");
            R::answer(node.inner(), message, context, call).await.map(Response::new).map_err(Status::from)
        }
    });
    let request = request.map(|body| node.receive(body).map_err(Status::from));
    let response = grpc.unary(service, request);
    let Some(deadline) = deadline else {
        return response.await;
    };
    match tokio::time::timeout_at(deadline, response).await {
        Ok(response) => response,
        Err(_) => Status::from(CallError::DeadlineExceeded).into_http(),
    }
}

/// Put into a request's extensions by the server that runs the services: the client of this connection showed a
/// certificate, and it was verified. See [`PeerAccess::certificate`](crate::PeerAccess::certificate).
#[derive(Clone, Copy, Debug)]
pub struct VerifiedCertificate;

/// Where the call came from, when the server that runs the service says so.
fn who_calls(extensions: &http::Extensions) -> CallOrigin {
    CallOrigin {
        address: extensions.get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr),
        certified: extensions.get::<VerifiedCertificate>().is_some(),
    }
}
