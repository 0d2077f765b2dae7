//! The recorded scenarios as they stand in `testdata/conformance/vectors`: one JSON object a line.
//!
//! Every field is known here and an unknown one is an error, so a rule this runner does not understand cannot
//! pass as one that held.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::calendar::Interval;

/// One story: steps in order on one connection.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Unique name, for example `leaky.partial-unit`.
    pub id: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// What kind of case it is.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Answers depend on the server's clock.
    #[serde(default)]
    pub server_clock: bool,
    /// Must not run across the end of a minute.
    #[serde(default)]
    pub calendar: bool,
    /// Sleeps by the real clock.
    #[serde(default)]
    pub real_time: bool,
    /// Waits for up to a minute.
    #[serde(default)]
    pub slow: bool,
    /// Needs a server started in this special way.
    pub needs: Option<String>,
    /// What to send and what must come back.
    pub steps: Vec<Step>,
}

/// One request with its expected answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawStep")]
pub struct Step {
    /// When to send it.
    pub when: When,
    /// What to send and to expect.
    pub what: What,
}

/// When a step is sent.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// At once.
    Now,
    /// That many real milliseconds after the base time; worthless when sent or answered more than `late_ms`
    /// later.
    RealAt {
        /// Milliseconds after the base.
        ms: i64,
        /// Tolerated delay.
        late_ms: i64,
    },
    /// A little after the next minute begins, which becomes the new base.
    NextMinute,
}

/// What a step sends.
#[derive(Clone, Debug)]
pub enum What {
    /// Items for `/v1/GetRateLimits`, dated base + `at`.
    Check {
        /// Milliseconds after the base.
        at: i64,
        /// The items as they are sent, but for placeholders and dates.
        items: Vec<Map<String, Value>>,
        /// One per item.
        expect: Vec<ExpectItem>,
    },
    /// Any HTTP request.
    Http {
        /// The request.
        http: Box<HttpStep>,
        /// Its answer.
        expect: Box<HttpExpect>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    at: Option<i64>,
    real_at: Option<i64>,
    late_ms: Option<i64>,
    wait: Option<String>,
    request: Option<Vec<Map<String, Value>>>,
    http: Option<Box<HttpStep>>,
    expect: Value,
}

impl TryFrom<RawStep> for Step {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<Self, String> {
        let when = match (raw.real_at, raw.wait.as_deref()) {
            (None, None) => When::Now,
            (Some(ms), None) => When::RealAt { ms, late_ms: raw.late_ms.unwrap_or(250) },
            (None, Some("next minute")) => When::NextMinute,
            other => return Err(format!("a step that waits for {other:?}")),
        };
        let what = match (raw.request, raw.http) {
            (Some(items), None) => What::Check {
                at: raw.at.unwrap_or(0),
                items,
                expect: serde_json::from_value(raw.expect).map_err(|error| error.to_string())?,
            },
            (None, Some(http)) => What::Http {
                http,
                expect: serde_json::from_value(raw.expect).map_err(|error| error.to_string())?,
            },
            _ => return Err("a step needs either `request` or `http`".into()),
        };
        Ok(Self { when, what })
    }
}

/// A raw HTTP request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpStep {
    /// GET, POST, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Body, with placeholders.
    pub body: Option<String>,
    /// Body as hexadecimal digits, for bytes that are no text.
    pub body_hex: Option<String>,
    /// Headers; `null` leaves a usual one out.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
    /// Send the body in chunks.
    #[serde(default)]
    pub chunked: bool,
    /// `%z%` in the body becomes that many letters z.
    #[serde(default)]
    pub repeat: BTreeMap<String, usize>,
}

/// What must come back for a raw HTTP request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpExpect {
    /// Status code.
    pub status: u16,
    /// Headers that are compared; `null` means absent.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
    /// The body is this JSON value.
    pub json: Option<Value>,
    /// The body is this text.
    pub text: Option<Value>,
    /// The body holds these rate limit answers.
    pub responses: Option<Vec<ExpectItem>>,
}

/// One rate limit answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawExpectItem")]
pub struct ExpectItem {
    /// Name, or the number where it has none.
    pub status: Value,
    /// Echoed limit.
    pub limit: i64,
    /// What is left.
    pub remaining: i64,
    /// Rule for `reset_time`.
    pub reset: Reset,
    /// Rule for `retry_after`.
    pub retry_after: Moment,
    /// Error text; empty for none.
    pub error: String,
    /// Metadata, compared as a value.
    pub metadata: Value,
}

/// What `reset_time` must be.
#[derive(Clone, Debug)]
pub enum Reset {
    /// Base plus so much, modulo 2^64.
    Offset(i64),
    /// Exactly this.
    Exactly(i64),
    /// The last millisecond of the interval around the base.
    EndOf(Interval),
    /// Base plus `at` plus `units` times the whole milliseconds per unit of this interval.
    LeakyCalendar(LeakyCalendar),
    /// So much after some moment between sending and receiving.
    NowPlus(i64),
    /// Base plus a value that depends on when the server did earlier steps.
    Clock(Moment),
}

/// See [`Reset::LeakyCalendar`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeakyCalendar {
    /// Month or year.
    pub interval: Interval,
    /// Units per interval.
    pub limit: i64,
    /// Milliseconds after the base.
    pub at: i64,
    /// Units missing.
    pub units: i64,
}

/// `plus` + the sum of factor × (the server's moment of a step - base), rounded up. The moments are only
/// known to lie between sending and receiving.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Milliseconds; an integer beyond 2^53 stays exact when there are no steps.
    pub plus: Plus,
    /// Index of a step and its factor.
    pub steps: Vec<(usize, f64)>,
}

/// The constant of a [`Moment`].
#[derive(Clone, Copy, Debug)]
pub enum Plus {
    /// A whole number.
    Whole(i64),
    /// A fraction.
    Real(f64),
}

impl Default for Plus {
    fn default() -> Self {
        Self::Whole(0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMoment {
    plus: serde_json::Number,
    #[serde(default)]
    steps: BTreeMap<String, f64>,
}

impl TryFrom<RawMoment> for Moment {
    type Error = String;

    fn try_from(raw: RawMoment) -> Result<Self, String> {
        let mut steps = Vec::new();
        for (step, factor) in raw.steps {
            // "2.1" is item 1 of step 2; the moment is known per step only.
            let index = step.split('.').next().unwrap_or_default();
            steps.push((index.parse().map_err(|_| format!("step {step:?}"))?, factor));
        }
        Ok(Self { plus: plus(&raw.plus)?, steps })
    }
}

fn plus(number: &serde_json::Number) -> Result<Plus, String> {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => Ok(Plus::Whole(whole)),
        (None, Some(real)) => Ok(Plus::Real(real)),
        (None, None) => Err(format!("number {number}")),
    }
}

fn moment(value: Value) -> Result<Moment, String> {
    match value {
        Value::Number(number) => Ok(Moment { plus: plus(&number)?, steps: Vec::new() }),
        other => serde_json::from_value::<RawMoment>(other).map_err(|error| error.to_string())?.try_into(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpectItem {
    status: Value,
    limit: i64,
    remaining: i64,
    reset_offset: Option<i64>,
    reset_time: Option<i64>,
    reset_end_of: Option<Interval>,
    reset_leaky_calendar: Option<LeakyCalendar>,
    reset_now_plus: Option<i64>,
    reset_clock: Option<Value>,
    retry_after: Option<Value>,
    #[serde(default)]
    error: String,
    metadata: Option<Value>,
}

impl TryFrom<RawExpectItem> for ExpectItem {
    type Error = String;

    fn try_from(raw: RawExpectItem) -> Result<Self, String> {
        let mut rules = Vec::new();
        rules.extend(raw.reset_offset.map(Reset::Offset));
        rules.extend(raw.reset_time.map(Reset::Exactly));
        rules.extend(raw.reset_end_of.map(Reset::EndOf));
        rules.extend(raw.reset_leaky_calendar.map(Reset::LeakyCalendar));
        rules.extend(raw.reset_now_plus.map(Reset::NowPlus));
        rules.extend(raw.reset_clock.map(moment).transpose()?.map(Reset::Clock));
        let [reset] = <[Reset; 1]>::try_from(rules)
            .map_err(|rules| format!("an answer needs one rule for reset_time, not {}", rules.len()))?;
        Ok(Self {
            status: raw.status,
            limit: raw.limit,
            remaining: raw.remaining,
            reset,
            retry_after: raw.retry_after.map(moment).transpose()?.unwrap_or_default(),
            error: raw.error,
            metadata: raw.metadata.unwrap_or_else(|| Value::Object(Map::new())),
        })
    }
}

/// Reads every scenario of one file.
pub fn load(path: &Path) -> anyhow::Result<Vec<Scenario>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let scenario: Scenario =
            serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1))?;
        if scenarios.iter().any(|have| have.id == scenario.id) {
            bail!("{}:{}: the id {} is there twice", path.display(), number + 1, scenario.id);
        }
        scenarios.push(scenario);
    }
    Ok(scenarios)
}
