//! What the original's own test suite proves about one node, proved here about ours: with the original's
//! semantics, on a clock that stands still until it is moved. `docs/tests.md` maps each of its tests to one of
//! these, or says with which part it comes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod behaviors;
mod gregorian;
mod leaky;
mod leaky_continuous;
mod scheduled;
mod service;
mod token;
mod worked;
