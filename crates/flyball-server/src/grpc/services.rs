//! Which service answers which method.

use std::convert::Infallible;
use std::fmt;
use std::future;
use std::pin::Pin;
use std::sync::Arc;

use flyball::Node;
use flyball::grpc::{PeersV1Service, UnknownService, V1Service, VerifiedCertificate};
use flyball_proto::FILE_DESCRIPTOR_SET;
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::TcpConnectInfo;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::Service;
use tower::util::BoxCloneSyncService;

use super::connections::PerConnection;

/// Largest message of a service that is only an addition: a name or two.
const ADDITION_BYTES_MAX: usize = 16 << 10;

/// The public API.
pub(super) const V1: &str = "pb.gubernator.V1";
/// The API between peers.
pub(super) const PEERS_V1: &str = "pb.gubernator.PeersV1";

const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION_V1: &str = "grpc.reflection.v1.ServerReflection";
const REFLECTION_V1ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
/// An addition. They are called rarely, so one more allocation per call is no matter.
type Addition = BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>;

/// Everything the gRPC port can answer. A call clones the one service it needs.
pub(super) struct Services {
    v1: V1Service,
    peers_v1: PeersV1Service,
    health: Option<HealthServer<HealthService>>,
    reflection: Option<Reflection>,
}

struct Reflection {
    v1: Addition,
    v1alpha: Addition,
}

impl Services {
    /// The services of `node`; health is offered when there is a `reporter` to read it from.
    pub(super) fn new(node: &Node, reflection: bool, reporter: Option<&HealthReporter>) -> Self {
        Self {
            v1: node.v1_service(),
            peers_v1: node.peers_service(),
            health: reporter.map(|reporter| {
                HealthServer::new(HealthService::from_health_reporter(reporter.clone()))
                    .max_decoding_message_size(ADDITION_BYTES_MAX)
            }),
            reflection: reflection.then(|| Reflection::new(reporter.is_some())),
        }
    }

    fn call(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) else {
            return Box::pin(UnknownService.call(request));
        };
        match (service, &self.health, &self.reflection) {
            (V1, ..) => self.v1.clone().call(request),
            (PEERS_V1, ..) => self.peers_v1.clone().call(request),
            // The node's own services refuse by themselves what no gRPC client sends.
            (HEALTH, Some(_), _) | (REFLECTION_V1 | REFLECTION_V1ALPHA, _, Some(_))
                if let Some(refused) = flyball::grpc::refusal(&request) =>
            {
                Box::pin(future::ready(Ok(refused)))
            }
            (HEALTH, Some(health), _) => match method {
                "Check" | "Watch" => health.clone().call(request),
                _ => unknown_method(service, method),
            },
            (REFLECTION_V1, _, Some(reflection)) => match method {
                "ServerReflectionInfo" => reflection.v1.clone().call(request),
                _ => unknown_method(service, method),
            },
            (REFLECTION_V1ALPHA, _, Some(reflection)) => match method {
                "ServerReflectionInfo" => reflection.v1alpha.clone().call(request),
                _ => unknown_method(service, method),
            },
            _ => Box::pin(UnknownService.call(request)),
        }
    }
}

/// The original's words for a service it knows.
fn unknown_method(service: &str, method: &str) -> Answer {
    let refusal = Status::unimplemented(format!("unknown method {method} for service {service}"));
    Box::pin(future::ready(Ok(refusal.into_http())))
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("health", &self.health.is_some())
            .field("reflection", &self.reflection.is_some())
            .finish_non_exhaustive()
    }
}

impl Reflection {
    /// Both versions describe everything the port offers, themselves included.
    fn new(health: bool) -> Self {
        let builder = || {
            let mut builder = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
                .include_reflection_service(false);
            if health {
                builder = builder.register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
            }
            builder
        };
        const INVARIANT: &str = "descriptors are compiled in and a test lists their services";
        Self {
            v1: BoxCloneSyncService::new(
                builder().build_v1().expect(INVARIANT).max_decoding_message_size(ADDITION_BYTES_MAX),
            ),
            v1alpha: BoxCloneSyncService::new(
                builder().build_v1alpha().expect(INVARIANT).max_decoding_message_size(ADDITION_BYTES_MAX),
            ),
        }
    }
}

impl PerConnection for Arc<Services> {
    type Service = Connection;

    fn for_connection(&self, addresses: TcpConnectInfo, verified: bool) -> Connection {
        Connection { services: Self::clone(self), addresses, verified }
    }
}

/// The services as one connection sees them.
pub(super) struct Connection {
    services: Arc<Services>,
    addresses: TcpConnectInfo,
    verified: bool,
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, mut request: Request<Incoming>) -> Answer {
        request.extensions_mut().insert(self.addresses.clone());
        if self.verified {
            request.extensions_mut().insert(VerifiedCertificate);
        }
        self.services.call(request)
    }
}
