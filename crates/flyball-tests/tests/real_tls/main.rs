//! TLS as programs see it that nobody here wrote: openssl, curl, and originals in one cluster with ours. And the binary
//! itself: its commands, and SIGHUP.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod binary;
mod mixed;
mod nodes;
mod probe;
