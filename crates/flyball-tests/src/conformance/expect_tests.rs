//! The comparison must be able to fail: one answer, one field wrong at a time.

use jiff::tz::TimeZone;
use serde_json::json;

use super::*;
use crate::conformance::scenario::Step;

const BASE: i64 = 1_700_000_000_000;

fn judge(expect: &Value, answer: &Value) -> Result<(), String> {
    let step: Step = serde_json::from_value(json!({"request": [{}], "expect": [expect]})).unwrap();
    judge_step(&step, &json!({"responses": [answer]}).to_string(), false)
}

fn judge_step(step: &Step, body: &str, loose_errors: bool) -> Result<(), String> {
    let zone = TimeZone::UTC;
    let mut attempt = Attempt::new(&zone, loose_errors);
    (attempt.base, attempt.sent, attempt.received) = (BASE, BASE + 10, BASE + 12);
    attempt.times = vec![(BASE, BASE + 2), (BASE + 10, BASE + 12)];
    let response = Response { status: 200, headers: Vec::new(), body: body.into() };
    check(&step.what, &response, &attempt)
}

fn answer() -> Value {
    json!({"status": "UNDER_LIMIT", "limit": "10", "remaining": "9", "reset_time": (BASE + 5).to_string(),
           "error": "", "metadata": {}, "retry_after": "0"})
}

fn expected() -> Value {
    json!({"status": "UNDER_LIMIT", "limit": 10, "remaining": 9, "reset_offset": 5})
}

fn with(mut value: Value, name: &str, new: Value) -> Value {
    value[name] = new;
    value
}

#[test]
fn every_field_counts() {
    judge(&expected(), &answer()).unwrap();
    for (name, wrong) in [
        ("status", json!("OVER_LIMIT")),
        ("limit", json!("11")),
        ("limit", json!(10)),
        ("remaining", json!("09")),
        ("reset_time", json!((BASE + 6).to_string())),
        ("error", json!("x")),
        ("metadata", json!({"a": "b"})),
        ("retry_after", json!("1")),
        ("more", json!("1")),
    ] {
        judge(&expected(), &with(answer(), name, wrong)).unwrap_err();
    }
    let mut short = answer();
    short.as_object_mut().unwrap().remove("error");
    judge(&expected(), &short).unwrap_err();
}

#[test]
fn moments_are_as_wide_as_the_steps_took() {
    let mut expect = expected();
    expect.as_object_mut().unwrap().remove("reset_offset");
    let clock = with(expect.clone(), "reset_clock", json!({"plus": 100, "steps": {"0": 1, "1": -1}}));
    let now = with(expect, "reset_now_plus", json!(100));
    let at = |offset: i64| with(answer(), "reset_time", json!((BASE + offset).to_string()));
    for (rule, low, high) in [(clock, 88, 92), (now, 110, 112)] {
        judge(&rule, &at(low)).unwrap();
        judge(&rule, &at(high)).unwrap();
        judge(&rule, &at(low - 1)).unwrap_err();
        judge(&rule, &at(high + 1)).unwrap_err();
    }
    let retry = with(expected(), "retry_after", json!({"plus": 50.0, "steps": {"1": 0.5}}));
    judge(&retry, &with(answer(), "retry_after", json!("55"))).unwrap();
    judge(&retry, &with(answer(), "retry_after", json!("56"))).unwrap();
    judge(&retry, &with(answer(), "retry_after", json!("57"))).unwrap_err();
}

#[test]
fn rules_inside_json_hold_or_fail() {
    let step = |json: Value| -> Step {
        serde_json::from_value(
            json!({"http": {"method": "GET", "path": "/"}, "expect": {"status": 200, "json": json}}),
        )
        .unwrap()
    };
    let re = step(json!({"a": {"$re": ".+:[0-9]+"}}));
    judge_step(&re, r#"{"a":"host:12"}"#, false).unwrap();
    judge_step(&re, r#"{"a":"host:12x"}"#, false).unwrap_err();
    let one_of = step(json!({"code": 3, "message": {"$one_of": ["a b", "c"]}}));
    judge_step(&one_of, "{\"code\":3,\"message\":\"a\u{a0}b\"}", false).unwrap();
    judge_step(&one_of, r#"{"code":3,"message":"d"}"#, false).unwrap_err();
    judge_step(&one_of, r#"{"code":3,"message":"d"}"#, true).unwrap();
    judge_step(&one_of, r#"{"code":4,"message":"a b"}"#, true).unwrap_err();
    judge_step(&step(json!({"a": {"$what": 1}})), r#"{"a":1}"#, false).unwrap_err();
}

#[test]
fn an_answer_needs_exactly_one_reset_rule() {
    let none = json!({"status": "UNDER_LIMIT", "limit": 10, "remaining": 9});
    let two = with(expected(), "reset_time", json!(1));
    let odd = with(expected(), "reset_somehow", json!(1));
    for expect in [none, two, odd] {
        assert!(serde_json::from_value::<ExpectItem>(expect).is_err());
    }
}
