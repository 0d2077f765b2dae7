//! One attempt at one scenario: its prefix for names, its base time, when each step was sent and answered,
//! and the bytes of each request.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::scenario::{HttpStep, What};
use crate::http::Request;

/// Now, Unix milliseconds, by the real clock: the one the server under test reads.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// State of one attempt.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// Eight hexadecimal digits that make this attempt's names its own.
    pub run: String,
    /// Unix milliseconds all offsets count from.
    pub base: i64,
    /// When the step in hand was sent.
    pub sent: i64,
    /// When its answer was there.
    pub received: i64,
    /// Sent and received of every step so far, the one in hand included.
    pub times: Vec<(i64, i64)>,
    /// The server's time zone.
    pub zone: &'a TimeZone,
    /// Compare codes and presence of error texts only.
    pub loose_errors: bool,
}

impl<'a> Attempt<'a> {
    /// A new attempt whose base is now.
    pub fn new(zone: &'a TimeZone, loose_errors: bool) -> Self {
        let base = now_ms();
        // A fresh hasher is keyed at random, which is all that is wanted here.
        let run = format!("{:08x}", RandomState::new().build_hasher().finish() as u32);
        Self { run, base, sent: base, received: base, times: Vec::new(), zone, loose_errors }
    }

    /// Replaces `%RUN%`, `%T%`, `%T+n%` and `%T-n%`.
    pub fn text(&self, text: &str) -> String {
        let text = text.replace("%RUN%", &self.run);
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find("%T") {
            let (before, token) = rest.split_at(at);
            out.push_str(before);
            let parsed = token[2..].split_once('%').and_then(|(offset, after)| {
                let offset = if offset.is_empty() {
                    0
                } else if offset.starts_with(['+', '-']) {
                    offset.parse::<i64>().ok()?
                } else {
                    return None;
                };
                Some((offset, after))
            });
            match parsed {
                Some((offset, after)) => {
                    out.push_str(&(self.base + offset).to_string());
                    rest = after;
                }
                None => {
                    out.push_str("%T");
                    rest = &token[2..];
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Replaces `%RUN%` in every text of a value, field names included.
    pub fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(text.replace("%RUN%", &self.run)),
            Value::Array(values) => Value::Array(values.iter().map(|value| self.fill(value)).collect()),
            Value::Object(map) => Value::Object(self.fill_map(map)),
            other => other.clone(),
        }
    }

    fn fill_map(&self, map: &Map<String, Value>) -> Map<String, Value> {
        map.iter().map(|(key, value)| (key.replace("%RUN%", &self.run), self.fill(value))).collect()
    }

    /// The HTTP request of a step.
    pub fn request(&self, what: &What) -> Result<Request, String> {
        match what {
            What::Check { at, items, .. } => {
                let items: Result<Vec<Value>, String> =
                    items.iter().map(|item| self.item(item, *at).map(Value::Object)).collect();
                let body = serde_json::json!({ "requests": items? }).to_string();
                Ok(Request::post("/v1/GetRateLimits", body))
            }
            What::Http { http, .. } => self.http(http),
        }
    }

    fn item(&self, item: &Map<String, Value>, at: i64) -> Result<Map<String, Value>, String> {
        let mut item = self.fill_map(item);
        let offset = match item.remove("created_at_offset") {
            Some(offset) => offset.as_i64().ok_or("created_at_offset is no whole number")?,
            None => at,
        };
        match item.get("created_at") {
            None => {
                item.insert("created_at".into(), (self.base + offset).into());
            }
            Some(Value::Null) => {
                item.remove("created_at");
            }
            Some(_) => {}
        }
        Ok(item)
    }

    fn http(&self, http: &HttpStep) -> Result<Request, String> {
        let mut body = http.body.as_ref().map(|body| {
            let mut body = self.text(body);
            for (letter, count) in &http.repeat {
                body = body.replace(&format!("%{letter}%"), &letter.repeat(*count));
            }
            body.into_bytes()
        });
        if let Some(digits) = &http.body_hex {
            body = Some(unhex(digits)?);
        }
        Ok(Request {
            method: http.method.clone(),
            path: self.text(&http.path),
            body,
            headers: http.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            chunked: http.chunked,
        })
    }
}

fn unhex(digits: &str) -> Result<Vec<u8>, String> {
    let pair = |at: usize| {
        digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or("body_hex is odd")
    };
    (0..digits.len()).step_by(2).map(|at| pair(at).map_err(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_prefix_and_dates() {
        let zone = TimeZone::UTC;
        let mut attempt = Attempt::new(&zone, false);
        attempt.run = "0badcafe".into();
        attempt.base = 1_000;
        assert_eq!(attempt.text("%RUN% %T% %T+5% %T-5%"), "0badcafe 1000 1005 995");
        assert_eq!(attempt.text("%T %Tx% 100%T%"), "%T %Tx% 1001000");
    }

    #[test]
    fn dates_are_added_only_where_none_is_given() {
        let zone = TimeZone::UTC;
        let mut attempt = Attempt::new(&zone, false);
        attempt.base = 1_000;
        let item = |json: &str| {
            let map = serde_json::from_str(json).unwrap();
            Value::Object(attempt.item(&map, 7).unwrap()).to_string()
        };
        assert_eq!(item("{}"), r#"{"created_at":1007}"#);
        assert_eq!(item(r#"{"created_at_offset":-3}"#), r#"{"created_at":997}"#);
        assert_eq!(item(r#"{"created_at":5}"#), r#"{"created_at":5}"#);
        assert_eq!(item(r#"{"created_at":null}"#), "{}");
    }
}
