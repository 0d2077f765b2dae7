//! What the node counts, under the names dashboards already know, and a few of our own.
//!
//! Nothing is registered anywhere: every number lives where it is counted (the store's shards, the slots of
//! `counters`) and the page is put together when somebody asks for it. So two nodes in one process have two
//! pages, and counting costs a thread-local addition per call.
//!
//! Names and labels are the original's. Where it has summaries, `_count` is exact, `_sum` is an estimate from
//! sampled calls that never falls, and quantiles look back over five to ten minutes of samples. All label
//! values come from fixed lists, so the number of series is bounded. A labelled family is absent until its
//! first use; families of cluster work that a node alone never does are present at zero.

mod cluster;
pub(crate) mod counters;
mod more;
mod page;
mod process;
pub(crate) mod timing;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use flyball_core::store::{Store, StoreStats};
use flyball_core::time::{Clock, Timestamp};

use self::counters::{CallTotals, Counters, ErrorKind, Sample, Slot, Tally};
pub use self::more::{Family, FamilyKind, FamilyLabels, MoreMetrics};
use self::page::{Labels, Page};
use self::timing::{Snapshot, Timing};
use crate::method::Method;
use crate::service::Inner;
use crate::top_keys::TopKeys;

/// What the page shows besides the node's own numbers.
#[derive(Clone, Debug)]
pub struct MetricsOptions {
    /// Adds `gubernator_process_*` (Linux only): CPU, memory, file descriptors. Default off.
    pub process: bool,
    /// Shown in `flyball_build_info`. Default: the version of this crate.
    pub version: String,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self { process: false, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// Internal steps that are timed, in the words of `gubernator_func_duration`.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Step {
    GetRateLimits,
    GetPeerRateLimits,
    UpdatePeerGlobals,
    LocalRateLimit,
    TokenBucket,
    LeakyBucket,
}

const STEPS: usize = 6;

/// A node's counters and their page. Belongs to one node: it is handed to the builder and from then on
/// reached through [`Node::metrics`](crate::Node::metrics).
#[derive(Debug)]
pub struct Metrics {
    options: MetricsOptions,
    counters: Counters,
    calls: [Timing; Method::ALL.len()],
    steps: [Timing; STEPS],
    scrapes_running: AtomicU64,
    scrapes_done: AtomicU64,
    store: OnceLock<(Arc<Store>, Arc<dyn Clock>)>,
    started: OnceLock<(Timestamp, Instant)>,
    /// Whose peers the page shows.
    node: OnceLock<Weak<Inner>>,
    top_refused: TopKeys,
    more: Vec<Arc<dyn MoreMetrics>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(MetricsOptions::default())
    }
}

impl Metrics {
    /// All at zero.
    pub fn new(options: MetricsOptions) -> Self {
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        Self {
            options,
            counters: Counters::new(threads),
            calls: Default::default(),
            steps: Default::default(),
            scrapes_running: AtomicU64::new(0),
            scrapes_done: AtomicU64::new(0),
            store: OnceLock::new(),
            started: OnceLock::new(),
            node: OnceLock::new(),
            top_refused: TopKeys::new(threads, RandomState::new().build_hasher().finish()),
            more: Vec::new(),
        }
    }

    /// With more on the page, after the node's own.
    #[must_use]
    pub fn with(mut self, more: Arc<dyn MoreMetrics>) -> Self {
        self.more.push(more);
        self
    }

    /// Whose buckets the page shows. The first call counts: a node attaches itself when it is built.
    pub(crate) fn attach(&self, store: Arc<Store>, clock: Arc<dyn Clock>) {
        let _ = self.started.set((clock.now(), Instant::now()));
        let _ = self.store.set((store, clock));
    }

    /// Whose peers the page shows. Weak: the node owns its metrics.
    pub(crate) fn attach_node(&self, node: Weak<Inner>) {
        let _ = self.node.set(node);
    }

    /// When the node was built, by its clock and for measuring.
    pub(crate) fn started(&self) -> Option<(Timestamp, Instant)> {
        self.started.get().copied()
    }

    /// The keys that are refused most.
    pub(crate) fn top_refused(&self) -> &TopKeys {
        &self.top_refused
    }

    /// Totals over all threads.
    pub(crate) fn totals(&self) -> Tally {
        self.counters.tally()
    }

    /// Calls of a method, and how long they take.
    pub(crate) fn calls(&self, method: Method) -> (CallTotals, Snapshot) {
        (self.counters.calls(method), self.calls[method as usize].snapshot(Instant::now()))
    }

    /// The version that is shown.
    pub(crate) fn version(&self) -> &str {
        &self.options.version
    }

    /// The calling thread's counters.
    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        self.counters.slot()
    }

    /// A sampled call ended.
    pub(crate) fn call_took(&self, method: Method, sample: Sample) {
        let now = Instant::now();
        self.calls[method as usize].record(now.duration_since(sample.started), sample.weight, now);
    }

    /// A step of a sampled call took so long; it stands for `weight` of its kind.
    pub(crate) fn step_took(&self, step: Step, took: Duration, weight: u64) {
        self.steps[step as usize].record(took, weight, Instant::now());
    }

    /// The page for a scraper, counted as a scrape. What it says about buckets is as of the last sweep of the
    /// node, a quarter of a second ago: a scrape never waits for buckets to expire, however many are due.
    pub fn scrape(&self) -> String {
        self.scrapes_running.fetch_add(1, Relaxed);
        let text = self.page(Store::counted);
        self.scrapes_running.fetch_sub(1, Relaxed);
        self.scrapes_done.fetch_add(1, Relaxed);
        text
    }

    /// The page in Prometheus' text format, as [`CONTENT_TYPE`], exact to a tick of 64 ms: it sweeps first, which
    /// takes long when very many buckets are due. Serve [`scrape`](Self::scrape).
    pub fn render(&self) -> String {
        let now = self.store.get().map(|(_, clock)| clock.now()).unwrap_or_default();
        self.page(|store| store.stats(now))
    }

    fn page(&self, stats: impl FnOnce(&Store) -> StoreStats) -> String {
        let mut page = Page::default();
        let calls = Method::ALL.map(|method| (method, self.counters.calls(method)));
        let tally = self.counters.tally();
        self.checks(&mut page, &calls, &tally);
        self.durations(&mut page, &calls, &tally);
        if let Some((store, _)) = self.store.get() {
            buckets(&mut page, &stats(store));
        }
        let node = self.node.get().and_then(Weak::upgrade);
        cluster::cluster(&mut page, &tally, node.as_deref());
        self.own(&mut page, &tally);
        self.scrapes(&mut page);
        for more in &self.more {
            more.families().iter().for_each(|family| page.more(family));
        }
        if self.options.process {
            process::collect(&mut page);
        }
        page.text()
    }

    fn checks(&self, page: &mut Page, calls: &[(Method, CallTotals)], tally: &Tally) {
        let decided = tally.token + tally.leaky;
        let kinds: [(Labels<'_>, u64); 2] =
            [(&[("calltype", "global")], tally.replica), (&[("calltype", "local")], decided)];
        page.counters(
            "gubernator_getratelimit_counter",
            "Checks decided, by how: local means as the owner of the key, global on a copy of its bucket.",
            kinds.into_iter().filter(|(_, count)| *count > 0),
        );
        let errors = ErrorKind::ALL.map(|kind| ([("error", kind.label())], tally.errors[kind as usize]));
        page.counters(
            "gubernator_check_error_counter",
            "Checks that failed, by cause.",
            errors
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(labels, count)| (labels as Labels<'_>, *count)),
        );
        let running =
            calls.iter().find(|(method, _)| *method == Method::GetRateLimits).map_or(0, |(_, call)| {
                // Summed while calls come and go, the two may be off by a few; never below zero.
                call.started.saturating_sub(call.finished())
            });
        page.gauge(
            "gubernator_concurrent_checks_counter",
            "Calls of V1.GetRateLimits in progress.",
            running as f64,
        );
        let attempts = [ErrorKind::TokenBucket, ErrorKind::LeakyBucket, ErrorKind::InvalidAlgorithm]
            .into_iter()
            .fold(decided, |sum, kind| sum + tally.errors[kind as usize]);
        let work: [([(&str, &str); 2], u64); 2] = [
            ([("method", "AddCacheItem"), ("worker", "0")], tally.updates),
            ([("method", "GetRateLimit"), ("worker", "0")], attempts),
        ];
        let seen = || work.iter().filter(|(_, count)| *count > 0);
        page.counters(
            "gubernator_command_counter",
            "Work on buckets. There are no workers: all of it counts for worker 0.",
            seen().map(|(labels, count)| (labels as Labels<'_>, *count)),
        );
        page.gauges(
            "gubernator_worker_queue_length",
            "Always 0: a check never queues, it locks its shard for as long as it takes to decide.",
            seen().map(|(labels, _)| (labels as Labels<'_>, 0.0)),
        );
        let finished = || calls.iter().filter(|(_, call)| call.finished() > 0);
        let mut outcomes = Vec::new();
        for (method, call) in finished() {
            outcomes.push(([("method", method.path()), ("status", "failed")], call.failed));
            outcomes.push(([("method", method.path()), ("status", "success")], call.succeeded));
        }
        page.counters(
            "gubernator_grpc_request_counts",
            "Finished calls, those that came over HTTP included.",
            outcomes.iter().map(|(labels, count)| (labels as Labels<'_>, *count)),
        );
    }

    fn durations(&self, page: &mut Page, calls: &[(Method, CallTotals)], tally: &Tally) {
        let now = Instant::now();
        let finished: Vec<_> = calls
            .iter()
            .filter(|(_, call)| call.finished() > 0)
            .map(|(method, call)| ([("method", method.path())], call.finished(), *method))
            .collect();
        let timing = |method: Method| self.calls[method as usize].snapshot(now);
        page.summaries(
            "gubernator_grpc_request_duration",
            "Seconds per call. The count is exact; sum and quantiles come from sampled calls.",
            &[0.5, 0.99],
            finished.iter().map(|(labels, count, method)| (labels as Labels<'_>, *count, timing(*method))),
        );
        page.histograms(
            "flyball_request_duration_seconds",
            "Seconds per call, from sampled calls weighted to stand for all.",
            finished.iter().map(|(labels, _, method)| (labels as Labels<'_>, timing(*method))),
        );
        let count = |method: Method| calls[method as usize].1.finished();
        let steps = [
            ("V1Instance.GetPeerRateLimits", count(Method::GetPeerRateLimits), Step::GetPeerRateLimits),
            ("V1Instance.GetRateLimits", count(Method::GetRateLimits), Step::GetRateLimits),
            ("V1Instance.UpdatePeerGlobals", count(Method::UpdatePeerGlobals), Step::UpdatePeerGlobals),
            ("V1Instance.getLocalRateLimit", tally.token + tally.leaky, Step::LocalRateLimit),
            ("V1Instance.getRateLimit_leakyBucket", tally.leaky, Step::LeakyBucket),
            ("tokenBucket", tally.token, Step::TokenBucket),
        ];
        let steps = steps.map(|(name, count, step)| ([("name", name)], count, step));
        page.summaries(
            "gubernator_func_duration",
            "Seconds per internal step. The count is exact; sum and quantiles come from sampled calls.",
            &[0.5, 0.99, 1.0],
            steps.iter().filter(|(_, count, _)| *count > 0).map(|(labels, count, step)| {
                (labels as Labels<'_>, *count, self.steps[*step as usize].snapshot(now))
            }),
        );
    }

    fn own(&self, page: &mut Page, tally: &Tally) {
        page.counter(
            "flyball_created_at_clamped_total",
            "Checks whose created_at lay too far from this node's clock and was moved.",
            tally.clamped,
        );
        page.counter(
            "flyball_peer_updates_skipped_total",
            "Items of broadcasts without a status, which say nothing and are skipped.",
            tally.updates_skipped,
        );
        page.counter(
            "flyball_intake_refused_total",
            "Requests refused because the unfinished ones hold all the memory they may.",
            tally.intake_refused,
        );
        let build: Labels<'_> = &[("version", &self.options.version)];
        page.gauges("flyball_build_info", "Always 1; the label tells the version.", [(build, 1.0)]);
    }

    fn scrapes(&self, page: &mut Page) {
        page.gauge(
            "promhttp_metric_handler_requests_in_flight",
            "Scrapes in progress.",
            self.scrapes_running.load(Relaxed) as f64,
        );
        let done = self.scrapes_done.load(Relaxed);
        let codes: [(Labels<'_>, u64); 3] =
            [(&[("code", "200")], done), (&[("code", "500")], 0), (&[("code", "503")], 0)];
        page.counters("promhttp_metric_handler_requests_total", "Scrapes served, by HTTP status.", codes);
    }
}

/// The media type of the metrics page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the store holds and what happened in it.
fn buckets(page: &mut Page, stats: &StoreStats) {
    let access: [(Labels<'_>, u64); 2] =
        [(&[("type", "hit")], stats.hits), (&[("type", "miss")], stats.misses)];
    page.counters(
        "gubernator_cache_access_count",
        "Checks that found a live bucket, and that did not.",
        access.into_iter().filter(|(_, count)| *count > 0),
    );
    page.gauge("gubernator_cache_size", "Live buckets.", stats.entries as f64);
    page.counter(
        "gubernator_unexpired_evictions_count",
        "Live buckets that had to make room.",
        stats.evicted_alive,
    );
    page.counter("gubernator_over_limit_counter", "Owner's answers over the limit.", stats.over_limit);
    page.counter("gubernator_scheduled_count", "Slots booked for max_wait checks.", stats.scheduled);
    page.counter(
        "gubernator_scheduled_ceiling_refused_count",
        "max_wait checks that would have waited longer than this node allows.",
        stats.ceiling_refused,
    );
    page.counter(
        "gubernator_scheduled_debt_reset_count",
        "Debts ended by a reset or by a change of algorithm.",
        stats.debt_dropped,
    );
    page.gauge(
        "flyball_store_bytes",
        "What all buckets cost, their bookkeeping included.",
        stats.bytes as f64,
    );
    page.gauge(
        "flyball_store_resident",
        "Buckets in memory, those included that expired and are not freed yet.",
        stats.resident as f64,
    );
    page.counter("flyball_expired_total", "Expired buckets that were freed.", stats.expired);
    page.counter(
        "flyball_evicted_in_debt_total",
        "Live buckets that had to make room although slots were booked on them.",
        stats.evicted_in_debt,
    );
    page.counter(
        "flyball_oversized_total",
        "Buckets not kept because their key alone is more than a shard may use.",
        stats.oversized,
    );
}
