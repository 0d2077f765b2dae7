//! Tests that need a whole node or a running binary, and what they share.
//!
//! Plain `cargo test` runs those that start everything inside the test's own process. The rest needs programs
//! from outside Cargo and is compiled only with the feature `real`, which `cargo xtask test` turns on together
//! with the environment that says where each program is (see [`tools`]).
//!
//! `docs/tests.md` maps the behaviours that must be proved to the tests that prove them.
#![deny(missing_docs)]

pub mod binary;
pub mod certificates;
pub mod cluster;
pub mod conformance;
pub mod deploy;
pub mod etcd;
pub mod http;
pub mod in_process;
pub mod kubernetes;
pub mod node;
pub mod process;
pub mod script;
pub mod secured;
pub mod signal;
pub mod tools;
pub mod wait;
