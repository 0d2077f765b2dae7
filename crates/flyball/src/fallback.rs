//! Answers for checks whose owner cannot be reached; see [`Unreachable`] for the choices.
//!
//! Buckets that stand in for an unreachable owner's lie in a small store of their own, so that none is ever taken for the
//! node's own. They live until their windows end, whether the owner is back before or not: an owner that comes and
//! goes would otherwise earn its callers a new share with each time.

use flyball_core::cluster::{Unreachable, share_of};
use flyball_core::store::{Role, Store, StoreSettings};
use flyball_core::{Behavior, CheckError, Decision, Request, Rules, Semantics, Source, Status, Timestamp};
use flyball_proto::convert;

use crate::pb;

/// Metadata entry of an answer that was not the owner's: why it was not.
pub(crate) const DEGRADED: &str = "degraded";
pub(crate) const OWNER_UNREACHABLE: &str = "owner-unreachable";

/// The part of the node's memory that stands in for others, one in so many bytes.
const PART_OF_STORE: usize = 8;

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct Fallback {
    policy: Unreachable,
    rules: Rules,
    store: Store,
}

impl Fallback {
    /// `store` is how the node's own store is laid out.
    pub(crate) fn new(policy: Unreachable, rules: &Rules, store: &StoreSettings) -> Self {
        let part = StoreSettings {
            shards: store.shards.min(8),
            bytes_max: store.bytes_max / PART_OF_STORE,
            entries_max: store.entries_max.map(|entries| (entries / PART_OF_STORE).max(1)),
            ..store.clone()
        };
        Self { policy, rules: rules.clone(), store: Store::new(&part) }
    }

    /// Answers in the stead of the owner, one of so many nodes. `error` is the item error, for when there is no decision.
    pub(crate) fn answer(
        &self,
        nodes: usize,
        request: &Request<'_>,
        error: String,
        now: Timestamp,
    ) -> pb::RateLimitResp {
        // A place in the queue can be promised by one node only.
        if request.max_wait != 0 || self.policy == Unreachable::Error {
            return self.refusal(error);
        }
        let made = match self.policy {
            Unreachable::LocalShare => self.decide(&share_of(request, nodes), now),
            Unreachable::Local => self.decide(request, now),
            Unreachable::Deny | Unreachable::Error => Ok(self.deny(request, now)),
        };
        let mut answer = match made {
            Ok(decision) => convert::decision(&Decision { limit: request.limit, ..decision }),
            Err(error) => convert::answer(&Err(error), request.key, Source::Peer),
        };
        answer.metadata.insert(DEGRADED.to_owned(), OWNER_UNREACHABLE.to_owned());
        answer
    }

    /// An item error that nobody takes for a grant, except where every answer must be the original's.
    pub(crate) fn refusal(&self, error: String) -> pb::RateLimitResp {
        let mut answer = convert::item_error(error);
        if self.rules.semantics == Semantics::Exact {
            answer.status = Status::OverLimit as i32;
        }
        answer
    }

    fn decide(&self, request: &Request<'_>, now: Timestamp) -> Result<Decision, CheckError> {
        let admitted = self.rules.admit(request, Source::Peer, now)?;
        if request.hits < 0 && self.policy == Unreachable::LocalShare {
            // The share never took these units.
            return Ok(self.deny(request, now));
        }
        self.store.apply(&admitted.check, now, &self.rules, Role::Replica)
    }

    /// Refused, until the window that begins now would be over.
    fn deny(&self, request: &Request<'_>, now: Timestamp) -> Decision {
        let end = if request.behavior.has(Behavior::DURATION_IS_GREGORIAN) {
            self.rules.calendar.end(request.duration, now, self.rules.semantics).unwrap_or(now.ms())
        } else {
            now.saturating_add(request.duration.max(0)).ms()
        };
        let status = Status::OverLimit;
        Decision { status, limit: request.limit, reset_time: end, ..Decision::default() }
    }

    /// Frees what has expired.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.store.sweep(now);
    }
}

#[cfg(test)]
mod tests {
    use flyball_core::Key;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn request(unique_key: &str) -> Request<'_> {
        Request {
            key: Key { name: "n", unique_key },
            hits: 1,
            limit: 10,
            duration: 60_000,
            algorithm: 0,
            behavior: Behavior::default(),
            burst: 0,
            created_at: Some(NOW.ms()),
            max_wait: 0,
        }
    }

    fn fallback(policy: Unreachable, semantics: Semantics) -> Fallback {
        let rules = Rules { semantics, ..Rules::default() };
        Fallback::new(policy, &rules, &StoreSettings { semantics, ..StoreSettings::default() })
    }

    fn ask(fallback: &Fallback, request: &Request<'_>) -> pb::RateLimitResp {
        fallback.answer(3, request, "while fetching".to_owned(), NOW)
    }

    #[test]
    fn a_share_is_granted_and_no_more() {
        for semantics in [Semantics::Exact, Semantics::Gubernator] {
            let fallback = fallback(Unreachable::LocalShare, semantics);
            for expected in [3, 2, 1, 0] {
                let answer = ask(&fallback, &request("k"));
                assert_eq!((answer.status, answer.limit, answer.remaining), (0, 10, expected));
                assert_eq!(answer.metadata[DEGRADED], OWNER_UNREACHABLE);
            }
            assert_eq!(ask(&fallback, &request("k")).status, 1);
            assert_eq!(
                ask(&fallback, &Request { hits: -5, ..request("k") }).status,
                1,
                "refunds are refused"
            );
            assert_eq!(ask(&fallback, &request("k")).status, 1);
            assert_eq!(ask(&fallback, &request("other")).remaining, 3);
            // Whatever became of the owner meanwhile, the share is one for as long as its window lasts.
            let after = |ms| Timestamp(NOW.ms() + ms);
            let later = |ms| fallback.answer(3, &request("k"), String::new(), after(ms));
            fallback.sweep(after(59_999));
            assert_eq!(later(59_999).status, 1);
            let created = Request { created_at: None, ..request("k") };
            assert_eq!(fallback.answer(3, &created, String::new(), after(60_001)).remaining, 3);
        }
    }

    #[test]
    fn each_policy_answers_in_its_way() {
        let local = fallback(Unreachable::Local, Semantics::Exact);
        assert_eq!(ask(&local, &request("k")).remaining, 9);
        let deny = fallback(Unreachable::Deny, Semantics::Exact);
        let denied = ask(&deny, &request("k"));
        assert_eq!((denied.status, denied.limit, denied.remaining), (1, 10, 0));
        assert_eq!((denied.reset_time, denied.error.as_str()), (NOW.ms() + 60_000, ""));
        let error = ask(&fallback(Unreachable::Error, Semantics::Exact), &request("k"));
        assert_eq!((error.status, error.error.as_str()), (1, "while fetching"));
        let error = ask(&fallback(Unreachable::Error, Semantics::Gubernator), &request("k"));
        assert_eq!((error.status, error.limit, error.metadata.len()), (0, 0, 0), "as the original");
    }

    #[test]
    fn a_place_in_the_queue_is_never_promised() {
        for policy in [Unreachable::LocalShare, Unreachable::Local, Unreachable::Deny, Unreachable::Error] {
            let fallback = fallback(policy, Semantics::Exact);
            let waiting = Request { max_wait: 1_000, algorithm: 1, ..request("k") };
            let answer = ask(&fallback, &waiting);
            assert_eq!((answer.status, answer.error.as_str()), (1, "while fetching"), "{policy:?}");
        }
    }
}
