//! Asking a node over HTTP, once or as a steady load, and the ledger: what clients were granted, counted by them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{Connection, Request};
use crate::wait::{poll, sleep_ms};

/// A check. One hit, an hour, a token bucket, unless said otherwise.
#[derive(Clone, Debug)]
pub struct Item {
    /// First half of the identity.
    pub name: String,
    /// Second half of the identity.
    pub key: String,
    hits: i64,
    limit: i64,
    duration: i64,
    algorithm: i32,
    behavior: i32,
}

impl Item {
    /// A check of this key.
    pub fn new(name: &str, key: &str, limit: i64) -> Self {
        Self {
            name: name.to_owned(),
            key: key.to_owned(),
            hits: 1,
            limit,
            duration: 3_600_000,
            algorithm: 0,
            behavior: 0,
        }
    }

    /// With so many hits.
    #[must_use]
    pub const fn hits(mut self, hits: i64) -> Self {
        self.hits = hits;
        self
    }

    /// With this duration, milliseconds.
    #[must_use]
    pub const fn duration(mut self, ms: i64) -> Self {
        self.duration = ms;
        self
    }

    /// Of a leaky bucket.
    #[must_use]
    pub const fn leaky(mut self) -> Self {
        self.algorithm = 1;
        self
    }

    /// With these behavior bits (see [`flag`](crate::node::flag)) too.
    #[must_use]
    pub const fn behavior(mut self, bits: i32) -> Self {
        self.behavior |= bits;
        self
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "unique_key": self.key, "hits": self.hits, "limit": self.limit,
            "duration": self.duration, "algorithm": self.algorithm, "behavior": self.behavior,
        })
    }
}

/// A call of these items, as `GetRateLimits` over HTTP.
pub(super) fn request(items: &[Item]) -> Request {
    let items: Vec<Value> = items.iter().map(Item::json).collect();
    Request::post("/v1/GetRateLimits", json!({ "requests": items }).to_string())
}

/// The answer to one item.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields of the wire")]
pub struct Answer {
    pub over_limit: bool,
    pub remaining: i64,
    pub reset_time: i64,
    pub error: String,
    pub owner: Option<String>,
    /// Not the owner's answer, since it cannot be reached.
    pub degraded: bool,
}

impl Answer {
    /// What a client takes for leave to go on.
    pub fn is_grant(&self) -> bool {
        self.error.is_empty() && !self.over_limit
    }

    fn read(value: &Value) -> Self {
        let number = |name: &str| match &value[name] {
            Value::String(text) => text.parse().unwrap_or(i64::MIN),
            other => other.as_i64().unwrap_or(i64::MIN),
        };
        let metadata = &value["metadata"];
        Self {
            over_limit: value["status"] == "OVER_LIMIT",
            remaining: number("remaining"),
            reset_time: number("reset_time"),
            error: value["error"].as_str().unwrap_or_default().to_owned(),
            owner: metadata["owner"].as_str().map(str::to_owned),
            degraded: !metadata["degraded"].is_null(),
        }
    }
}

/// Sends one call; the error is a call that failed as a whole.
pub fn ask(connection: &mut Connection, items: &[Item]) -> Result<Vec<Answer>, String> {
    let response = connection.send(&request(items)).map_err(|error| error.to_string())?;
    if response.status != 200 {
        return Err(format!("status {}: {}", response.status, response.text()));
    }
    let json = response.json()?;
    let answers: Vec<Answer> =
        json["responses"].as_array().map(|all| all.iter().map(Answer::read).collect()).unwrap_or_default();
    if answers.len() == items.len() {
        Ok(answers)
    } else {
        Err(format!("{} answers to {} items", answers.len(), items.len()))
    }
}

/// One call of a [`Load`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub struct Call {
    pub sent: Instant,
    pub took: Duration,
    pub outcome: Result<Vec<Answer>, String>,
}

/// Everything a [`Load`] asked and heard.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub struct Record {
    pub items: Vec<Item>,
    pub calls: Vec<Call>,
}

impl Record {
    /// Each answer with its item and its call; calls that failed as a whole are left out.
    pub fn answers(&self) -> impl Iterator<Item = (&Item, &Answer, &Call)> {
        self.calls.iter().flat_map(|call| {
            let answers = call.outcome.iter().flatten();
            self.items.iter().zip(answers).map(move |(item, answer)| (item, answer, call))
        })
    }

    /// What clients must never see: calls that failed, and items with an error.
    pub fn errors(&self) -> Vec<String> {
        let calls = self.calls.iter().filter_map(|call| call.outcome.as_ref().err().cloned());
        let items = self.answers().filter(|(_, answer, _)| !answer.error.is_empty());
        calls.chain(items.map(|(item, answer, _)| format!("{}: {}", item.key, answer.error))).collect()
    }

    /// The longest call sent at `from` or later.
    pub fn slowest(&self, from: Instant) -> Duration {
        self.calls.iter().filter(|call| call.sent >= from).map(|call| call.took).max().unwrap_or_default()
    }
}

/// The hits that clients were granted on a key in calls sent before `until`.
pub fn granted(records: &[Record], key: &str, until: Option<Instant>) -> i64 {
    let answers = records.iter().flat_map(Record::answers);
    answers
        .filter(|(item, answer, call)| {
            item.key == key && answer.is_grant() && until.is_none_or(|until| call.sent < until)
        })
        .map(|(item, ..)| item.hits)
        .sum()
}

/// The same call again and again until it is stopped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Record>>,
}

impl Load {
    /// Asks the node at `http` all these items in one call, and again `pause_ms` after each answer.
    pub fn on(http: SocketAddr, items: Vec<Item>, pause_ms: i64) -> Self {
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (until, count) = (Arc::clone(&stop), Arc::clone(&calls));
        let thread = thread::spawn(move || {
            let mut connection = Connection::new(http);
            let mut record = Record { items, calls: Vec::new() };
            while !until.load(Ordering::Relaxed) {
                let sent = Instant::now();
                let outcome = ask(&mut connection, &record.items);
                record.calls.push(Call { sent, took: sent.elapsed(), outcome });
                count.fetch_add(1, Ordering::Relaxed);
                sleep_ms(pause_ms);
            }
            record
        });
        Self { stop, calls, thread: Some(thread) }
    }

    /// Waits until so many more calls have been answered.
    ///
    /// # Panics
    /// When that takes a minute.
    #[track_caller]
    pub fn let_pass(&self, calls: usize) {
        let goal = self.calls.load(Ordering::Relaxed) + calls;
        let done =
            poll(Duration::from_secs(60), || (self.calls.load(Ordering::Relaxed) >= goal).then_some(()));
        assert!(
            done.is_some(),
            "the load stands still: {} of {goal} calls",
            self.calls.load(Ordering::Relaxed)
        );
    }

    /// Ends it after the call that is under way.
    ///
    /// # Panics
    /// When its thread did.
    #[track_caller]
    pub fn stop(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("taken here only, and `self` is gone afterwards");
        thread.join().expect("the load does not panic")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // A test that failed: nobody waits for the record.
        self.stop.store(true, Ordering::Relaxed);
    }
}
