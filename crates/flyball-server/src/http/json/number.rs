//! Whole numbers as JSON may write them: `12`, `1.20e1`, `1200e-2`, `12.0` are all twelve.
//!
//! Nothing goes through floating point, so `9.223372036854775807e18` is exact. The bound that keeps an exponent
//! from costing memory is the original's: more than 20 digits before the decimal point are no integer of 64 bits.

/// The most digits an integer of 64 bits can have, signed or not.
const DIGITS_MAX: usize = 20;

/// The value of a JSON number, if it is whole and fits. `None` too for text that is no JSON number at all: a sign
/// `+`, a leading zero, blanks.
pub(super) fn whole(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (integer, rest) = split_digits(digits);
    if integer.is_empty() || (integer.len() > 1 && integer.starts_with('0')) {
        return None;
    }
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => match split_digits(rest) {
            ("", _) => return None,
            split => split,
        },
        None => ("", rest),
    };
    let exponent = match rest.strip_prefix(['e', 'E']) {
        Some(exponent) => exponent,
        None if rest.is_empty() => "0",
        None => return None,
    };
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if exponent_digits.is_empty() || exponent_digits.bytes().any(|digit| !digit.is_ascii_digit()) {
        return None;
    }

    let integer = integer.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if integer.is_empty() && fraction.is_empty() {
        return Some(0);
    }
    let exponent: i32 = exponent.parse().ok()?;
    let shift = usize::try_from(exponent.unsigned_abs()).ok()?;
    let magnitude = if exponent >= 0 {
        if fraction.len() > shift || integer.len() + shift > DIGITS_MAX {
            return None;
        }
        append_digits(append_digits(0, integer)?, fraction)?
            .checked_mul(10_i128.checked_pow(u32::try_from(shift - fraction.len()).ok()?)?)?
    } else {
        let (kept, dropped) = integer.split_at_checked(integer.len().checked_sub(shift)?)?;
        if !fraction.is_empty() || dropped.bytes().any(|digit| digit != b'0') {
            return None;
        }
        append_digits(0, kept)?
    };
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// `text` cut after its leading decimal digits.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn append_digits(number: i128, digits: &str) -> Option<i128> {
    digits
        .bytes()
        .try_fold(number, |number, digit| number.checked_mul(10)?.checked_add(i128::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::whole;

    #[test]
    fn every_notation_of_a_whole_number_counts() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("0.000", 0),
            ("0e99999999999999999999", 0),
            ("0.0e-7", 0),
            ("12", 12),
            ("1.20e1", 12),
            ("1200e-2", 12),
            ("0.1E+1", 1),
            ("10e-1", 1),
            ("9.223372036854775807e18", i64::MAX),
            ("-9223372036854775808.000", i64::MIN),
            ("10000000000000000000000000000000000000e-37", 1),
        ] {
            assert_eq!(whole(text), Some(value), "{text}");
        }
    }

    #[test]
    fn everything_else_does_not() {
        for text in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-01",
            ".5",
            "1.",
            "1.e1",
            "1e",
            "1e+",
            "1e1.0",
            "0x10",
            "1_000",
            "NaN",
            "1.5",
            "1e-1",
            "15e-1",
            "1.55e1",
            "9223372036854775808",
            "-9223372036854775809",
            "1e19",
            "1e400",
            "1e2147483648",
            "1e-2147483649",
            "1e-2147483648",
            "1,5",
            "\u{661}",
            // Mathematically 1, but over the digit bound, as in the original.
            "0.0000000000000000000001e22",
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn shifting_the_decimal_point_changes_nothing(value: i64, shift in 0_usize..18) {
            prop_assert_eq!(whole(&value.to_string()), Some(value));
            let digits = value.unsigned_abs().to_string();
            let sign = if value < 0 { "-" } else { "" };
            if shift < digits.len() {
                let (integer, fraction) = digits.split_at(digits.len() - shift);
                let dot = if fraction.is_empty() { "" } else { "." };
                prop_assert_eq!(whole(&format!("{sign}{integer}{dot}{fraction}e{shift}")), Some(value));
            }
            prop_assert_eq!(whole(&format!("{sign}{digits}{}e-{shift}", "0".repeat(shift))), Some(value));
        }

        #[test]
        fn any_text_is_survived(text in "[-+0-9.eE ]{0,40}") {
            if let Some(value) = whole(&text) {
                // What fits a double exactly must be the same number there.
                let double: f64 = text.parse().unwrap();
                prop_assert!((double - value as f64).abs() <= double.abs() * f64::EPSILON);
            }
        }
    }
}
