//! The arguments that describe one check; `check` and `bench` share them.

use clap::ValueEnum;
use flyball_proto::pb;

/// What `--duration` takes: a length, or a calendar interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// Milliseconds.
    Length(i64),
    /// The wire's code of a calendar interval.
    Calendar(i64),
}

const CALENDAR: [&str; 6] = ["minute", "hour", "day", "week", "month", "year"];

impl std::str::FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (0..).zip(CALENDAR).find(|(_, name)| *name == text) {
            Some((code, _)) => Ok(Self::Calendar(code)),
            None => milliseconds(text)
                .map(Self::Length)
                .map_err(|error| format!("{error}; or a calendar interval: {}", CALENDAR.join(", "))),
        }
    }
}

/// Parses a length of time such as `250ms`, `30s` or `1h30m` into whole milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<i64, String> {
    const EXPECTED: &str = "expected a number with a unit, like 250ms, 30s, 1m or 1h30m";
    let length: jiff::SignedDuration = text.parse().map_err(|_| EXPECTED.to_owned())?;
    if text.starts_with(['P', 'p']) || length.is_negative() {
        return Err(EXPECTED.to_owned());
    }
    if length.subsec_nanos() % 1_000_000 != 0 {
        return Err("expected whole milliseconds".to_owned());
    }
    i64::try_from(length.as_millis()).map_err(|_| "expected less than 292 million years".to_owned())
}

/// Parses a length of time above zero.
pub(crate) fn length(text: &str) -> Result<std::time::Duration, String> {
    match milliseconds(text)? {
        0 => Err("expected more than 0".to_owned()),
        ms => Ok(std::time::Duration::from_millis(ms.unsigned_abs())),
    }
}

/// How the bucket fills again.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Algorithm {
    /// A fixed allowance that refills completely when its window ends
    #[value(alias = "TOKEN_BUCKET", alias = "token-bucket")]
    Token,
    /// An allowance that refills steadily, LIMIT units per DURATION
    #[value(alias = "LEAKY_BUCKET", alias = "leaky-bucket")]
    Leaky,
}

/// A behavior flag. (DURATION_IS_GREGORIAN is not among them: a calendar `--duration` sets it.)
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Behavior {
    /// Forward alone and at once to the owner of the key
    #[value(alias = "NO_BATCHING")]
    NoBatching,
    /// Answer from local state on every node
    #[value(alias = "GLOBAL")]
    Global,
    /// Refill the bucket
    #[value(alias = "RESET_REMAINING")]
    ResetRemaining,
    /// Accepted and without effect
    #[value(alias = "MULTI_REGION")]
    MultiRegion,
    /// A refused check empties what is left
    #[value(alias = "DRAIN_OVER_LIMIT")]
    DrainOverLimit,
}

impl From<Behavior> for pb::Behavior {
    fn from(behavior: Behavior) -> Self {
        match behavior {
            Behavior::NoBatching => Self::NoBatching,
            Behavior::Global => Self::Global,
            Behavior::ResetRemaining => Self::ResetRemaining,
            Behavior::MultiRegion => Self::MultiRegion,
            Behavior::DrainOverLimit => Self::DrainOverLimit,
        }
    }
}

/// Everything about a check but its key, limit and duration.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// Units to take; 0 looks without taking, a negative number gives back
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) hits: i64,
    /// How the bucket fills again
    #[arg(long, value_enum, default_value_t = Algorithm::Token)]
    algorithm: Algorithm,
    /// Leaky bucket only: how many units may be taken at once; without it, as many as the limit
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    burst: i64,
    /// Behavior flags, several joined by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FLAG,…")]
    behavior: Vec<Behavior>,
    /// Leaky bucket only: how long the caller is willing to wait for its units; they are then booked ahead
    #[arg(long, value_name = "DURATION", value_parser = milliseconds)]
    max_wait: Option<i64>,
}

impl Args {
    /// The wire's form of the check.
    pub(crate) fn request(&self, name: &str, key: &str, limit: i64, window: Window) -> pb::RateLimitReq {
        let mut behavior = self.behavior.iter().fold(0, |bits, &flag| bits | pb::Behavior::from(flag) as i32);
        let duration = match window {
            Window::Length(ms) => ms,
            Window::Calendar(code) => {
                behavior |= pb::Behavior::DurationIsGregorian as i32;
                code
            }
        };
        pb::RateLimitReq {
            name: name.to_owned(),
            unique_key: key.to_owned(),
            hits: self.hits,
            limit,
            duration,
            algorithm: match self.algorithm {
                Algorithm::Token => pb::Algorithm::TokenBucket,
                Algorithm::Leaky => pb::Algorithm::LeakyBucket,
            }
            .into(),
            behavior,
            burst: self.burst,
            metadata: Default::default(),
            created_at: None,
            max_wait: self.max_wait.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_need_a_unit() {
        for (text, ms) in [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("0s", 0), ("1.5s", 1_500)]
        {
            assert_eq!(milliseconds(text), Ok(ms), "{text}");
        }
        for nonsense in ["", "5", "abc", "-1s", "1us", "PT5S", "9999999999999999h", "1d", "s"] {
            assert!(milliseconds(nonsense).is_err(), "{nonsense}");
        }
        assert!(length("0s").is_err());
    }

    #[test]
    fn durations_may_be_calendar_intervals() {
        assert_eq!("minute".parse(), Ok(Window::Calendar(0)));
        assert_eq!("week".parse(), Ok(Window::Calendar(3)));
        assert_eq!("year".parse(), Ok(Window::Calendar(5)));
        assert_eq!("1m".parse(), Ok(Window::Length(60_000)));
        assert!("decade".parse::<Window>().unwrap_err().contains("minute, hour"));
    }
}
