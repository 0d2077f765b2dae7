//! The real binary from outside: what it prints, how it ends, what it does to a node. Needs nothing but the
//! loopback interface.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bench;
mod check;
mod cluster;
mod command_line;
mod from_env;
mod healthcheck;
mod peers;
mod reference;
mod responder;
mod ring;
mod serve;
mod support;
