//! A key's history: what was asked when. And a key on its own, without a store around it.

use flyball_core::algorithm::{Bucket, Outcome, decide};
use flyball_core::{Behavior, CheckError, Decision, Key, Request, Rules, Source, Timestamp};
use proptest::prelude::*;

/// 2026-11-30 00:00:00 UTC, a Monday.
pub(crate) const START: i64 = 1_796_083_200_000;

pub(crate) const TOKEN: i32 = 0;
pub(crate) const LEAKY: i32 = 1;

/// One request `after` milliseconds after the one before (may be negative: clocks step back).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) after: i64,
    /// The client's clock minus the node's.
    pub(crate) skew: i64,
    pub(crate) request: Request<'static>,
}

pub(crate) fn request(algorithm: i32, hits: i64, limit: i64, duration: i64) -> Request<'static> {
    Request {
        key: Key { name: "law", unique_key: "k" },
        hits,
        limit,
        duration,
        algorithm,
        behavior: Behavior::BATCHING,
        burst: 0,
        created_at: None,
        max_wait: 0,
    }
}

pub(crate) fn step(after: i64, request: Request<'static>) -> Step {
    Step { after, skew: 0, request }
}

/// The bucket of one key, and the time.
#[derive(Debug)]
pub(crate) struct KeyUnderTest {
    pub(crate) bucket: Option<Bucket>,
    pub(crate) now: i64,
    pub(crate) rules: Rules,
}

impl KeyUnderTest {
    pub(crate) fn new() -> Self {
        Self { bucket: None, now: START, rules: Rules::default() }
    }

    pub(crate) fn outcome(&mut self, step: &Step) -> Result<Outcome, CheckError> {
        self.now = self.now.saturating_add(step.after);
        let mut request = step.request;
        if step.skew != 0 {
            request.created_at = Some(self.now + step.skew);
        }
        let admitted = self.rules.admit(&request, Source::Client, Timestamp(self.now))?;
        let outcome = decide(self.bucket.as_ref(), &admitted.check, Timestamp(self.now), &self.rules);
        self.bucket = outcome.bucket;
        Ok(outcome)
    }

    pub(crate) fn ask(&mut self, step: &Step) -> Decision {
        self.outcome(step).and_then(|outcome| outcome.answer).expect("the step is a valid check")
    }
}

/// Histories over few values, so that edges are met often.
pub(crate) fn steps(
    request: impl Strategy<Value = Request<'static>> + 'static,
    length: usize,
) -> impl Strategy<Value = Vec<Step>> {
    let after = prop_oneof![
        4 => Just(0_i64),
        4 => 1..50_i64,
        4 => prop::sample::select(vec![333, 500, 999, 1_000, 1_001, 6_000, 12_000, 30_000, 59_999, 60_000, 60_001]),
        1 => 0..400_000_i64,
    ];
    prop::collection::vec((after, request).prop_map(|(after, request)| step(after, request)), 1..length)
}
