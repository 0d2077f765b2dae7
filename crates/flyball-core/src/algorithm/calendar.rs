//! Calendar intervals: when does this minute, hour, day, week, month, year end, and how long is it?

use jiff::tz::TimeZone;

use crate::time::Timestamp;

/// The calendar of one time zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    zone: TimeZone,
}

impl Calendar {
    /// The calendar of this time zone.
    pub const fn new(zone: TimeZone) -> Self {
        Self { zone }
    }

    /// The calendar of UTC.
    pub const fn utc() -> Self {
        Self::new(TimeZone::UTC)
    }

    /// x
    pub fn end(&self, code: i64, t: Timestamp) -> Option<i64> {
        let _ = (&self.zone, code, t);
        None
    }
}
