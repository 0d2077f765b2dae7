//! Durations as the original writes them: Go's syntax, a list of numbers with units (`1m30s`, `500us`, `.5s`).
//!
//! A bare number is no duration, except `0`: whoever writes `500` could mean milliseconds or nanoseconds, and
//! the original's own sample file got exactly that wrong.

use std::time::Duration;

/// Unit names with their nanoseconds, largest first. Both letters that look like mu are accepted.
const UNITS: [(&str, u64); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// Not the syntax, or beyond 2^63 ns (292 years).
    Syntax,
    /// Below zero: no setting of ours means anything then.
    Negative,
}

/// Reads a duration of at most 2^63 - 1 nanoseconds.
pub(super) fn parse(text: &str) -> Result<Duration, Bad> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let nanos = nanoseconds(unsigned).ok_or(Bad::Syntax)?;
    if negative && nanos > 0 { Err(Bad::Negative) } else { Ok(Duration::from_nanos(nanos)) }
}

fn nanoseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number;
        (number, rest) = split_where(rest, |c| !(c.is_ascii_digit() || c == '.'));
        let unit;
        (unit, rest) = split_where(rest, |c| c.is_ascii_digit() || c == '.');
        let scale = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        total = total.checked_add(scaled(number, scale)?)?;
    }
    (total <= i64::MAX as u64).then_some(total)
}

fn split_where(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

/// `number × scale` without rounding errors; what is below a nanosecond is cut off.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(scale)?;
    // 18 digits are finer than a nanosecond of the longest unit, and 10^18 hours fit into 128 bits.
    let (mut carried, mut divisor) = (0u128, 1u128);
    for digit in fraction.bytes().take(18) {
        divisor *= 10;
        carried = carried * 10 + u128::from(digit - b'0');
    }
    nanos = nanos.checked_add(u64::try_from(carried * u128::from(scale) / divisor).ok()?)?;
    Some(nanos)
}

/// The shortest text that [`parse`] reads back as the same duration.
pub(super) fn show(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, scale) in UNITS.iter().filter(|(name, _)| name.is_ascii()) {
        if left >= *scale {
            text.push_str(&format!("{}{name}", left / scale));
            left %= scale;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn go_syntax() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("1m30s", 90_000_000_000),
            ("500us", 500_000),
            ("500\u{b5}s", 500_000),
            ("500\u{3bc}s", 500_000),
            ("+5ms", 5_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("1s1s", 2_000_000_000),
            ("0.9999999999ns", 0),
            ("0.0000000000000000000000000001h", 0),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn not_go_syntax() {
        for text in [
            "",
            "abc",
            "500",
            "1",
            "s",
            ".s",
            "1d",
            "1 s",
            " 1s",
            "1s ",
            "1.2.3s",
            "1S",
            "--1s",
            "+",
            "-",
            "1ss",
            "µ",
            "9223372036854775808ns",
            "18446744073709551616ns",
            "99999999h",
            "1e3s",
            "٣s",
        ] {
            assert_eq!(parse(text), Err(Bad::Syntax), "{text}");
        }
        assert_eq!(parse("-1s"), Err(Bad::Negative));
        assert_eq!(parse("-1ns"), Err(Bad::Negative));
    }

    proptest! {
        #[test]
        fn shown_reads_back(nanos in 0..=i64::MAX as u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC*|[-+.0-9a-z\u{b5}]*") {
            let _ = parse(&text);
        }
    }
}
