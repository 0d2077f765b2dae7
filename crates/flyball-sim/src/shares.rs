//! What a node grants in the stead of owners that it cannot reach: the production fallback, restated.

use flyball_core::cluster::{Unreachable, share_of};
use flyball_core::store::{Role, Store};
use flyball_core::{Decision, Request, Rules, Source, Status, Timestamp};

/// See [the module](self).
#[derive(Debug)]
pub struct Shares(Store);

impl Shares {
    /// None granted yet.
    pub fn new(store: Store) -> Self {
        Self(store)
    }

    /// Answers for an owner, one of so many nodes; `None` is an error.
    pub fn answer(
        &self,
        policy: Unreachable,
        request: &Request<'_>,
        nodes: usize,
        rules: &Rules,
        wall: Timestamp,
    ) -> Option<Decision> {
        if request.max_wait != 0 {
            return None;
        }
        let asked = match policy {
            Unreachable::Error => return None,
            Unreachable::Deny => return Some(Decision { status: Status::OverLimit, ..Decision::default() }),
            Unreachable::Local => *request,
            Unreachable::LocalShare => share_of(request, nodes),
        };
        if asked.hits < 0 && policy == Unreachable::LocalShare {
            return Some(Decision { status: Status::OverLimit, ..Decision::default() });
        }
        let admitted = rules.admit(&asked, Source::Peer, wall).ok()?;
        self.0.apply(&admitted.check, wall, rules, Role::Replica).ok()
    }

    /// Frees what has expired.
    pub fn sweep(&self, wall: Timestamp) {
        self.0.sweep(wall);
    }
}
