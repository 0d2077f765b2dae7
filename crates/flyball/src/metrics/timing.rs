//! How long something takes: a sum since the start, quantiles of the last minutes, and buckets.
//!
//! Only sampled calls come here, so one mutex per thing measured is never contended for long.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Quantiles look back over one to two of these.
const WINDOW: Duration = Duration::from_secs(300);

/// Upper bounds of the buckets, in seconds. The last bucket, +Inf, is implied.
pub(crate) const BOUNDS: [f64; 14] = [
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05,
    0.25, 1.0,
];

/// Durations of one thing.
#[derive(Debug, Default)]
pub(crate) struct Timing(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sum: f64,
    weight: u64,
    /// Weighted counts, not cumulative; the last one is +Inf.
    buckets: [u64; BOUNDS.len() + 1],
    window: Option<Window>,
}

/// Samples in nanoseconds, two digits exact, up to an hour.
#[derive(Debug)]
struct Window {
    since: Instant,
    current: Histogram<u32>,
    previous: Histogram<u32>,
}

impl Window {
    fn new(now: Instant) -> Option<Self> {
        let empty = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).ok()?;
        Some(Self { since: now, current: empty.clone(), previous: empty })
    }

    fn rotate(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if age < WINDOW {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.reset();
        if age >= 2 * WINDOW {
            self.previous.reset();
        }
        self.since = now;
    }
}

/// A look at a [`Timing`].
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Seconds, weighted.
    pub(crate) sum: f64,
    /// Calls that the samples stand for.
    pub(crate) weight: u64,
    /// Cumulative counts, one per bound.
    pub(crate) cumulative: [u64; BOUNDS.len()],
    recent: Option<Histogram<u32>>,
}

impl Snapshot {
    /// Seconds; NaN when there were no samples lately.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        match &self.recent {
            Some(recent) if !recent.is_empty() => recent.value_at_quantile(quantile) as f64 / 1e9,
            _ => f64::NAN,
        }
    }
}

impl Timing {
    /// Adds a sample that stands for `weight` calls and was taken at `now`.
    pub(crate) fn record(&self, took: Duration, weight: u64, now: Instant) {
        let seconds = took.as_secs_f64();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.sum += seconds * weight as f64;
        state.weight += weight;
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        state.buckets[bucket] += weight;
        if state.window.is_none() {
            state.window = Window::new(now);
        }
        if let Some(window) = &mut state.window {
            window.rotate(now);
            window.current.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// What is known at `now`.
    pub(crate) fn snapshot(&self, now: Instant) -> Snapshot {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cumulative = [0; BOUNDS.len()];
        let mut below = 0;
        for (total, count) in cumulative.iter_mut().zip(state.buckets) {
            below += count;
            *total = below;
        }
        let recent = state.window.as_mut().map(|window| {
            window.rotate(now);
            let mut recent = window.current.clone();
            // The two have the same bounds, so adding cannot fail.
            let _ = recent.add(&window.previous);
            recent
        });
        Snapshot { sum: state.sum, weight: state.weight, cumulative, recent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn without_samples_quantiles_are_unknown() {
        let snapshot = Timing::default().snapshot(Instant::now());
        assert!(snapshot.quantile(0.5).is_nan());
        assert_eq!((snapshot.sum, snapshot.weight), (0.0, 0));
    }

    #[test]
    fn sums_are_weighted_and_quantiles_are_not() {
        let (timing, now) = (Timing::default(), Instant::now());
        timing.record(MS, 1, now);
        timing.record(3 * MS, 64, now);
        let snapshot = timing.snapshot(now);
        assert!((snapshot.sum - 0.193).abs() < 1e-9);
        assert_eq!(snapshot.weight, 65);
        assert!((snapshot.quantile(0.5) - 0.001).abs() < 2e-5);
        assert!((snapshot.quantile(1.0) - 0.003).abs() < 5e-5);
        assert_eq!(snapshot.cumulative, [0, 0, 0, 0, 0, 0, 0, 1, 1, 65, 65, 65, 65, 65]);
    }

    #[test]
    fn what_is_older_than_two_windows_leaves_the_quantiles_only() {
        let (timing, start) = (Timing::default(), Instant::now());
        timing.record(MS, 1, start);
        assert!(timing.snapshot(start + WINDOW).quantile(0.5) > 0.0);
        let later = timing.snapshot(start + 3 * WINDOW);
        assert!(later.quantile(0.5).is_nan());
        assert_eq!(later.weight, 1);
        assert!(later.sum > 0.0);
    }

    #[test]
    fn absurd_durations_are_kept_in_bounds() {
        let (timing, now) = (Timing::default(), Instant::now());
        timing.record(Duration::MAX, 1, now);
        timing.record(Duration::ZERO, 1, now);
        let snapshot = timing.snapshot(now);
        assert_eq!(snapshot.weight, 2);
        assert_eq!(snapshot.cumulative[BOUNDS.len() - 1], 1);
        assert!(snapshot.quantile(1.0) >= 3_600.0);
    }
}
