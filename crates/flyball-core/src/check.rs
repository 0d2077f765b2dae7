//! What a caller asks: one [`Request`] as the wire gives it, and the [`Check`] it becomes once it is known to
//! make sense. Below this file nothing validates.

use core::fmt;

use crate::algorithm::calendar::Calendar;
use crate::error::CheckError;
use crate::time::Timestamp;

/// Which set of answers a node gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// What a careful user of a rate limiter expects; see the README for the differences.
    #[default]
    Exact,
    /// Every answer equal to Gubernator v2.21.0's, for clusters that run both during a migration.
    Gubernator,
}

/// How a bucket fills again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A fixed allowance that refills completely when its window ends.
    #[default]
    TokenBucket,
    /// An allowance that refills steadily, `limit` units per `duration`.
    LeakyBucket,
}

impl TryFrom<i32> for Algorithm {
    type Error = CheckError;

    fn try_from(number: i32) -> Result<Self, CheckError> {
        match number {
            0 => Ok(Self::TokenBucket),
            1 => Ok(Self::LeakyBucket),
            other => Err(CheckError::InvalidAlgorithm(other)),
        }
    }
}

/// The behavior flags of a check: a bit set, as on the wire. Unknown bits are kept and mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Behavior(pub i32);

impl Behavior {
    /// No bit: forwarded checks may travel in groups.
    pub const BATCHING: Self = Self(0);
    /// Forward alone and at once.
    pub const NO_BATCHING: Self = Self(1);
    /// Answer from local state everywhere, reconcile with the owner in the background.
    pub const GLOBAL: Self = Self(2);
    /// `duration` is a calendar interval code, not milliseconds.
    pub const DURATION_IS_GREGORIAN: Self = Self(4);
    /// Refill the bucket.
    pub const RESET_REMAINING: Self = Self(8);
    /// Accepted and without effect.
    pub const MULTI_REGION: Self = Self(16);
    /// A check that is refused empties what is left.
    pub const DRAIN_OVER_LIMIT: Self = Self(32);

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What identifies a bucket: the pair of a limit's name and the caller it limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<'a> {
    /// The limit's name.
    pub name: &'a str,
    /// Whom it limits.
    pub unique_key: &'a str,
}

impl Key<'_> {
    /// Bytes of `name + "_" + unique_key`, the form the ring hashes and error texts show.
    #[inline]
    pub const fn joined_len(&self) -> usize {
        self.name.len() + 1 + self.unique_key.len()
    }
}

impl fmt::Display for Key<'_> {
    /// The joined form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.name, self.unique_key)
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One item of a call as the wire gives it: any field may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Limit name and caller.
    pub key: Key<'a>,
    /// Units to take; 0 looks, a negative number gives back.
    pub hits: i64,
    /// Units per duration.
    pub limit: i64,
    /// Milliseconds, or a calendar code with [`Behavior::DURATION_IS_GREGORIAN`].
    pub duration: i64,
    /// 0 token bucket, 1 leaky bucket.
    pub algorithm: i32,
    /// Flags.
    pub behavior: Behavior,
    /// Size of a leaky bucket; 0 means the limit.
    pub burst: i64,
    /// The client's own idea of now, in Unix milliseconds; absent and 0 mean the node's clock.
    pub created_at: Option<i64>,
    /// Milliseconds the caller is willing to wait; 0 for a plain request.
    pub max_wait: i64,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A client: names are required, `created_at` is filled in.
    Client,
    /// A peer that already did the client's part.
    Peer,
}

/// A request that makes sense. Only [`Rules::admit`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check<'a> {
    /// Limit name and caller.
    pub key: Key<'a>,
    /// Units to take; 0 looks, a negative number gives back.
    pub hits: i64,
    /// Units per duration.
    pub limit: i64,
    /// Milliseconds, or a calendar code.
    pub duration: i64,
    /// How the bucket fills.
    pub algorithm: Algorithm,
    /// Flags.
    pub behavior: Behavior,
    /// Size of a leaky bucket; never 0 unless the limit is.
    pub burst: i64,
    /// The moment the caller claims: with exact semantics already clamped to the node's clock.
    pub created_at: Timestamp,
    /// Milliseconds the caller is willing to wait; 0 for a plain check, never negative.
    pub max_wait: i64,
}

/// What a node has been told about how to judge checks: values only, the same for every check.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Which set of answers.
    pub semantics: Semantics,
    /// Ends of calendar intervals, in the node's time zone.
    pub calendar: Calendar,
    /// The longest wait, in milliseconds, that is booked for a `max_wait` check. Default five minutes.
    pub schedule_max_wait_ms: i64,
    /// How far, in milliseconds, a client's `created_at` may lie from the node's clock, each way. Outside it
    /// is moved to the nearer edge. Exact semantics only. Default 5 000.
    pub created_at_tolerance_ms: i64,
    /// Added to the tolerance for a request that a peer sent: the time it may have spent on the way, in
    /// milliseconds (the batch timeout). Default 500.
    pub forward_timeout_ms: i64,
    /// Longest `name` plus `unique_key`, in bytes. Exact semantics only. Default 4 096.
    pub key_bytes_max: usize,
    /// Adds GLOBAL to every client's check.
    pub force_global: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            semantics: Semantics::Exact,
            calendar: Calendar::utc(),
            schedule_max_wait_ms: 5 * 60 * 1_000,
            created_at_tolerance_ms: 5_000,
            forward_timeout_ms: 500,
            key_bytes_max: 4_096,
            force_global: false,
        }
    }
}

/// The most entries in the metadata of a client's item. Exact semantics only. Tracing headers and what callers note for
/// themselves need a dozen.
pub const METADATA_ENTRIES_MAX: usize = 64;
/// The most bytes of all names and values in them. Exact semantics only. What HTTP servers commonly take as headers.
pub const METADATA_BYTES_MAX: usize = 16 * 1_024;

/// A [`Check`], and what had to be done to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted<'a> {
    /// The check.
    pub check: Check<'a>,
    /// The request's `created_at` lay outside the tolerance and was moved; counted by the node.
    pub clamped: bool,
}

impl Rules {
    /// What the node that a client asked looks at before it looks for the owner: everything that can be said without
    /// knowing the algorithm. Gives the flags that hold from here on.
    ///
    /// The order of the tests is part of the contract: the first that fails names the error.
    pub fn screen(&self, request: &Request<'_>, source: Source) -> Result<Behavior, CheckError> {
        let mut behavior = request.behavior;
        match source {
            Source::Client => {
                if request.key.unique_key.is_empty() {
                    return Err(CheckError::EmptyUniqueKey);
                }
                if request.key.name.is_empty() {
                    return Err(CheckError::EmptyName);
                }
                if self.force_global {
                    behavior = behavior.with(Behavior::GLOBAL);
                }
            }
            // A peer's GLOBAL hits were already granted by it; what does not fit must still empty the bucket.
            Source::Peer if behavior.has(Behavior::GLOBAL) => {
                behavior = behavior.with(Behavior::DRAIN_OVER_LIMIT);
            }
            Source::Peer => {}
        }
        if request.max_wait != 0 {
            Self::admit_max_wait(request, behavior)?;
        }
        if self.semantics == Semantics::Exact {
            for (field, value) in
                [("limit", request.limit), ("duration", request.duration), ("burst", request.burst)]
            {
                if value < 0 {
                    return Err(CheckError::Negative(field));
                }
            }
            if request.key.name.len() + request.key.unique_key.len() > self.key_bytes_max {
                return Err(CheckError::KeyTooLong(self.key_bytes_max));
            }
        }
        Ok(behavior)
    }

    /// What a client may hang on an item: so many entries with so many bytes. It decides nothing and travels to the owner
    /// all the same, so what is too much is refused where the client asked. A peer's items were looked at there.
    pub fn screen_metadata(&self, entries: usize, bytes: usize) -> Result<(), CheckError> {
        if self.semantics != Semantics::Exact {
            return Ok(());
        }
        if entries > METADATA_ENTRIES_MAX {
            return Err(CheckError::TooMuchMetadata(METADATA_ENTRIES_MAX, "entries"));
        }
        if bytes > METADATA_BYTES_MAX {
            return Err(CheckError::TooMuchMetadata(METADATA_BYTES_MAX, "bytes"));
        }
        Ok(())
    }

    /// The moment a request is about, and whether the one it claims had to be moved. `now` is the node's clock.
    #[inline]
    pub fn date(&self, created_at: Option<i64>, source: Source, now: Timestamp) -> (Timestamp, bool) {
        match created_at {
            None | Some(0) => (now, false),
            Some(claimed) if self.semantics == Semantics::Exact => {
                let tolerance = match source {
                    Source::Client => self.created_at_tolerance_ms,
                    Source::Peer => self.created_at_tolerance_ms.saturating_add(self.forward_timeout_ms),
                };
                let earliest = now.saturating_add(tolerance.saturating_neg());
                let latest = now.saturating_add(tolerance);
                let believed = Timestamp(claimed).clamp(earliest, latest);
                (believed, believed.ms() != claimed)
            }
            Some(claimed) => (Timestamp(claimed), false),
        }
    }

    /// Turns a request into a check, or says what is wrong with it. `now` is the node's clock.
    ///
    /// [`screen`](Self::screen) comes first.
    pub fn admit<'a>(
        &self,
        request: &Request<'a>,
        source: Source,
        now: Timestamp,
    ) -> Result<Admitted<'a>, CheckError> {
        let behavior = self.screen(request, source)?;
        let algorithm = Algorithm::try_from(request.algorithm)?;
        let (created_at, clamped) = self.date(request.created_at, source, now);
        let burst = if request.burst == 0 { request.limit } else { request.burst };
        let check = Check {
            key: request.key,
            hits: request.hits,
            limit: request.limit,
            duration: request.duration,
            algorithm,
            behavior,
            burst,
            created_at,
            max_wait: request.max_wait,
        };
        Ok(Admitted { check, clamped })
    }

    fn admit_max_wait(request: &Request<'_>, behavior: Behavior) -> Result<(), CheckError> {
        if request.max_wait < 0 {
            return Err(CheckError::NegativeMaxWait);
        }
        if request.algorithm != 1 {
            return Err(CheckError::MaxWaitNeedsLeaky);
        }
        for (flag, name) in [
            (Behavior::GLOBAL, "GLOBAL"),
            (Behavior::DURATION_IS_GREGORIAN, "DURATION_IS_GREGORIAN"),
            (Behavior::DRAIN_OVER_LIMIT, "DRAIN_OVER_LIMIT"),
            (Behavior::RESET_REMAINING, "RESET_REMAINING"),
        ] {
            if behavior.has(flag) {
                return Err(CheckError::MaxWaitWith(name));
            }
        }
        if request.hits < 0 {
            return Err(CheckError::MaxWaitWith("negative hits"));
        }
        Ok(())
    }
}
