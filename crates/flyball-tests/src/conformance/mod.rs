//! Replays recorded answers against a running server: what `testdata/conformance/replay` does, in Rust.
//!
//! Scenarios run side by side on several connections; the steps of one run in order on one connection. Each
//! attempt names its keys with a prefix of its own, so attempts never meet. Some answers depend on the
//! server's clock: they are accepted anywhere between the moments the runner can prove, and an attempt that a
//! slow machine made meaningless is repeated, at most [`ATTEMPTS`] times, and then fails.
//!
//! 1. [`scenario`]: the data. 2. [`attempt`]: what is sent. 3. [`expect`]: what must come back.
//!    4. [`calendar`]: interval ends of the runner's own.

pub mod attempt;
pub mod calendar;
pub mod expect;
pub mod scenario;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use jiff::tz::TimeZone;

use crate::http::Connection;
use crate::wait::{sleep_ms, sleep_until_ms};
use attempt::{Attempt, now_ms};
use expect::shorten;
use scenario::{Scenario, When};

/// Tries for a scenario whose timing was spoilt by a slow machine.
pub const ATTEMPTS: usize = 4;
const MINUTE: i64 = 60_000;
/// Calendar scenarios start only with this much of the minute left.
const CALENDAR_MARGIN_MS: i64 = 8_000;
/// Scenarios that go by the server's clock must not take longer.
const CLOCK_MARGIN_MS: i64 = 1_200;
/// They start a little after the base, so that the base and that clock differ.
const CLOCK_LEAD_MS: i64 = 12;

/// Scenarios recorded from specially started servers that flyball does not promise to repeat, in either
/// semantics, each with the reason. They are never run and never counted as passed.
pub const NOT_OUR_CONTRACT: [(&str, &str); 4] = [
    ("special.small-cache", "the order of eviction: flyball samples and evicts the fullest, not the oldest"),
    ("special.small-cache-debt", "the order of eviction: flyball keeps a key in debt, the original drops it"),
    ("special.no-peers", "discovery `none` is a healthy cluster of one here; there every call fails"),
    (
        "special.no-peers-max-wait",
        "discovery `none` is a healthy cluster of one here; there every call fails",
    ),
];

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's HTTP listener.
    pub address: SocketAddr,
    /// The server's time zone.
    pub zone: TimeZone,
    /// The special way in which the server was started; only scenarios that need it run, and they one by one.
    pub have: Option<&'static str>,
    /// Also run scenarios that wait for up to a minute.
    pub slow: bool,
    /// Connections side by side.
    pub jobs: usize,
}

impl Options {
    /// An ordinary server in UTC.
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, zone: TimeZone::UTC, have: None, slow: false, jobs: 8 }
    }
}

/// What happened.
#[derive(Debug, Default)]
pub struct Report {
    /// Scenarios whose every answer was right.
    pub passed: usize,
    /// Requests sent in the scenarios that ran, repeated attempts not counted.
    pub requests: usize,
    /// Id and first difference of every scenario that failed.
    pub failed: Vec<(String, String)>,
    /// Ids left out: slow ones, and those that need another kind of server.
    pub left_out: Vec<String>,
}

impl Report {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.requests += other.requests;
        self.failed.extend(other.failed);
        self.left_out.extend(other.left_out);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, difference) in self.failed.iter().take(40) {
            writeln!(f, "FAIL {id}\n      {difference}")?;
        }
        if let Some(more) = self.failed.get(40..) {
            let ids: Vec<&str> = more.iter().map(|(id, _)| id.as_str()).collect();
            writeln!(f, "... and {} more: {}", more.len(), shorten(&ids.join(" "), 4_000))?;
        }
        write!(
            f,
            "{} passed, {} failed, {} left out, {} requests",
            self.passed,
            self.failed.len(),
            self.left_out.len(),
            self.requests
        )
    }
}

/// Where the recorded files are.
pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/conformance")
}

/// The recorded files in their order.
pub fn vectors() -> anyhow::Result<Vec<PathBuf>> {
    let folder = data().join("vectors");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// Whether the wording of errors is free in this file: how a JSON parser words its complaints is nobody's
/// contract.
pub fn is_loose(file: &std::path::Path) -> bool {
    file.file_name().is_some_and(|name| name == "41-http-json-errors.jsonl")
}

/// Runs all recorded scenarios that suit `options`.
pub fn run_all(options: &Options) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for loose in [false, true] {
        let mut scenarios = Vec::new();
        for file in vectors()? {
            if is_loose(&file) == loose {
                scenarios.extend(scenario::load(&file)?);
            }
        }
        report.add(run(scenarios, options, loose));
    }
    Ok(report)
}

/// Runs scenarios.
pub fn run(scenarios: Vec<Scenario>, options: &Options, loose_errors: bool) -> Report {
    let mut report = Report::default();
    let (mut ordinary, mut real_time) = (Vec::new(), Vec::new());
    for scenario in scenarios {
        // A special start decides both ways: such scenarios need it, others must not have it.
        let out_of_contract = NOT_OUR_CONTRACT.iter().any(|(id, _)| *id == scenario.id);
        if out_of_contract || scenario.needs.as_deref() != options.have || (scenario.slow && !options.slow) {
            report.left_out.push(scenario.id);
        } else if scenario.real_time {
            real_time.push(scenario);
        } else {
            ordinary.push(scenario);
        }
    }
    let jobs = if options.have.is_some() { 1 } else { options.jobs.max(1) };
    let sleepers = real_time.len().clamp(1, 32);
    for (group, jobs) in [(ordinary, jobs), (real_time, sleepers)] {
        report.add(run_group(&group, jobs, options, loose_errors));
    }
    report
}

fn run_group(group: &[Scenario], jobs: usize, options: &Options, loose_errors: bool) -> Report {
    let next = AtomicUsize::new(0);
    let report = Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let mut connection = Connection::new(options.address);
                while let Some(scenario) = group.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run_scenario(scenario, &mut connection, options, loose_errors);
                    let mut report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    report.requests += scenario.steps.len();
                    match outcome {
                        Ok(()) => report.passed += 1,
                        Err(difference) => {
                            let difference = format!("{}\n      {difference}", scenario.about);
                            report.failed.push((scenario.id.clone(), difference));
                        }
                    }
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

enum Trouble {
    /// The server answered something else.
    Mismatch(String),
    /// The clock made the attempt meaningless.
    Spoilt,
}

fn run_scenario(
    scenario: &Scenario,
    connection: &mut Connection,
    options: &Options,
    loose_errors: bool,
) -> Result<(), String> {
    for _ in 0..ATTEMPTS {
        match try_once(scenario, connection, options, loose_errors) {
            Ok(()) => return Ok(()),
            Err(Trouble::Mismatch(difference)) => return Err(difference),
            Err(Trouble::Spoilt) => connection.close(),
        }
    }
    Err("the machine was too slow to keep this scenario's timing".into())
}

fn try_once(
    scenario: &Scenario,
    connection: &mut Connection,
    options: &Options,
    loose_errors: bool,
) -> Result<(), Trouble> {
    if scenario.calendar {
        let left = MINUTE - now_ms() % MINUTE;
        if left < CALENDAR_MARGIN_MS {
            sleep_ms(left + 50);
        }
    }
    let mut attempt = Attempt::new(&options.zone, loose_errors);
    if scenario.server_clock {
        sleep_ms(CLOCK_LEAD_MS);
    }
    for (number, step) in scenario.steps.iter().enumerate() {
        let place = |what: String| Trouble::Mismatch(format!("step {number}: {what}"));
        let late = |now: i64, base: i64| match step.when {
            When::RealAt { ms, late_ms } => now - base - ms > late_ms,
            _ => false,
        };
        match step.when {
            When::Now => {}
            When::RealAt { ms, .. } => sleep_until_ms(attempt.base + ms),
            When::NextMinute => {
                sleep_ms(MINUTE - now_ms() % MINUTE + 200);
                attempt.base = now_ms();
            }
        }
        let request = attempt.request(&step.what).map_err(place)?;
        attempt.sent = now_ms();
        if late(attempt.sent, attempt.base) {
            return Err(Trouble::Spoilt);
        }
        let response = connection.send(&request).map_err(|error| place(error.to_string()))?;
        attempt.received = now_ms();
        if late(attempt.received, attempt.base) {
            return Err(Trouble::Spoilt);
        }
        attempt.times.push((attempt.sent, attempt.received));
        if let Err(difference) = expect::check(&step.what, &response, &attempt) {
            let now = now_ms();
            let other_minute = scenario.calendar && !scenario.slow && now / MINUTE != attempt.base / MINUTE;
            if other_minute || (scenario.server_clock && now - attempt.base > CLOCK_MARGIN_MS) {
                return Err(Trouble::Spoilt);
            }
            let sent = request.body.map(|body| String::from_utf8_lossy(&body).into_owned());
            return Err(place(format!(
                "{difference}\n      sent: {}\n      answer: {} {}",
                shorten(&sent.unwrap_or_default(), 600),
                response.status,
                shorten(&response.text(), 600)
            )));
        }
    }
    Ok(())
}
