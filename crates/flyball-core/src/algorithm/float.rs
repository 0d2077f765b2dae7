//! The float arithmetic of the leaky bucket, shared by both semantics.
//!
//! Balances are `f64`: exact up to 2^53 units, above it with a relative error of 2^-52. A balance that misses
//! a whole unit by less than [`EPSILON`] counts as having it, so that ten leaks of a tenth are a unit.
//!
//! Out-of-range conversions are where the original depends on its processor; with `gubernator` semantics we
//! give the answers of its amd64 build: `i64::MIN` for not-a-number, infinities and everything beyond `i64`.

/// How far below a whole unit still counts as the unit.
pub(super) const EPSILON: f64 = 1e-9;

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Float to integer, towards zero, as an amd64 processor does it.
#[inline]
pub(super) fn amd64(x: f64) -> i64 {
    if x.is_nan() || !(-TWO_63..TWO_63).contains(&x) { i64::MIN } else { x as i64 }
}

/// Float to milliseconds: saturates, but not-a-number is `i64::MIN`.
#[inline]
pub(super) fn millis(x: f64) -> i64 {
    if x.is_nan() { i64::MIN } else { x as i64 }
}

/// The next integer up. (`f64::ceil` needs `std`.)
#[inline]
pub(super) fn ceil(x: f64) -> f64 {
    const ALL_INTEGERS_FROM: f64 = 4_503_599_627_370_496.0; // 2^52
    if x.is_nan() || x.abs() >= ALL_INTEGERS_FROM {
        return x;
    }
    let truncated = x as i64 as f64;
    if truncated < x { truncated + 1.0 } else { truncated }
}

/// The smaller; not a number if either is not.
#[inline]
pub(super) fn fmin(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

/// The larger; not a number if either is not.
#[inline]
pub(super) fn fmax(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
