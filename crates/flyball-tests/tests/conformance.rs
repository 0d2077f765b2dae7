//! The recorded answers against a daemon in this process.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;

use flyball_tests::conformance::{self, NOT_OUR_CONTRACT, Options, Report, scenario};
use flyball_tests::in_process::InProcess;

fn run(env: &[(&str, &str)], have: Option<&'static str>) -> Report {
    let daemon = InProcess::like_gubernator(env).unwrap();
    let report = conformance::run_all(&Options { have, ..Options::new(daemon.http()) }).unwrap();
    println!("{report}");
    report
}

/// Every recorded answer but the one that needs a minute; `cargo xtask test` runs that one as well.
#[test]
fn recorded_answers_come_back() {
    let report = run(&[], None);
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!(report.passed, 1_166, "{report}");
}

#[test]
fn recorded_answers_come_back_with_a_low_ceiling() {
    let report = run(&[("GUBER_SCHEDULE_MAX_WAIT", "100s")], Some("low-ceiling"));
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!(report.passed, 3, "{report}");
}

#[test]
fn recorded_answers_come_back_with_forced_global() {
    let report = run(&[("GUBER_FORCE_GLOBAL", "true")], Some("force-global"));
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!(report.passed, 1, "{report}");
}

/// Nothing falls through the sieve: each scenario is run by one of the tests above, is the slow one, or stands
/// with a reason among those that do not count.
#[test]
fn every_scenario_is_accounted_for() {
    let (mut ordinary, mut special, mut slow) = (0, 0, 0);
    let mut out = BTreeSet::new();
    for file in conformance::vectors().unwrap() {
        for scenario in scenario::load(&file).unwrap() {
            match scenario.needs.as_deref() {
                _ if NOT_OUR_CONTRACT.iter().any(|(id, _)| *id == scenario.id) => {
                    out.insert(scenario.id);
                }
                Some("low-ceiling" | "force-global") => special += 1,
                None if scenario.slow => slow += 1,
                None => ordinary += 1,
                Some(other) => panic!("{} needs {other}", scenario.id),
            }
        }
    }
    assert_eq!((ordinary, special, slow), (1_166, 4, 1));
    assert_eq!(out, NOT_OUR_CONTRACT.iter().map(|(id, _)| (*id).to_owned()).collect());
}
