//! The machine's own clock.

use std::time::{SystemTime, UNIX_EPOCH};

use flyball_core::Timestamp;
use flyball_core::time::Clock;

/// The operating system's wall clock. It may step backwards; the algorithms take that as no time passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Before 1970 and after the year 292 million the nearest end will do.
        let ms = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        };
        Timestamp(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_milliseconds_since_1970() {
        // Between 2020 and 2100: the unit is right.
        assert!((1_577_836_800_000..4_102_444_800_000).contains(&SystemClock.now().ms()));
    }
}
