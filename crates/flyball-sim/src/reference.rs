//! One naive limiter with perfect knowledge: a bucket in a variable, and nobody else who could touch it.
//!
//! It shares the arithmetic with the product, which has models of its own to be compared with. What it does not share is
//! all that a node does between two checks: the store, its expiry, copies, broadcasts, batches.

use flyball_core::algorithm::{Bucket, decide};
use flyball_core::{Answer, Rules, Source, Timestamp};

use crate::message::{Applied, Origin};

/// See [the module](self).
#[derive(Clone, Debug)]
pub struct Reference {
    bucket: Option<Bucket>,
    /// The latest the node's clock has shown. A bucket that was dead then may have left memory since, even if the
    /// clock was set back.
    latest: Timestamp,
}

impl Reference {
    /// From a bucket as it is now.
    pub const fn new(bucket: Option<Bucket>, latest: Timestamp) -> Self {
        Self { bucket, latest }
    }

    /// What the check should have been told; `None` when that cannot be known.
    pub fn apply(&mut self, applied: &Applied, rules: &Rules) -> Option<Answer> {
        self.latest = self.latest.max(applied.wall);
        let freed = self.bucket.is_some_and(|bucket| !bucket.is_alive(self.latest));
        if freed && applied.before.is_none() {
            self.bucket = None;
        }
        let source = if applied.origin == Origin::Client { Source::Client } else { Source::Peer };
        let request = applied.asked.request();
        let check = rules.admit(&request, source, applied.wall).ok()?.check;
        let outcome = decide(self.bucket.as_ref(), &check, applied.wall, rules);
        self.bucket = outcome.bucket;
        Some(outcome.answer)
    }
}
