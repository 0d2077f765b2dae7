//! What was measured, while it is measured.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::wire::{Failure, Verdicts};

/// Latencies above this are recorded as this. No call waits so long: `--timeout` is shorter.
const SLOWEST_US: u64 = 3_600_000_000;
/// Kinds of errors told apart; the texts of item errors come from the node and may contain anything.
const KINDS_MAX: usize = 20;
const KIND_CHARS_MAX: usize = 100;

/// Counts and histograms of some callers. Its size does not depend on how much is recorded.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Microseconds of every call that was answered or timed out. (Leaving out the ones that timed out would
    /// leave out exactly the slowest.)
    pub(crate) latency: Histogram<u64>,
    /// Open loop: microseconds between the intended moment of a call and its sending. What the generator
    /// itself adds to the latency, and what calls spend waiting for a free caller.
    pub(crate) lag: Histogram<u64>,
    /// Calls with an answer.
    pub(crate) calls: u64,
    /// Calls without.
    pub(crate) failed: u64,
    /// Sums over the items of all answers; `reason` is not used.
    pub(crate) verdicts: Verdicts,
    /// Failed calls and refused items by kind.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Tally {
    /// An empty tally.
    ///
    /// # Errors
    /// None in practice: the bounds of the histograms are constants.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, SLOWEST_US, 3);
        Ok(Self {
            latency: histogram()?,
            lag: histogram()?,
            calls: 0,
            failed: 0,
            verdicts: Verdicts::default(),
            errors: BTreeMap::new(),
        })
    }

    /// Records a call.
    pub(crate) fn record(
        &mut self,
        outcome: Result<Verdicts, Failure>,
        latency: Duration,
        lag: Option<Duration>,
    ) {
        if let Some(lag) = lag {
            self.lag.saturating_record(micros(lag));
        }
        if matches!(outcome, Ok(_) | Err(Failure::Timeout)) {
            self.latency.saturating_record(micros(latency));
        }
        match outcome {
            Ok(answer) => {
                self.calls += 1;
                self.add(&answer);
                if let Some(reason) = answer.reason {
                    self.error(&format!("item: {reason}"), answer.refused);
                }
            }
            Err(failure) => {
                self.failed += 1;
                self.error(&failure.to_string(), 1);
            }
        }
    }

    /// Adds another tally to this one.
    ///
    /// # Errors
    /// None in practice: all histograms have the same bounds.
    pub(crate) fn merge(&mut self, other: &Self) -> anyhow::Result<()> {
        self.latency.add(&other.latency)?;
        self.lag.add(&other.lag)?;
        self.calls += other.calls;
        self.failed += other.failed;
        self.add(&other.verdicts);
        for (kind, count) in &other.errors {
            self.error(kind, *count);
        }
        Ok(())
    }

    fn add(&mut self, verdicts: &Verdicts) {
        self.verdicts.decisions += verdicts.decisions;
        self.verdicts.over_limit += verdicts.over_limit;
        self.verdicts.never_fits += verdicts.never_fits;
        self.verdicts.scheduled += verdicts.scheduled;
        self.verdicts.refused += verdicts.refused;
    }

    fn error(&mut self, kind: &str, count: u64) {
        let kind = match kind.char_indices().nth(KIND_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &kind[..end]),
            None => kind.to_owned(),
        };
        let full = self.errors.len() >= KINDS_MAX && !self.errors.contains_key(&kind);
        *self.errors.entry(if full { "other".to_owned() } else { kind }).or_default() += count;
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(refused: u64, reason: Option<&str>) -> Result<Verdicts, Failure> {
        Ok(Verdicts {
            decisions: 2,
            over_limit: 1,
            refused,
            reason: reason.map(str::to_owned),
            ..Verdicts::default()
        })
    }

    #[test]
    fn a_timeout_counts_as_slow_and_a_refused_connection_does_not_count_as_fast() {
        let mut tally = Tally::new().unwrap();
        tally.record(answer(0, None), Duration::from_micros(100), None);
        tally.record(Err(Failure::Timeout), Duration::from_secs(5), None);
        tally.record(Err(Failure::Lost), Duration::from_micros(1), None);
        assert_eq!((tally.calls, tally.failed, tally.latency.len(), tally.lag.len()), (1, 2, 2, 0));
        assert_eq!(tally.latency.min(), 100);
        assert!(tally.latency.max() >= 5_000_000);
    }

    #[test]
    fn kinds_of_errors_are_bounded_in_number_and_length() {
        let mut tally = Tally::new().unwrap();
        for item in 0..1_000 {
            let reason = format!("{item} {}", "ü".repeat(10_000));
            tally.record(answer(3, Some(&reason)), Duration::MAX, Some(Duration::MAX));
        }
        assert_eq!(tally.errors.len(), KINDS_MAX + 1);
        assert_eq!(tally.errors.values().sum::<u64>(), 3_000);
        assert_eq!(tally.errors["other"], 3 * (1_000 - KINDS_MAX as u64));
        assert!(tally.errors.keys().all(|kind| kind.chars().count() <= KIND_CHARS_MAX + 1));
    }

    #[test]
    fn merging_is_recording_in_one_place() {
        let (mut one, mut two, mut both) =
            (Tally::new().unwrap(), Tally::new().unwrap(), Tally::new().unwrap());
        for (call, outcome) in [answer(0, None), answer(1, Some("x")), Err(Failure::Lost)].iter().enumerate()
        {
            let clone = || match outcome {
                Ok(answer) => self::answer(answer.refused, answer.reason.as_deref()),
                Err(failure) => Err(*failure),
            };
            let took = Duration::from_millis(call as u64);
            if call == 0 { &mut one } else { &mut two }.record(clone(), took, Some(took));
            both.record(clone(), took, Some(took));
        }
        one.merge(&two).unwrap();
        assert_eq!(one.latency, both.latency);
        assert_eq!(one.lag, both.lag);
        assert_eq!((one.calls, one.failed), (both.calls, both.failed));
        assert_eq!(one.verdicts, both.verdicts);
        assert_eq!(one.errors, both.errors);
    }
}
