//! What one node keeps about one peer: the batcher and the breaker.

use flyball_core::cluster::{BatchSettings, Batcher, Health, HealthSettings, Pushed, Size};
use flyball_core::time::Instant;

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
    /// The number of its walk: one pass over a call's checks.
    pub walk: u64,
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
}

impl Link {
    /// To a peer nobody has called yet.
    pub fn new(made: u64, batch: BatchSettings, seed: u64) -> Self {
        let health = Health::new(HealthSettings { seed, ..HealthSettings::default() });
        Self { made, batcher: Batcher::new(batch), health }
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
}
