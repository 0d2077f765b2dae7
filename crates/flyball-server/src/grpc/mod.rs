//! The gRPC port: both services of the node, and what flyball adds beside them.
//!
//! Routing is one `match` over the names of five services; a router built for thousands would make every call pay.
//! What is not among them is refused in the original's words, and an addition that is switched off is not among
//! them.

mod connections;
mod executor;
mod services;

use std::sync::Arc;
use std::time::Duration;

use flyball::Node;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

pub(crate) use connections::protocol;
use services::Services;

use crate::tls::TlsPort;

/// What the gRPC port offers and for how long.
#[derive(Clone, Debug)]
pub struct GrpcOptions {
    /// Offer server reflection, v1 and v1alpha.
    pub reflection: bool,
    /// Offer `grpc.health.v1`.
    pub health: bool,
    /// Ask connections to go at this age, ± 10 %, and close them after as much again. None: they stay.
    pub max_connection_age: Option<Duration>,
}

/// The names `grpc.health.v1` knows: the server as a whole and the node's two services.
const HEALTH_NAMES: [&str; 3] = ["", services::V1, services::PEERS_V1];

/// The gRPC port's server, ready to [`run`](Self::run).
#[derive(Debug)]
pub struct GrpcServer {
    services: Services,
    health: Health,
    max_connection_age: Option<Duration>,
}

impl GrpcServer {
    /// A server for this node.
    pub async fn new(node: &Node, options: &GrpcOptions) -> Self {
        let health = Health(HealthReporter::new());
        health.report(ServingStatus::Serving).await;
        let reporter = options.health.then_some(&health.0);
        let services = Services::new(node, options.reflection, reporter);
        Self { services, health, max_connection_age: options.max_connection_age }
    }

    /// What `grpc.health.v1` says; a handle that stays valid while the server runs.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Serves `listener` until `drain` is cancelled and the last connection has ended: idle connections go at once,
    /// others when their open calls are answered. Dropping the future closes everything.
    ///
    /// With `tls` the port speaks nothing else.
    pub async fn run(self, listener: TcpListener, tls: Option<TlsPort>, drain: CancellationToken) {
        connections::serve(listener, Arc::new(self.services), tls, self.max_connection_age, drain).await;
    }
}

/// The node's serving state as `grpc.health.v1` reports it.
#[derive(Clone, Debug)]
pub struct Health(HealthReporter);

impl Health {
    /// From now on every service is NOT_SERVING; watchers hear of it.
    pub async fn not_serving(&self) {
        self.report(ServingStatus::NotServing).await;
    }

    /// Ends the calls that watch the state, which are otherwise open for as long as their connection and would
    /// hold up a drain. Only for a server that accepts no more calls: a new one is told NOT_FOUND.
    pub async fn end_watches(&self) {
        let mut reporter = self.0.clone();
        for name in HEALTH_NAMES {
            reporter.clear_service_status(name).await;
        }
    }

    async fn report(&self, status: ServingStatus) {
        for name in HEALTH_NAMES {
            self.0.set_service_status(name, status).await;
        }
    }
}
