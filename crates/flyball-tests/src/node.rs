//! A node without a network, on a clock that stands still until a test moves it, and short words for asking it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flyball::pb::{
    GetPeerRateLimitsReq, GetRateLimitsReq, RateLimitReq, RateLimitResp, Status, UpdatePeerGlobal,
    UpdatePeerGlobalsReq,
};
use flyball::{
    CallContext, CallError, FakeClock, Node, Rules, Semantics, Settings, StoreSettings, Timestamp,
};
use tokio::runtime::{Builder, Runtime};

/// When tests begin unless they say otherwise: Wednesday 2027-01-13 12:00:00 UTC, Unix milliseconds.
pub const START: i64 = 1_799_841_600_000;
/// Milliseconds.
pub const MINUTE: i64 = 60_000;
/// Milliseconds.
pub const HOUR: i64 = 60 * MINUTE;
/// Milliseconds.
pub const DAY: i64 = 24 * HOUR;

/// Ten units a minute of a token bucket, one of them taken.
pub fn token(key: &str) -> RateLimitReq {
    RateLimitReq {
        name: "test".to_owned(),
        unique_key: key.to_owned(),
        hits: 1,
        limit: 10,
        duration: MINUTE,
        ..RateLimitReq::default()
    }
}

/// The same of a leaky bucket.
pub fn leaky(key: &str) -> RateLimitReq {
    RateLimitReq { algorithm: 1, ..token(key) }
}

/// The behavior flags, as numbers that can be added.
pub mod flag {
    #![allow(missing_docs)]
    pub const NO_BATCHING: i32 = 1;
    pub const GLOBAL: i32 = 2;
    pub const GREGORIAN: i32 = 4;
    pub const RESET: i32 = 8;
    pub const MULTI_REGION: i32 = 16;
    pub const DRAIN: i32 = 32;
}

/// A node on a [`FakeClock`]; tokio's own time stands still too, and jumps only in [`TestNode::rest`].
pub struct TestNode {
    node: Node,
    clock: Arc<FakeClock>,
    runtime: Runtime,
}

impl fmt::Debug for TestNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestNode at {}", self.now())
    }
}

impl TestNode {
    /// With exact semantics.
    pub fn exact() -> Self {
        Self::new(Rules::default(), StoreSettings::default())
    }

    /// With the original's.
    pub fn gubernator() -> Self {
        Self::new(Rules { semantics: Semantics::Gubernator, ..Rules::default() }, StoreSettings::default())
    }

    /// With these rules and this store.
    ///
    /// # Panics
    /// When there is no tokio runtime to be had.
    pub fn new(rules: Rules, store: StoreSettings) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing that could be missing");
        let clock = Arc::new(FakeClock::new(Timestamp(START)));
        let settings =
            Settings { advertise_address: "192.0.2.1:1051".to_owned(), rules, store, ..Settings::default() };
        let node = {
            let _inside = runtime.enter();
            Node::builder().settings(settings).clock(clock.clone()).build()
        };
        Self { node, clock, runtime }
    }

    /// The node itself.
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// What its clock shows, Unix milliseconds.
    pub fn now(&self) -> i64 {
        flyball::Clock::now(&*self.clock).ms()
    }

    /// Moves its clock.
    pub fn advance(&self, ms: i64) {
        self.clock.advance(ms);
    }

    /// Sets its clock, Unix milliseconds.
    pub fn set(&self, ms: i64) {
        self.clock.set(Timestamp(ms));
    }

    /// Lets background tasks run for so many milliseconds of tokio's time; the node's clock stands still.
    pub fn rest(&self, ms: u64) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
    }

    /// Asks as a client.
    pub fn call(&self, requests: Vec<RateLimitReq>) -> Result<Vec<RateLimitResp>, CallError> {
        let request = GetRateLimitsReq { requests };
        self.runtime
            .block_on(self.node.get_rate_limits(request, CallContext::default()))
            .map(|answer| answer.responses)
    }

    /// Asks as a peer.
    pub fn peer_call(&self, requests: Vec<RateLimitReq>) -> Result<Vec<RateLimitResp>, CallError> {
        let request = GetPeerRateLimitsReq { requests, ..Default::default() };
        self.runtime
            .block_on(self.node.get_peer_rate_limits(request, CallContext::default()))
            .map(|answer| answer.rate_limits)
    }

    /// Broadcasts as a peer.
    pub fn broadcast(&self, globals: Vec<UpdatePeerGlobal>) -> Result<(), CallError> {
        let request = UpdatePeerGlobalsReq { globals, ..Default::default() };
        self.runtime.block_on(self.node.update_peer_globals(request, CallContext::default())).map(|_| ())
    }

    /// The answer to one item.
    #[track_caller]
    pub fn ask(&self, request: RateLimitReq) -> RateLimitResp {
        match self.call(vec![request]) {
            Ok(mut answers) if answers.len() == 1 => answers.remove(0),
            other => panic!("one answer expected: {other:?}"),
        }
    }

    /// Asks one item; the answer must have this status and remainder and no error.
    #[track_caller]
    pub fn expect(&self, request: RateLimitReq, status: Status, remaining: i64) -> RateLimitResp {
        let limit = request.limit;
        let said = format!("{request:?} at START{:+}", self.now() - START);
        let answer = self.ask(request);
        assert_eq!(answer.error, "", "{said}");
        assert_eq!(
            (answer.status(), answer.remaining, answer.limit),
            (status, remaining, limit),
            "{said}: {answer:?}"
        );
        answer
    }

    /// The value of one line of the metrics page; 0 where it is absent. `series` is the name with its labels.
    pub fn metric(&self, series: &str) -> f64 {
        let page = self.node.metrics().render();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }
}
