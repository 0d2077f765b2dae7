//! The bucket store: against a naive model, and by its promises.
//!
//! Shards need no lock and are tested in every build. What needs the locked store cannot run with shuttle's
//! locks, which work only inside of a shuttle test.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[cfg(not(feature = "shuttle"))]
mod batch;
mod eviction;
mod expiry;
#[cfg(not(feature = "shuttle"))]
mod identity;
#[cfg(not(feature = "shuttle"))]
mod inventory;
mod model;
mod support;
