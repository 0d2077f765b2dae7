//! The caller's deadline, as gRPC tells it: `grpc-timeout: <at most 8 digits><unit>`, counted from now.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;
use tonic::Status;

/// When the caller stops waiting; `None` when it did not say, or said a time beyond all clocks.
///
/// # Errors
/// INTERNAL for a value that does not read as a timeout. A call that claims to have a deadline must not run
/// without one.
pub(super) fn deadline(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    Ok(of_headers(headers)?.and_then(|timeout| Instant::now().checked_add(timeout)))
}

/// How long the caller waits, if it says so.
///
/// # Errors
/// As [`deadline`].
pub(super) fn of_headers(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    match value.to_str().ok().and_then(parse) {
        Some(timeout) => Ok(Some(timeout)),
        None => Err(Status::internal(format!(
            "malformed grpc-timeout: {value:?} is not 1 to 8 digits and one of H, M, S, m, u, n"
        ))),
    }
}

fn parse(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3_600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        let cases = [
            ("1H", 3_600_000_000_000),
            ("2M", 120_000_000_000),
            ("3S", 3_000_000_000),
            ("4m", 4_000_000),
            ("5u", 5_000),
            ("99999999n", 99_999_999),
            ("0S", 0),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(359_999_996_400)));
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "S", "1", "1s", "-1S", "+1S", "1.5S", " 1S", "123456789S", "1µ", "1SS"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
