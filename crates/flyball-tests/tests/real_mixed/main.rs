//! Originals and nodes of ours in one cluster, as during a migration: whoever is asked, the answers are those of one
//! limiter. And three nodes of ours beside what was observed of three originals.
//!
//! Needs the original's programs and an etcd. Ours admit calls of originals, which do not bind to their own address,
//! since on loopback everybody is a neighbour; elsewhere a mixed cluster needs `--peer-guard open`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod forwarding;
mod global;
mod nodes;
mod observed;
mod old;
mod scheduled;
mod trouble;
