//! Real processes: clusters of `flyball serve` that are killed, frozen, stopped and given new lists of peers while
//! clients ask, and the reports from the field about clusters (P18 to P30, P40).
//!
//! Each test has a network of its own (see [`flyball_tests::cluster`]); the numbers are given out here, so that none
//! is given twice. Timed assertions are the promises of `docs/cluster.md` and no others.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod calls;
mod churn;
mod failures;
mod global;
mod policies;

/// The third byte of each test's addresses, 127.20.x.y.
mod network {
    pub(crate) const KILLED: u8 = 1;
    pub(crate) const KILLED_WITH_ERRORS: u8 = 2;
    pub(crate) const FROZEN: u8 = 3;
    pub(crate) const STOPPED: u8 = 4;
    pub(crate) const SAME_LIST: u8 = 5;
    pub(crate) const TOGGLED: u8 = 6;
    pub(crate) const TWO_AT_A_TIME: u8 = 7;
    pub(crate) const GONE_AT_ONCE: u8 = 8;
    pub(crate) const REGROUPED: u8 = 9;
    pub(crate) const HEALTH: u8 = 10;
    pub(crate) const OTHER_PORTS: u8 = 11;
    pub(crate) const CALLERS_LEAVE: u8 = 12;
    pub(crate) const REFUSED_EVERYWHERE: u8 = 13;
    pub(crate) const REFILLED: u8 = 14;
    pub(crate) const BROADCASTS: u8 = 15;
    pub(crate) const EXPIRED: u8 = 16;
    pub(crate) const ROLLING: u8 = 17;
    pub(crate) const TWO_OF_FIVE: u8 = 18;
    pub(crate) const DENIED: u8 = 19;
    pub(crate) const LOCAL: u8 = 20;
    pub(crate) const IN_FLIGHT: u8 = 21;
    pub(crate) const TWENTY: u8 = 22;
}
