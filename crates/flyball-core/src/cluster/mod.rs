//! What makes several nodes one limiter, without the network between them.
//!
//! * `peer.rs`, `view.rs`, `route.rs`: who there is, as one immutable [`View`] with a number; who owns a key; what
//!   the node that was asked does with a check.
//! * `batch.rs`: [`Batcher`], the checks that wait to travel to one peer together.
//! * `health.rs`: [`Health`], whether to try a peer at all, and when to look again.
//! * `global_hits.rs`, `outbox.rs`, `pending.rs`: [`GlobalHits`], what a node that does not own a GLOBAL key has granted and its
//!   owner does not know yet.
//! * `global_broadcast.rs`: [`GlobalBroadcast`], the keys whose owner has news for everybody.
//! * `replica.rs`: how copies of GLOBAL buckets are asked, and brought up to date.
//! * `senders.rs`: [`Senders`], by which an owner knows a batch of hits that was sent twice.
//! * `fallback.rs`: what a check is told whose owner cannot be reached.
//!
//! All of them are state machines without I/O. Their verbs are the same everywhere: something happened
//! (`push`, `record`, `succeeded`, `failed`, …, each with the time as an argument), what is to be done is the return value,
//! and `poll_timeout` says when to come back without an event. Two kinds of time occur: [`Timestamp`], the wall
//! clock that limits are about, and [`Instant`], which only ever goes forward and is for windows, timeouts and
//! backoff. The types keep them apart.
//!
//! Order that can be seen from outside comes from sorted or insertion-ordered containers, never from a hash: the
//! same events give the same effects, which is what lets a simulation replay a fault from its seed.
//!
//! [`Timestamp`]: crate::Timestamp
//! [`Instant`]: crate::time::Instant

mod batch;
mod fallback;
mod global_broadcast;
mod global_hits;
mod global_settings;
mod health;
mod key;
mod outbox;
mod peer;
mod pending;
#[cfg(feature = "std")]
mod replica;
mod route;
mod senders;
mod view;

pub use batch::{BatchSettings, Batcher, Pushed, Size};
pub use fallback::{Unreachable, share_of};
pub use global_broadcast::{Broadcast, Dirty, GlobalBroadcast};
pub use global_hits::{GlobalHits, HitsStats};
pub use global_settings::GlobalSettings;
pub use health::{Failure, Health, HealthSettings};
pub use key::OwnedKey;
pub use outbox::{HitsBatch, Unconfirmed};
pub use peer::{PeerInfo, host_of};
pub use pending::SentHits;
#[cfg(feature = "std")]
pub use replica::{News, Replica, Replied, Told, has_taken, news_of, take_news};
pub use route::{REROUTES_MAX, Route, route};
pub use senders::{Seen, Senders, Stamp};
pub use view::{Member, RingSettings, View};
