//! The `Grpc-Timeout` header: how long the caller will wait.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

/// The time a call may take: none without the header, with an empty one or with zero. A negative time has passed.
///
/// # Errors
/// The header's value when it is not a whole number of at most 64 bits and one of the units H, M, S, m, u, n.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, &HeaderValue> {
    let Some(value) = headers.get("grpc-timeout").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let parsed = value.to_str().ok().and_then(parse).ok_or(value)?;
    Ok(Some(parsed).filter(|(amount, _)| *amount != 0).map(|(amount, unit_nanoseconds)| {
        let amount = u64::try_from(amount).unwrap_or(0);
        Duration::from_nanos(amount.saturating_mul(unit_nanoseconds))
    }))
}

/// The amount, and its unit in nanoseconds.
fn parse(text: &str) -> Option<(i64, u64)> {
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
        let mut headers = HeaderMap::new();
        headers.insert("Grpc-Timeout", HeaderValue::from_bytes(value).unwrap());
        timeout(&headers).map_err(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
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
            ("9223372036854775807H", u64::MAX),
        ] {
            assert_eq!(header(value.as_bytes()), Ok(Some(Duration::from_nanos(nanoseconds))), "{value}");
        }
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
        assert_eq!(header(b""), Ok(None));
        assert_eq!(header(b"0S"), Ok(None));
    }

    #[test]
    fn anything_else_is_refused() {
        for value in ["abc", "10", "S", " ", "10s", "1.5S", "1 S", "9223372036854775808S", "0x1S", "1_0S"] {
            assert_eq!(header(value.as_bytes()), Err(value.into()));
        }
        assert!(header(b"1\xffS").is_err());
    }
}
