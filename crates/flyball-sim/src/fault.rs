//! Faults on purpose, by which the simulator shows that it would have found them. They live in the simulator's own
//! glue: product code has no switch for being wrong.

use clap::ValueEnum;

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// A batch of GLOBAL hits whose send failed is taken for delivered.
    LostHits,
    /// A batch that is sent again gets another number.
    Renumbered,
    /// Broadcasts are taken in whatever order they arrive.
    StaleBroadcast,
    /// A peer's check is routed again by the receiver's view.
    RoutingLoop,
    /// GLOBAL hits are gathered without a bound.
    Unbounded,
    /// Buckets are read for a broadcast by applying the last check once more, flags included.
    ResetInRead,
    /// A broadcast replaces the bucket of a node that owns the key.
    OwnOverwritten,
    /// A copy forgets what its owner did not know yet.
    NotSubtracted,
    /// A forward that was not answered is sent again.
    ForwardRepeated,
    /// What was granted in an owner's stead is forgotten when the owner is back.
    ShareForgotten,
    /// A node that is asked to stop just ends.
    NotFlushed,
}

impl Fault {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::LostHits,
        Self::Renumbered,
        Self::StaleBroadcast,
        Self::RoutingLoop,
        Self::Unbounded,
        Self::ResetInRead,
        Self::OwnOverwritten,
        Self::NotSubtracted,
        Self::ForwardRepeated,
        Self::ShareForgotten,
        Self::NotFlushed,
    ];
}
