//! The decisions of a rate limiter, without the machine around them.
//!
//! Nothing here reads a clock, opens a socket, spawns a task or logs a line: time and randomness are
//! arguments, and what should happen is a return value. The crate builds without `std` (only the locked
//! [`store::Store`] needs it), so the compiler holds that promise.
//!
//! In reading order:
//!
//! 1. [`time`]: the one unit of time, and clocks that can be faked.
//! 2. [`check`]: what a caller asks, and the rules by which a raw [`check::Request`] becomes a valid
//!    [`check::Check`].
//! 3. [`decision`]: what it is told.
//! 4. [`algorithm`]: `decide(stored bucket, check, t) -> (next bucket, decision)`.
//! 5. [`store`]: where buckets live: sharded, bounded, swept.
//! 6. [`ring`]: which peer owns a key.
//! 7. [`cluster`]: what makes several nodes one limiter.
#![no_std]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod algorithm;
pub mod check;
pub mod cluster;
pub mod decision;
pub mod error;
pub mod ring;
pub mod store;
mod telling;
pub mod time;

pub use algorithm::calendar::Calendar;
pub use check::{Algorithm, Behavior, Check, Key, Request, Rules, Semantics, Source};
pub use decision::{Answer, Decision, Status};
pub use error::CheckError;
pub use telling::Telling;
pub use time::Timestamp;
