//! Comparing an answer with what was recorded. `Err` is the first difference, in words.

use serde_json::{Map, Value};

use super::attempt::Attempt;
use super::calendar;
use super::scenario::{ExpectItem, Moment, Plus, Reset, What};
use crate::http::Response;

/// A double near today's Unix milliseconds has steps of about this size.
const ROUNDING: f64 = 0.0003;
/// The fields of an answer, all of them always there, sorted.
const FIELDS: [&str; 7] = ["error", "limit", "metadata", "remaining", "reset_time", "retry_after", "status"];

/// Compares the answer to a step.
pub fn check(what: &What, response: &Response, attempt: &Attempt<'_>) -> Result<(), String> {
    let status = match what {
        What::Check { .. } => 200,
        What::Http { expect, .. } => expect.status,
    };
    if response.status != status {
        return Err(format!(
            "HTTP status: expected {status}, got {} {}",
            response.status,
            shorten(&response.text(), 300)
        ));
    }
    let expect = match what {
        What::Check { expect, .. } => return responses(expect, response, attempt),
        What::Http { expect, .. } => expect,
    };
    for (name, value) in &expect.headers {
        let have = response.header(&name.to_ascii_lowercase());
        if have != value.as_deref() {
            return Err(format!("header {name}: expected {value:?}, got {have:?}"));
        }
    }
    if let Some(items) = &expect.responses {
        responses(items, response, attempt)
    } else if let Some(json) = &expect.json {
        matches(&attempt.fill(json), &response.json()?, attempt, "body")
    } else if let Some(text) = &expect.text {
        matches(&attempt.fill(text), &Value::String(response.text()), attempt, "body")
    } else {
        Ok(())
    }
}

fn responses(expect: &[ExpectItem], response: &Response, attempt: &Attempt<'_>) -> Result<(), String> {
    let got = response.json()?;
    let items = match &got {
        Value::Object(map) if map.len() == 1 => map.get("responses").and_then(Value::as_array),
        _ => None,
    };
    let items = items
        .ok_or_else(|| format!("expected {{\"responses\":[...]}}, got {}", shorten(&got.to_string(), 300)))?;
    if items.len() != expect.len() {
        return Err(format!("expected {} responses, got {}", expect.len(), items.len()));
    }
    for (number, (expect, got)) in expect.iter().zip(items).enumerate() {
        item(expect, got, attempt).map_err(|what| format!("item {number}: {what}"))?;
    }
    Ok(())
}

fn item(expect: &ExpectItem, got: &Value, attempt: &Attempt<'_>) -> Result<(), String> {
    let all = |map: &Map<String, Value>| {
        let mut names: Vec<&str> = map.keys().map(String::as_str).collect();
        names.sort_unstable();
        names == FIELDS
    };
    let got = match got {
        Value::Object(map) if all(map) => map,
        other => {
            let other = shorten(&other.to_string(), 300);
            return Err(format!("expected the fields {}, got {other}", FIELDS.join(", ")));
        }
    };
    let int = |name: &str| {
        int64(&got[name]).ok_or_else(|| format!("{name}: no integer in a JSON string: {}", got[name]))
    };

    let error = expect.error.replace("%RUN%", &attempt.run);
    let have = got["error"].as_str().ok_or_else(|| format!("error: no text: {}", got["error"]))?;
    let same =
        if attempt.loose_errors { error.is_empty() == have.is_empty() } else { plain(&error) == plain(have) };
    if !same {
        return Err(format!("error: expected {:?}, got {:?}", shorten(&error, 400), shorten(have, 400)));
    }
    if got["status"] != expect.status {
        return Err(format!("status: expected {}, got {}", expect.status, got["status"]));
    }
    for (name, want) in [("limit", expect.limit), ("remaining", expect.remaining)] {
        let have = int(name)?;
        if have != want {
            return Err(format!("{name}: expected {want}, got {have}"));
        }
    }
    reset(&expect.reset, int("reset_time")?, attempt)?;
    let (low, high) = range(&expect.retry_after, attempt)?;
    let have = int("retry_after")?;
    if !(low..=high).contains(&have) {
        return Err(format!("retry_after: expected {low}..{high}, got {have}"));
    }
    matches(&attempt.fill(&expect.metadata), &got["metadata"], attempt, "metadata")
}

/// A decimal integer in a JSON string, in its shortest form.
fn int64(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn reset(rule: &Reset, got: i64, attempt: &Attempt<'_>) -> Result<(), String> {
    let base = attempt.base;
    let (low, high) = match rule {
        Reset::Offset(offset) => (base.wrapping_add(*offset), base.wrapping_add(*offset)),
        Reset::Exactly(at) => (*at, *at),
        Reset::EndOf(interval) => {
            let end = calendar::end_ms(*interval, base, attempt.zone).map_err(|error| error.to_string())?;
            (end, end)
        }
        Reset::LeakyCalendar(rule) => {
            let unit = calendar::leaky_unit(rule.interval, rule.limit, base, attempt.zone)
                .map_err(|error| error.to_string())?;
            let at = base.wrapping_add(rule.at).wrapping_add(rule.units.wrapping_mul(unit));
            (at, at)
        }
        Reset::NowPlus(plus) => (attempt.sent.wrapping_add(*plus), attempt.received.wrapping_add(*plus)),
        Reset::Clock(moment) => {
            let (low, high) = range(moment, attempt)?;
            (base.saturating_add(low), base.saturating_add(high))
        }
    };
    if (low..=high).contains(&got) {
        return Ok(());
    }
    Err(format!(
        "reset_time: expected {low}..{high} (base{:+}..base{:+}), got {got} (base{:+})",
        low.wrapping_sub(base),
        high.wrapping_sub(base),
        got.wrapping_sub(base)
    ))
}

/// The smallest and the largest value a [`Moment`] may have.
fn range(moment: &Moment, attempt: &Attempt<'_>) -> Result<(i64, i64), String> {
    let plus = match moment.plus {
        Plus::Whole(whole) if moment.steps.is_empty() => return Ok((whole, whole)),
        Plus::Whole(whole) => whole as f64,
        Plus::Real(real) => real,
    };
    let (mut low, mut high) = (plus, plus);
    for (step, factor) in &moment.steps {
        let (sent, received) = attempt.times.get(*step).ok_or_else(|| format!("no step {step} so far"))?;
        let early = factor * (sent - attempt.base) as f64;
        let late = factor * (received - attempt.base) as f64;
        low += early.min(late);
        high += early.max(late);
    }
    Ok(((low - ROUNDING).ceil() as i64, (high - ROUNDING).ceil() as i64))
}

/// Compares two JSON values; `$re` and `$one_of` in the expected one are rules.
fn matches(expect: &Value, got: &Value, attempt: &Attempt<'_>, place: &str) -> Result<(), String> {
    match (expect, got) {
        (Value::Object(rule), got) if rule.len() == 1 && rule.keys().all(|key| key.starts_with('$')) => {
            for (name, value) in rule {
                by_rule(name, value, got).map_err(|what| format!("{place}: {what}"))?;
            }
            Ok(())
        }
        (Value::Object(expect), Value::Object(got)) => {
            if !expect.keys().eq(got.keys()) {
                let names = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(format!("{place}: expected the fields {}, got {}", names(expect), names(got)));
            }
            for (name, value) in expect {
                if !(attempt.loose_errors && name == "message" && expect.contains_key("code")) {
                    matches(value, &got[name], attempt, &format!("{place}.{name}"))?;
                }
            }
            Ok(())
        }
        (Value::Array(expect), Value::Array(got)) => {
            if expect.len() != got.len() {
                return Err(format!("{place}: expected {} entries, got {}", expect.len(), got.len()));
            }
            for (number, (expect, got)) in expect.iter().zip(got).enumerate() {
                matches(expect, got, attempt, &format!("{place}[{number}]"))?;
            }
            Ok(())
        }
        (Value::String(expect), Value::String(got)) if plain(expect) == plain(got) => Ok(()),
        (expect, got) if !expect.is_string() && expect == got => Ok(()),
        (expect, got) => Err(format!(
            "{place}: expected {}, got {}",
            shorten(&expect.to_string(), 300),
            shorten(&got.to_string(), 300)
        )),
    }
}

fn by_rule(name: &str, rule: &Value, got: &Value) -> Result<(), String> {
    let text = got.as_str().map(plain);
    let holds = match (name, rule) {
        ("$re", Value::String(pattern)) => {
            let whole = regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
                .dot_matches_new_line(true)
                .build()
                .map_err(|error| error.to_string())?;
            text.is_some_and(|text| whole.is_match(&text))
        }
        ("$one_of", Value::Array(choices)) => text
            .is_some_and(|text| choices.iter().filter_map(Value::as_str).any(|choice| plain(choice) == text)),
        _ => return Err(format!("unknown rule {name}")),
    };
    if holds {
        Ok(())
    } else {
        Err(format!("expected {name} {rule}, got {}", shorten(&got.to_string(), 300)))
    }
}

/// Error texts of the recorded server may hold a no-break space where another build has a blank.
fn plain(text: &str) -> String {
    text.replace('\u{a0}', " ")
}

/// The beginning of a long text.
pub fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "expect_tests.rs"]
mod tests;
