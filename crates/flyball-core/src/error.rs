//! Why one item of a call gets no decision.
//!
//! The call itself succeeds and the other items are unaffected. The texts are part of the wire contract:
//! clients match them.

use core::fmt;

/// What is wrong with a check. Nothing was counted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckError {
    /// `unique_key` is empty (checked before the name).
    EmptyUniqueKey,
    /// `name` is empty. The wire says *namespace*.
    EmptyName,
    /// `max_wait` below zero.
    NegativeMaxWait,
    /// `max_wait` with an algorithm other than the leaky bucket.
    MaxWaitNeedsLeaky,
    /// `max_wait` together with something it excludes; the text names it.
    MaxWaitWith(&'static str),
    /// A negative `limit`, `duration` or `burst`; the text names the field. Only with exact semantics.
    Negative(&'static str),
    /// `name` and `unique_key` together are longer than this many bytes. Only with exact semantics.
    KeyTooLong(usize),
    /// The metadata has more than so many entries or bytes, as the text says. Only with exact semantics.
    TooMuchMetadata(usize, &'static str),
    /// An algorithm number nobody knows.
    InvalidAlgorithm(i32),
    /// `DURATION_IS_GREGORIAN` with a duration that is no calendar interval; the text names the algorithm.
    InvalidCalendar(&'static str),
}

impl CheckError {
    /// Whether the item was refused before any bucket was looked at. Such an error stands alone on the wire;
    /// the others are wrapped in a sentence that names the key.
    pub const fn is_validation(self) -> bool {
        !matches!(self, Self::InvalidAlgorithm(_) | Self::InvalidCalendar(_))
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EmptyUniqueKey => f.write_str("field 'unique_key' cannot be empty"),
            Self::EmptyName => f.write_str("field 'namespace' cannot be empty"),
            Self::NegativeMaxWait => f.write_str("field 'max_wait' cannot be negative"),
            Self::MaxWaitNeedsLeaky => f.write_str("max_wait is only supported by LEAKY_BUCKET"),
            Self::MaxWaitWith(what) => write!(f, "max_wait cannot be combined with {what}"),
            Self::Negative(field) => write!(f, "field '{field}' cannot be negative"),
            Self::KeyTooLong(bytes) => write!(f, "name and unique_key exceed {bytes} bytes"),
            Self::TooMuchMetadata(most, unit) => write!(f, "metadata exceeds {most} {unit}"),
            Self::InvalidAlgorithm(number) => write!(f, "Invalid rate limit algorithm '{number}'"),
            Self::InvalidCalendar(bucket) => write!(
                f,
                "Error in {bucket}: behavior DURATION_IS_GREGORIAN is set; but `Duration` is not a valid \
                 gregorian interval"
            ),
        }
    }
}

impl core::error::Error for CheckError {}
