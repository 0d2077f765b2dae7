//! A whole cluster in one thread.
//!
//! Real in it: the algorithms, the store, the ring, views, routes and every machine of `flyball_core::cluster`.
//! Replaced: network, clocks, timers and chance. One seed decides everything ([`swarm`]), a step is "deliver the
//! next packet or fire the next deadline" ([`world`]), and whatever happens is shown to the [`invariants`]. A run is chaos
//! first; then all troubles end, every GLOBAL key is asked once more on every node, and the cluster must converge.
//!
//! What it restates is the glue of a node ([`node`]); that this and the real glue agree is for the
//! [scenarios](scenario) to show, which run over real nodes too.

pub mod clock;
pub mod fault;
pub mod invariants;
pub mod legacy;
pub mod link;
pub mod message;
pub mod network;
pub mod node;
pub mod reference;
mod run;
pub mod scenario;
pub mod shares;
pub mod swarm;
pub mod trace;
pub mod workload;
pub mod world;

pub use run::{Failed, Passed, run};
