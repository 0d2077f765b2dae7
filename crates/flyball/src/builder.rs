//! Puts a node together from values and components.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flyball_core::store::Store;
use flyball_core::time::Clock;
use opentelemetry::trace::Tracer;
use tokio_util::sync::CancellationToken;

use crate::clock::SystemClock;
use crate::intake::Intake;
use crate::metrics::Metrics;
use crate::node::Node;
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

    /// The node, running.
    ///
    /// It spawns one task on the current tokio runtime, which frees expired buckets until the node is closed
    /// or its last handle is dropped. Outside a runtime there is no such task: the node answers all the same,
    /// and memory stays bounded by the store's limits, but expired buckets leave only to make room.
    pub fn build(self) -> Node {
        let Settings { advertise_address, data_center, rules, mut store } = self.settings;
        store.semantics = rules.semantics;
        if store.seed == 0 {
            store.seed = RandomState::new().build_hasher().finish();
        }
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let store = Arc::new(Store::new(&store));
        let metrics = self.metrics.unwrap_or_default();
        metrics.attach(Arc::clone(&store), Arc::clone(&clock));
        let closing = CancellationToken::new();
        sweep::spawn(Arc::clone(&store), Arc::clone(&clock), closing.clone());
        Node::from(Inner {
            advertise_address,
            data_center,
            rules,
            store,
            clock,
            metrics,
            intake: Intake::default(),
            tracing: self.tracing,
            draining: AtomicBool::new(false),
            closing: closing.clone(),
            _stop: closing.drop_guard(),
        })
    }
}
