//! Calendar intervals of the runner's own, by another library path than the server's code: ends are computed
//! from local civil dates, in the server's time zone.

use anyhow::Context as _;
use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::Deserialize;

/// A calendar interval.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Interval {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// First moment of the interval around `at_ms` and first moment after it, Unix milliseconds.
pub fn bounds(interval: Interval, at_ms: i64, zone: &TimeZone) -> anyhow::Result<(i64, i64)> {
    const MINUTE: i64 = 60_000;
    let local = zone.to_datetime(Timestamp::from_millisecond(at_ms)?);
    let date = local.date();
    let start = |day: civil::Date| -> anyhow::Result<i64> {
        let midnight = day.to_datetime(civil::Time::midnight());
        Ok(zone.to_timestamp(midnight).context("a local midnight")?.as_millisecond())
    };
    Ok(match interval {
        Interval::Minute => {
            let first = at_ms - at_ms.rem_euclid(MINUTE);
            (first, first + MINUTE)
        }
        Interval::Hour => {
            let hour = civil::DateTime::from_parts(date, civil::time(local.hour(), 0, 0, 0));
            let first = zone.to_timestamp(hour)?.as_millisecond();
            (first, first + 60 * MINUTE)
        }
        Interval::Day => (start(date)?, start(date.tomorrow()?)?),
        Interval::Week => {
            let monday = date.checked_sub(Span::new().days(date.weekday().to_monday_zero_offset()))?;
            (start(monday)?, start(monday.checked_add(Span::new().days(7))?)?)
        }
        Interval::Month => {
            let first = date.first_of_month();
            (start(first)?, start(first.checked_add(Span::new().months(1))?)?)
        }
        Interval::Year => {
            let first = date.first_of_year();
            (start(first)?, start(first.checked_add(Span::new().years(1))?)?)
        }
    })
}

/// The last millisecond of the interval around `at_ms`.
pub fn end_ms(interval: Interval, at_ms: i64, zone: &TimeZone) -> anyhow::Result<i64> {
    Ok(bounds(interval, at_ms, zone)?.1 - 1)
}

/// Whole milliseconds per unit of a leaky bucket that fills once per interval.
pub fn leaky_unit(interval: Interval, limit: i64, at_ms: i64, zone: &TimeZone) -> anyhow::Result<i64> {
    let (first, next) = bounds(interval, at_ms, zone)?;
    Ok(((next - first) as f64 / limit as f64) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_ends_of_a_leap_february() {
        // Thursday 2024-02-29 23:59:59.999 UTC
        let at = 1_709_251_199_999;
        let end = |interval| end_ms(interval, at, &TimeZone::UTC).unwrap();
        assert_eq!(end(Interval::Minute), at);
        assert_eq!(end(Interval::Hour), at);
        assert_eq!(end(Interval::Day), at);
        assert_eq!(end(Interval::Week), 1_709_510_399_999);
        assert_eq!(end(Interval::Month), at);
        assert_eq!(end(Interval::Year), 1_735_689_599_999);
        assert_eq!(leaky_unit(Interval::Month, 29, at, &TimeZone::UTC).unwrap(), 86_400_000);
    }
}
