//! How often something is told to people, however often it happens.
//!
//! Ordinary changes of a cluster come a few at a time, and each deserves its line in the log. A peer that flaps brings one
//! or more a second for as long as nobody looks, and would push everything else out of the log.

use core::time::Duration;

use crate::time::Instant;

/// This many may be told at once …
const AT_ONCE: u32 = 10;

/// … and one more after each such time.
const EVERY: Duration = Duration::from_secs(6);

/// Decides which of many alike events are told, and counts the others. A leaky bucket by one moment (the generic cell rate
/// algorithm of ITU-T I.371): when what was told so far will be paid for.
///
/// ```
/// use flyball_core::{Telling, time::Instant};
///
/// let mut telling = Telling::default();
/// let told = (0..100).filter_map(|_| telling.tell(Instant::default())).count();
/// assert_eq!(told, 10);
/// let later = Instant::default().saturating_add(std::time::Duration::from_secs(6));
/// assert_eq!(telling.tell(later), Some(90), "and says how many were not");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Telling {
    paid: Instant,
    untold: u64,
}

impl Telling {
    /// An event: whether it is told, and if so how many were not since the one before.
    pub fn tell(&mut self, now: Instant) -> Option<u64> {
        if self.paid.saturating_since(now) > EVERY * (AT_ONCE - 1) {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.paid = self.paid.max(now).saturating_add(EVERY);
        Some(core::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::default().saturating_add(Duration::from_secs(seconds))
    }

    #[test]
    fn an_hour_of_two_changes_a_second_is_some_hundred_lines() {
        let mut telling = Telling::default();
        let (mut lines, mut others) = (0, 0);
        for second in (0..3_600).flat_map(|second| [second, second]) {
            if let Some(untold) = telling.tell(at(second)) {
                lines += 1;
                others += untold;
            }
        }
        assert_eq!(lines, 10 + 3_599 / 6);
        assert_eq!(lines + others + telling.untold, 7_200, "all are accounted for");
    }

    #[test]
    fn after_a_quiet_minute_all_is_told_again() {
        let mut telling = Telling::default();
        for round in 0..5 {
            for _ in 0..10 {
                assert_eq!(telling.tell(at(round * 60)), Some(0));
            }
        }
        assert_eq!(telling.tell(at(240)), None);
        // A moment before the last one is no reason to tell less, or more.
        assert_eq!(telling.tell(at(0)), None);
    }
}
