//! What a check is told.

use crate::error::CheckError;

/// The verdict, with the wire's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Granted, or only a look.
    #[default]
    UnderLimit = 0,
    /// Refused; nothing was charged (unless the check asked to drain).
    OverLimit = 1,
    /// Only for a check with `max_wait`: no wait would ever admit it. Nothing was charged.
    NeverFits = 2,
    /// Only for a check with `max_wait`: charged now; act after `retry_after` and do not ask again.
    Scheduled = 3,
}

impl Status {
    /// The name used in JSON and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnderLimit => "UNDER_LIMIT",
            Self::OverLimit => "OVER_LIMIT",
            Self::NeverFits => "NEVER_FITS",
            Self::Scheduled => "SCHEDULED",
        }
    }
}

/// The answer to one valid check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub status: Status,
    /// The check's own limit, echoed.
    pub limit: i64,
    /// Whole units left after this check.
    pub remaining: i64,
    /// When the bucket is full again (leaky) or its window ends (token), in Unix milliseconds. 0 after a
    /// token bucket was reset.
    pub reset_time: i64,
    /// Milliseconds to wait, counted from this answer; 0 unless the check had a `max_wait` and was
    /// [`Status::Scheduled`] or refused because the wait was too long.
    pub retry_after: i64,
    /// For a plain check that was refused: milliseconds until it would be granted if nobody else came. It
    /// travels as metadata, since the wire's own field belongs to `max_wait`. `None` when no wait helps.
    pub plain_retry_after: Option<i64>,
}

/// The answer to one item of a call: a decision, or why there is none.
pub type Answer = Result<Decision, CheckError>;
