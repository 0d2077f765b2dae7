//! What one node keeps about one peer: the batcher, the breaker, and the shares by which it stands in for the peer.

use flyball_core::cluster::{
    BatchSettings, Batcher, Health, HealthSettings, Pushed, Size, Unreachable, share_of,
};
use flyball_core::store::{Role, Store, StoreSettings};
use flyball_core::time::Instant;
use flyball_core::{Decision, Request, Rules, Source, Status, Timestamp};

use crate::message::Item;

/// Checks of one call for one peer.
#[derive(Debug)]
pub struct Group {
    /// In the call's order.
    pub items: Vec<Item>,
    /// Of the view by which they were routed.
    pub epoch: u64,
    /// How often they were routed before.
    pub round: u8,
}

/// See [the module](self).
#[derive(Debug)]
pub struct Link {
    /// The epoch in which it was made: a peer that left and came back has another.
    pub made: u64,
    /// What travels together.
    pub batcher: Batcher<Group>,
    /// Whether to try.
    pub health: Health,
    shares: Store,
}

impl Link {
    /// To a peer nobody has called yet.
    pub fn new(made: u64, batch: BatchSettings, seed: u64, shares: Store) -> Self {
        let health = Health::new(HealthSettings { seed, ..HealthSettings::default() });
        Self { made, batcher: Batcher::new(batch), health, shares }
    }

    /// When the batcher or the breaker wants to be woken.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.batcher.poll_timeout().into_iter().chain(self.health.poll_timeout()).min()
    }

    /// A group wants to travel.
    pub fn push(&mut self, group: Group, now: Instant) -> Result<[Option<Vec<Group>>; 2], Group> {
        let items = group.items.len();
        match self.batcher.push(group, Size { items, bytes: items * 100 }, now) {
            Pushed::Send(batches, _) => Ok(batches),
            Pushed::Full(group) => Err(group),
        }
    }

    /// Answers for the peer; `None` is an error.
    pub fn fall_back(
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
        if asked.hits < 0 {
            return Some(Decision { status: Status::OverLimit, ..Decision::default() });
        }
        let admitted = rules.admit(&asked, Source::Peer, wall).ok()?;
        self.shares.apply(&admitted.check, wall, rules, Role::Replica).ok()
    }

    /// The peer is back.
    pub fn forget_shares(&mut self) {
        self.shares =
            Store::new(&StoreSettings { shards: 1, bytes_max: 4 << 20, ..StoreSettings::default() });
    }
}
