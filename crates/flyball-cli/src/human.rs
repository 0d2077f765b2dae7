//! Time for people. Everything here is a function of its arguments: the clock and the zone come from outside.

use jiff::tz::TimeZone;

/// A length of time with the two units that matter: `850 ms`, `59.8 s`, `3 min 5 s`, `2 h 10 min`, `40 d 3 h`.
/// Rounded up, since who waits that long must not be early. Negative lengths are shown as none.
pub(crate) fn duration(ms: i64) -> String {
    const SECOND: u64 = 1_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let ms = ms.max(0).unsigned_abs();
    let up = |unit: u64| ms.div_ceil(unit) * unit;
    let two = |ms: u64, (big, big_name): (u64, &str), (small, small_name): (u64, &str)| match ms % big / small
    {
        0 => format!("{} {big_name}", ms / big),
        rest => format!("{} {big_name} {rest} {small_name}", ms / big),
    };
    // Each arm sees the length as the arm before it would have rounded it, so that 59.99 s is a minute.
    match (ms, up(SECOND / 10), up(SECOND), up(MINUTE)) {
        (..SECOND, ..) => format!("{ms} ms"),
        (_, tenths @ ..MINUTE, ..) if tenths % SECOND == 0 => format!("{} s", tenths / SECOND),
        (_, tenths @ ..MINUTE, ..) => format!("{}.{} s", tenths / SECOND, tenths % SECOND / 100),
        (_, _, seconds @ ..HOUR, _) => two(seconds, (MINUTE, "min"), (SECOND, "s")),
        (_, _, _, minutes @ ..DAY) => two(minutes, (HOUR, "h"), (MINUTE, "min")),
        _ => two(up(HOUR), (DAY, "d"), (HOUR, "h")),
    }
}

/// A moment seen from `now`, both in Unix milliseconds: `in 42 s (2026-09-20 14:03:10 UTC)`. A moment that no
/// calendar can show is named by its distance alone.
pub(crate) fn moment(at: i64, now: i64, zone: &TimeZone) -> String {
    let away = match at.saturating_sub(now) {
        0 => "now".to_owned(),
        ms @ 1.. => format!("in {}", duration(ms)),
        ms => format!("{} ago", duration(ms.saturating_neg())),
    };
    match jiff::Timestamp::from_millisecond(at) {
        Ok(at) => format!("{away} ({})", at.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z")),
        Err(_) => away,
    }
}

/// A whole number with its thousands apart: `1 234 567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number in at most five characters: `999`, `12.3k`, `1.23M`.
pub(crate) fn short(number: u64) -> String {
    let (mut scaled, mut unit) = (number as f64, 0);
    // From 999.5 on, three digits would round up to four.
    while scaled >= 999.5 && unit < 6 {
        scaled /= 1e3;
        unit += 1;
    }
    let unit = ["", "k", "M", "G", "T", "P", "E"][unit];
    match scaled {
        _ if unit.is_empty() => number.to_string(),
        ..9.995 => format!("{scaled:.2}{unit}"),
        ..99.95 => format!("{scaled:.1}{unit}"),
        _ => format!("{scaled:.0}{unit}"),
    }
}

/// Microseconds with three significant digits: `95 us`, `1.23 ms`, `12.3 ms`, `1.23 s`.
pub(crate) fn micros(us: u64) -> String {
    let scaled = |value: f64, unit: &str| match value {
        ..10.0 => format!("{value:.2} {unit}"),
        10.0..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    };
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => scaled(us as f64 / 1e3, "ms"),
        _ => scaled(us as f64 / 1e6, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_show_the_two_units_that_matter() {
        for (ms, text) in [
            (i64::MIN, "0 ms"),
            (-1, "0 ms"),
            (0, "0 ms"),
            (1, "1 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_001, "1.1 s"),
            (59_870, "59.9 s"),
            (59_901, "1 min"),
            (60_000, "1 min"),
            (60_001, "1 min 1 s"),
            (185_400, "3 min 6 s"),
            (3_599_001, "1 h"),
            (3_600_000, "1 h"),
            (86_399_999, "1 d"),
            (7_800_000, "2 h 10 min"),
            (86_400_000, "1 d"),
            (40 * 86_400_000 + 3 * 3_600_000, "40 d 3 h"),
            (i64::MAX, "106751991167 d 8 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn moments_are_seen_from_now() {
        let now = 1_790_000_000_000;
        assert_eq!(moment(now, now, &TimeZone::UTC), "now (2026-09-21 14:13:20 UTC)");
        assert_eq!(moment(now + 42_000, now, &TimeZone::UTC), "in 42 s (2026-09-21 14:14:02 UTC)");
        assert_eq!(moment(now - 1_500, now, &TimeZone::UTC), "1.5 s ago (2026-09-21 14:13:18 UTC)");
    }

    #[test]
    fn moments_beyond_every_calendar_are_still_told() {
        assert_eq!(moment(i64::MAX, 0, &TimeZone::UTC), "in 106751991167 d 8 h");
        assert_eq!(moment(i64::MIN, i64::MAX, &TimeZone::UTC), "106751991167 d 8 h ago");
    }

    #[test]
    fn numbers_are_readable() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1 000"), (1_234_567, "1 234 567")] {
            assert_eq!(count(number), text);
        }
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.00k"),
            (9_999, "10.0k"),
            (12_345, "12.3k"),
            (99_999, "100k"),
            (999_499, "999k"),
            (999_500, "1.00M"),
            (u64::MAX, "18.4E"),
        ] {
            assert_eq!(short(number), text);
        }
        for (us, text) in [
            (0, "0 us"),
            (999, "999 us"),
            (1_234, "1.23 ms"),
            (12_345, "12.3 ms"),
            (123_456, "123 ms"),
            (1_234_567, "1.23 s"),
            (600_000_000, "600 s"),
        ] {
            assert_eq!(micros(us), text);
        }
    }
}
