//! A node from outside: through its services and through its handle.

// Helpers of tests: a panic there is the failure it should be.
#![allow(clippy::unwrap_used)]

mod cluster;
mod common;
mod embedding;
mod forwarding;
mod intake;
mod inventory;
mod metrics;
mod network;
mod traces;
mod traces_of_peers;
mod wire;
