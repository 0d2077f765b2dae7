//! Ends and lengths of calendar intervals, against what the running original answered (leap years, changes of
//! clocks and odd zones included), and where exact semantics are right instead.

use flyball_core::{Calendar, Semantics, Timestamp};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Case {
    zone: String,
    now: String,
    now_ms: i64,
    interval: i64,
    /// Absent where the original answered with an error.
    end_ms: Option<i64>,
    length: Option<i64>,
}

fn calendar(zone: &str) -> Calendar {
    Calendar::new(jiff::tz::TimeZone::get(zone).unwrap_or_else(|e| panic!("{zone}: {e}")))
}

fn recorded() -> Vec<Case> {
    serde_json::from_str(include_str!("testdata/calendar.json")).expect("the recorded cases parse")
}

#[test]
fn ends_and_lengths_are_the_originals() {
    let cases = recorded();
    assert!(cases.len() >= 190, "only {} recorded cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let calendar = calendar(&case.zone);
        let t = Timestamp(case.now_ms);
        let got = (
            calendar.end(case.interval, t, Semantics::Gubernator),
            calendar.length(case.interval, t, Semantics::Gubernator),
        );
        if got != (case.end_ms, case.length) {
            wrong.push(format!(
                "{} {} interval {}: got {got:?}, recorded {:?}",
                case.zone,
                case.now,
                case.interval,
                (case.end_ms, case.length)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn exact_ends_are_the_originals_but_around_three_changes_of_clocks() {
    let mut differing = Vec::new();
    for case in recorded() {
        let end = calendar(&case.zone).end(case.interval, Timestamp(case.now_ms), Semantics::Exact);
        let (Some(end), Some(recorded)) = (end, case.end_ms) else {
            assert_eq!(end, case.end_ms, "{case:?}");
            continue;
        };
        assert!(end >= case.now_ms, "{} {}: an interval that ended before it began", case.zone, case.now);
        assert_eq!((end + 1).rem_euclid(1_000), 0);
        if end != recorded {
            differing.push((case.zone, case.now, case.interval));
        }
    }
    // A half-hour change of clocks, before and after, and a day whose last hour comes twice.
    let places: Vec<_> = differing.iter().map(|(zone, now, interval)| (&**zone, &**now, *interval)).collect();
    assert_eq!(
        places,
        [
            ("Australia/Lord_Howe", "2026-04-05T01:45:00.000", 1),
            ("Australia/Lord_Howe", "2026-10-04T02:45:00.000", 1),
            ("America/Sao_Paulo", "2018-02-17T12:00:00.000", 2),
        ]
    );
}

/// A38: an hour that comes twice is two hours.
#[test]
fn a_repeated_hour_ends_twice() {
    let berlin = calendar("Europe/Berlin");
    let at = |text: &str| Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    for (now, end) in [
        ("2026-10-25T00:30:00Z", "2026-10-25T00:59:59.999Z"),
        ("2026-10-25T01:30:00Z", "2026-10-25T01:59:59.999Z"),
    ] {
        assert_eq!(berlin.end(1, at(now), Semantics::Exact), Some(at(end).ms()), "{now}");
    }
    let new_york = calendar("America/New_York");
    assert_eq!(
        new_york.end(1, at("2026-11-01T06:30:00Z"), Semantics::Exact),
        Some(at("2026-11-01T06:59:59.999Z").ms())
    );
    assert_eq!(
        new_york.end(1, at("2026-11-01T06:30:00Z"), Semantics::Gubernator),
        Some(at("2026-11-01T05:59:59.999Z").ms()),
        "the original's answer lies in the past"
    );
}

#[test]
fn weeks_end_on_sunday_night() {
    let utc = Calendar::utc();
    for (now, end) in [(1_573_646_400_000, 1_574_035_199_999), (1_796_040_000_000, 1_796_601_599_999)] {
        for semantics in [Semantics::Exact, Semantics::Gubernator] {
            assert_eq!(utc.end(3, Timestamp(now), semantics), Some(end));
            assert_eq!(utc.end(3, Timestamp(end), semantics), Some(end), "Sunday itself");
        }
    }
}

#[test]
fn other_codes_are_no_interval() {
    for code in [-1, 6, 99, i64::MIN, i64::MAX] {
        assert_eq!(Calendar::utc().end(code, Timestamp(0), Semantics::Exact), None);
        assert_eq!(Calendar::utc().length(code, Timestamp(0), Semantics::Gubernator), None);
    }
}

#[test]
fn the_ends_of_time_do_not_panic() {
    for zone in ["UTC", "Pacific/Apia", "Asia/Kathmandu", "America/St_Johns"] {
        for t in [i64::MIN, -1, 0, 253_402_207_200_000, i64::MAX] {
            for code in 0..=5 {
                for semantics in [Semantics::Exact, Semantics::Gubernator] {
                    calendar(zone).end(code, Timestamp(t), semantics);
                    calendar(zone).length(code, Timestamp(t), semantics);
                }
            }
        }
    }
}
