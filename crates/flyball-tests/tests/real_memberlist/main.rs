//! Originals and nodes of ours that find each other by gossip, as real processes on loopback addresses of their own.
//!
//! The original's times are those of wide networks: a death is known after half a minute or more. So the tests wait side
//! by side, each on networks of its own (127.40.x.y).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod life;
mod loss;
mod nodes;
mod ours;
mod relay;
