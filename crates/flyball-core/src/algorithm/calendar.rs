//! Calendar intervals: when does this minute, hour, day, week, month or year end, and how long is it?
//!
//! An interval ends on its last millisecond, in the node's time zone: `…:59.999`. Weeks run from Monday to
//! Sunday. Around a change of clocks a civil time may come twice or never. The two semantics pick differently
//! then (oddity A38): exact semantics count an hour in absolute time and a day up to the first instant of the
//! next; Gubernator's turn a civil time into an instant by trying the offset that holds at that reading taken
//! as UTC, which we repeat to the letter in [`Calendar::instant_as_gubernator`].

use jiff::civil::{Date, DateTime, date};
use jiff::tz::TimeZone;

use crate::check::Semantics;
use crate::time::Timestamp;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
const WEEK_MS: i64 = 7 * DAY_MS;

/// A calendar interval, by its code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interval {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Interval {
    const fn from_code(code: i64) -> Option<Self> {
        Some(match code {
            0 => Self::Minute,
            1 => Self::Hour,
            2 => Self::Day,
            3 => Self::Week,
            4 => Self::Month,
            5 => Self::Year,
            _ => return None,
        })
    }
}

/// The calendar of one time zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    zone: TimeZone,
}

impl Default for Calendar {
    fn default() -> Self {
        Self::utc()
    }
}

impl Calendar {
    /// The calendar of this time zone.
    pub const fn new(zone: TimeZone) -> Self {
        Self { zone }
    }

    /// The calendar of UTC.
    pub const fn utc() -> Self {
        Self::new(TimeZone::UTC)
    }

    /// The last millisecond of the interval around `t`, never before `t` with exact semantics. `None` for a
    /// code that is no interval.
    pub fn end(&self, code: i64, t: Timestamp, semantics: Semantics) -> Option<i64> {
        let interval = Interval::from_code(code)?;
        let t = within_calendar(t);
        if interval == Interval::Minute {
            // Offsets of time zones are whole minutes, so every zone's minutes end together.
            return Some(t.ms() - t.ms().rem_euclid(MINUTE_MS) + MINUTE_MS - 1);
        }
        let local = self.local(t);
        if interval == Interval::Hour {
            return Some(match semantics {
                Semantics::Exact => {
                    let into = (t.ms() + self.offset_ms(t.ms())).rem_euclid(HOUR_MS);
                    t.ms() - into + HOUR_MS - 1
                }
                Semantics::Gubernator => {
                    let start = local.date().at(local.hour(), 0, 0, 0);
                    self.instant_as_gubernator(start) + HOUR_MS - 1
                }
            });
        }
        let today = local.date();
        let last_day = match interval {
            Interval::Week => {
                let days_left = i64::from(7 - today.weekday().to_monday_one_offset());
                today.saturating_add(jiff::Span::new().days(days_left))
            }
            Interval::Month => today.last_of_month(),
            Interval::Year => today.last_of_year(),
            _ => today,
        };
        Some(match semantics {
            Semantics::Exact => self.start_of(last_day.tomorrow()).saturating_sub(1),
            Semantics::Gubernator => match interval {
                // Days and weeks are built from their last second, months and years from the next one's first.
                Interval::Day | Interval::Week => {
                    self.instant_as_gubernator(last_day.at(23, 59, 59, 999_000_000))
                }
                _ => last_day.tomorrow().map_or(i64::MAX, |next| self.instant_as_gubernator(next.into())) - 1,
            },
        })
    }

    /// The length in milliseconds of the interval around `t`, start to start: what a leaky bucket divides by
    /// its limit. `None` for a code that is no interval.
    pub fn length(&self, code: i64, t: Timestamp, semantics: Semantics) -> Option<i64> {
        let t = within_calendar(t);
        let (first, next) = match Interval::from_code(code)? {
            Interval::Minute => return Some(MINUTE_MS),
            Interval::Hour => return Some(HOUR_MS),
            Interval::Day => return Some(DAY_MS),
            Interval::Week => return Some(WEEK_MS),
            Interval::Month => {
                let today = self.local(t).date();
                (today.first_of_month(), today.last_of_month().tomorrow())
            }
            Interval::Year => {
                let today = self.local(t).date();
                (today.first_of_year(), today.last_of_year().tomorrow())
            }
        };
        let next = next.unwrap_or(Date::MAX);
        Some(match semantics {
            Semantics::Exact => self.start_of(Ok(next)).saturating_sub(self.start_of(Ok(first))),
            Semantics::Gubernator => {
                self.instant_as_gubernator(next.into()) - self.instant_as_gubernator(first.into())
            }
        })
    }

    /// The civil time at `t`.
    fn local(&self, t: Timestamp) -> DateTime {
        self.zone.to_datetime(instant(t.ms()))
    }

    /// Milliseconds that civil time is ahead of UTC at this instant.
    fn offset_ms(&self, ms: i64) -> i64 {
        i64::from(self.zone.to_offset(instant(ms)).seconds()) * 1_000
    }

    /// The first instant of a day; the end of time past the last day.
    fn start_of(&self, day: Result<Date, jiff::Error>) -> i64 {
        day.and_then(|day| self.zone.to_timestamp(day.at(0, 0, 0, 0)))
            .map_or(i64::MAX, jiff::Timestamp::as_millisecond)
    }

    /// The instant of a civil time, by the original's library: take the reading as if it were UTC, look up the
    /// offset there, correct by it, and believe the offset found at the corrected instant.
    fn instant_as_gubernator(&self, civil: DateTime) -> i64 {
        let epoch = date(1970, 1, 1).at(0, 0, 0, 0);
        let as_utc = civil.duration_since(epoch).as_millis() as i64;
        let guess = as_utc - self.offset_ms(as_utc);
        as_utc - self.offset_ms(guess)
    }
}

/// An instant for the calendar library, moved into the years it knows.
fn instant(ms: i64) -> jiff::Timestamp {
    let end = if ms < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_millisecond(ms).unwrap_or(end)
}

/// `t`, or the end of the years a calendar knows (about ±9999) that lies nearer.
fn within_calendar(t: Timestamp) -> Timestamp {
    Timestamp(instant(t.ms()).as_millisecond())
}
