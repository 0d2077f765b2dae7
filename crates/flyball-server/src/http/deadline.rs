//! The `Grpc-Timeout` header: how long the caller will wait.

use std::time::Duration;

use flyball::Semantics;
use http::{HeaderMap, HeaderValue};

/// The time a call may take: none without the header, with an empty one or with zero. A negative time has passed.
///
/// A time of more than 2⁶³ ns is one that never comes. By gubernator's semantics it wraps around, as 64 bits do:
/// it may then be short, or have passed.
///
/// # Errors
/// The header's value when it is not a whole number of at most 64 bits and one of the units H, M, S, m, u, n.
pub(super) fn timeout(headers: &HeaderMap, semantics: Semantics) -> Result<Option<Duration>, &HeaderValue> {
    let Some(value) = headers.get("grpc-timeout").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let parsed = value.to_str().ok().and_then(parse).ok_or(value)?;
    let (amount, unit_nanoseconds) = parsed;
    let nanoseconds = match semantics {
        Semantics::Exact => amount.saturating_mul(unit_nanoseconds),
        Semantics::Gubernator => amount.wrapping_mul(unit_nanoseconds),
    };
    let some = (nanoseconds != 0).then_some(nanoseconds);
    Ok(some.map(|nanoseconds| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))))
}

/// The amount, and its unit in nanoseconds.
fn parse(text: &str) -> Option<(i64, i64)> {
    let (amount, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit_nanoseconds = match unit {
        "H" => 3_600_000_000_000,
        "M" => 60_000_000_000,
        "S" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1_000,
        "n" => 1,
        _ => return None,
    };
    Some((amount.parse().ok()?, unit_nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value: &[u8]) -> Result<Option<Duration>, String> {
        header_by(value, Semantics::Exact)
    }

    fn header_by(value: &[u8], semantics: Semantics) -> Result<Option<Duration>, String> {
        let mut headers = HeaderMap::new();
        headers.insert("Grpc-Timeout", HeaderValue::from_bytes(value).unwrap());
        timeout(&headers, semantics).map_err(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    #[test]
    fn every_unit_is_known() {
        for (value, nanoseconds) in [
            ("1H", 3_600_000_000_000),
            ("2M", 120_000_000_000),
            ("10S", 10_000_000_000),
            ("+7m", 7_000_000),
            ("7u", 7_000),
            ("7n", 7),
            ("-5S", 0),
            ("9223372036854775807H", i64::MAX as u64),
        ] {
            assert_eq!(header(value.as_bytes()), Ok(Some(Duration::from_nanos(nanoseconds))), "{value}");
        }
        assert_eq!(timeout(&HeaderMap::new(), Semantics::Exact), Ok(None));
        assert_eq!(header(b""), Ok(None));
        assert_eq!(header(b"0S"), Ok(None));
    }

    #[test]
    fn what_does_not_fit_never_comes_or_wraps() {
        let both = |value: &str| {
            [Semantics::Exact, Semantics::Gubernator].map(|semantics| header_by(value.as_bytes(), semantics))
        };
        let never = Ok(Some(Duration::from_nanos(i64::MAX as u64)));
        assert_eq!(both("99999999H"), [never.clone(), Ok(Some(Duration::ZERO))]);
        // 2^64 ns and a little.
        assert_eq!(both("18446744074S"), [never, Ok(Some(Duration::from_nanos(290_448_384)))]);
        assert_eq!(both("2562047H"), [0; 2].map(|_| Ok(Some(Duration::from_secs(2_562_047 * 3_600)))));
    }

    #[test]
    fn anything_else_is_refused() {
        for value in ["abc", "10", "S", " ", "10s", "1.5S", "1 S", "9223372036854775808S", "0x1S", "1_0S"] {
            assert_eq!(header(value.as_bytes()), Err(value.into()));
        }
        assert!(header(b"1\xffS").is_err());
    }
}
