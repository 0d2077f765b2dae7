//! Wall-clock time in the wire's own unit, and the clocks that give it.
//!
//! Limits are about wall-clock time because their windows are: two nodes and a client agree on "the end of
//! this minute" and on nothing else. The core never reads a clock; it is handed a [`Timestamp`].

use core::fmt;
#[cfg(feature = "std")]
use core::sync::atomic::{AtomicI64, Ordering};
use core::time::Duration;

/// Milliseconds since the Unix epoch. Negative values are valid: a client may send any `i64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The number of milliseconds.
    #[inline]
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// This moment `ms` milliseconds later, stopping at the ends of `i64`.
    #[inline]
    pub const fn saturating_add(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// A moment that only goes forward: nanoseconds since some start that one node chooses. For windows, timeouts and
/// backoff, which must not care when the wall clock is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Instant(pub u64);

impl Instant {
    /// This moment `wait` later, stopping at the end of time.
    #[inline]
    pub const fn saturating_add(self, wait: Duration) -> Self {
        let nanoseconds = wait.as_nanos();
        let nanoseconds = if nanoseconds > u64::MAX as u128 { u64::MAX } else { nanoseconds as u64 };
        Self(self.0.saturating_add(nanoseconds))
    }

    /// How long ago `earlier` was; zero if it is still to come.
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Where the shell gets the time from.
///
/// A node reads it once per call, so that all items of a call are judged at the same moment.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// A clock that stands still until it is told to move, for tests of this crate and of those who embed it.
///
/// ```
/// use flyball_core::time::{Clock, FakeClock, Timestamp};
///
/// let clock = FakeClock::new(Timestamp(1_000));
/// clock.advance(500);
/// assert_eq!(clock.now(), Timestamp(1_500));
/// ```
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct FakeClock(AtomicI64);

#[cfg(feature = "std")]
impl FakeClock {
    /// A clock that shows `now`.
    pub const fn new(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Shows `now` from here on; may step backwards, as real clocks do.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves by `ms` milliseconds; a negative number steps back.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

#[cfg(feature = "std")]
impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
