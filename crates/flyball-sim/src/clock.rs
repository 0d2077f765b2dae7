//! The clocks of the nodes. Simulated time is one number that only grows; each node's wall clock lies some way off
//! it, and is set now and then.

use flyball_core::Timestamp;
use flyball_core::time::Instant;

/// Simulated time begins here, in Unix milliseconds: a minute before midnight, so that calendar windows end in a run.
const BEGIN_MS: i64 = 1_700_006_340_000;

/// One node's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkewedClock {
    offset_ms: i64,
}

impl SkewedClock {
    /// So far ahead of the truth.
    pub const fn ahead_by(offset_ms: i64) -> Self {
        Self { offset_ms }
    }

    /// What it shows.
    pub const fn wall(self, now: Instant) -> Timestamp {
        Timestamp(BEGIN_MS + (now.0 / 1_000_000) as i64 + self.offset_ms)
    }

    /// Somebody sets it.
    pub const fn step(&mut self, ms: i64) {
        self.offset_ms += ms;
    }

    /// Somebody sets it right.
    pub const fn correct(&mut self) {
        self.offset_ms = 0;
    }
}
