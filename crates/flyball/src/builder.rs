//! Puts a node together from values and components.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use flyball_core::cluster::View;
use flyball_core::store::Store;
use flyball_core::time::Clock;
use opentelemetry::trace::Tracer;
use tokio_util::sync::CancellationToken;

use crate::clock::SystemClock;
use crate::fallback::Fallback;
use crate::global::{self, Globals};
use crate::intake::Intake;
use crate::membership::Cluster;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::peer_source::Report;
use crate::peers::guard::Guard;
use crate::peers::peer::PeerShared;
use crate::peers::source::OwnSource;
use crate::peers::tls::PeerTls;
use crate::service::Inner;
use crate::settings::Settings;
use crate::sweep;
use crate::trace::{TraceLevel, Tracing};

/// Builds a [`Node`]. Every part has a default: without any call a node runs on the system's clock, with
/// [`Settings::default`], metrics of its own and no traces.
#[derive(Debug, Default)]
pub struct NodeBuilder {
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
    metrics: Option<Metrics>,
    tracing: Option<Tracing>,
    peer_tls: Option<Arc<dyn PeerTls>>,
}

impl NodeBuilder {
    /// The plain values.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Where the node gets the time from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// What the metrics page shows.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Reports spans to `tracer`, as much as `level` says. Sampling is the tracer's decision.
    #[must_use]
    pub fn tracer<T>(mut self, tracer: T, level: TraceLevel) -> Self
    where
        T: Tracer + Send + Sync + 'static,
        T::Span: Send + Sync + 'static,
    {
        self.tracing = Some(Tracing::new(Box::new(tracer), level));
        self
    }

    /// Secures the connections to peers. Without it they are plain; there is no falling back from one to the other.
    #[must_use]
    pub fn peer_tls(mut self, tls: Arc<dyn PeerTls>) -> Self {
        self.peer_tls = Some(tls);
        self
    }

    /// The node, running.
    ///
    /// It spawns a few tasks on the current tokio runtime, which free expired buckets and keep GLOBAL limits in step until
    /// the node is closed or its last handle is dropped. Outside a runtime there are no such tasks: the node answers
    /// all the same, and memory stays bounded by the store's limits, but expired buckets leave only to make
    /// room. It has to stay alone then: a node with peers needs its runtime.
    pub fn build(self) -> Node {
        let Settings { advertise_address, data_center, rules, mut store, mut cluster } = self.settings;
        store.semantics = rules.semantics;
        if store.seed == 0 {
            store.seed = random();
        }
        cluster.global.seed = store.seed;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let fallback = Arc::new(Fallback::new(cluster.unreachable, &rules, &store));
        let store = Arc::new(Store::new(&store));
        let metrics = self.metrics.unwrap_or_default();
        metrics.attach(Arc::clone(&store), Arc::clone(&clock));
        let closing = CancellationToken::new();
        sweep::spawn(Arc::clone(&store), Arc::clone(&fallback), Arc::clone(&clock), closing.clone());
        let view = View::alone(&advertise_address, &data_center, cluster.ring);
        let source = Arc::new(OwnSource::new(&advertise_address));
        let inner = Arc::new(Inner {
            peer_source: Report::default(),
            guard: Arc::new(Guard::new(cluster.access.clone(), &advertise_address)),
            globals: Globals::new(&cluster, random()),
            shared: Arc::new(PeerShared::new(cluster, source, self.peer_tls)),
            cluster: ArcSwap::from_pointee(Cluster::alone(view)),
            changing: tokio::sync::Mutex::default(),
            fallback,
            seed: random(),
            advertise_address,
            data_center,
            rules,
            store,
            clock,
            metrics,
            intake: Intake::default(),
            tracing: self.tracing,
            draining: AtomicBool::new(false),
            closing,
        });
        inner.metrics.attach_node(Arc::downgrade(&inner));
        global::spawn(Arc::clone(&inner));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (guard, closing) = (Arc::clone(&inner.guard), inner.closing.clone());
            runtime.spawn(async move { closing.run_until_cancelled(guard.keep_looking_up()).await });
            let (source, closing) = (Arc::clone(&inner.shared.source), inner.closing.clone());
            runtime.spawn(async move { closing.run_until_cancelled(source.keep_looking_up()).await });
        }
        Node::from(inner)
    }
}

/// The standard library's hash keys are the only random source it has; they come from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
