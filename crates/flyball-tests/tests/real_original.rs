//! The same random histories to the running original (v2.21.0) and to ours with its semantics; every answer
//! must be the same, over gRPC and over HTTP.
//!
//! Two servers cannot be asked at the same instant, and some answers are made from the server's clock. So:
//! * Every item is dated, and dates and durations are chosen so that no bucket's life ends within half a minute
//!   of the present: whether it is alive does not depend on when the question arrives.
//! * The calendar is the server's own; a history during which a minute ended is thrown away.
//! * Items that go by the server's clock whatever their date (`max_wait`, a leaky balance below zero, which
//!   a booking or a negative burst leads to) are in histories of their own, each with one rate. There the times may differ by as long as the
//!   two questions took, and a history ends unjudged when the clock alone may have tipped the verdict.
//! * What ours mends on purpose is not asked: overflow of a first refund (`hits` near `i64::MIN`).
//!
//! Thrown-away histories are counted, and the test fails when they are more than a few. A failure names the
//! seed; `FLYBALL_TEST_SEED` repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::fmt::Write as _;

use flyball::pb::v1_client::V1Client;
use flyball::pb::{GetRateLimitsReq, RateLimitReq, RateLimitResp, Status};
use flyball_tests::binary::{Launch, Server};
use flyball_tests::conformance::attempt::now_ms;
use flyball_tests::http::{Connection, Request};
use flyball_tests::node::flag;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};

const HISTORIES: u64 = 400;
const MINUTE: i64 = 60_000;
/// A history that took longer may have met the end of a bucket.
const TOO_LONG_MS: i64 = 15_000;

/// xorshift64*: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: i64) -> i64 {
        i64::try_from(self.next()).unwrap() % bound
    }

    fn one_in(&mut self, times: i64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as i64)).unwrap()]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Everything is decided by the items' dates.
    Dated,
    /// The servers' clocks have a say.
    Clocked,
}

/// Half a minute off every date, so that dates (whole minutes and up to five seconds) plus durations never
/// come near the present.
const HALF: i64 = 30_000;

/// Limit and duration of a clocked history: few units over long times, so that a few milliseconds rarely matter,
/// and always the same, since a changed rate would multiply them. Not negative: an empty bucket would be one in
/// debt a millisecond later. (Negative limits are among the recorded answers.)
type Rate = (i64, i64);

fn item(random: &mut Random, kind: Kind, (limit, duration): Rate, name: &str, base: i64) -> RateLimitReq {
    let leaky = kind == Kind::Clocked || random.one_in(2);
    let mut behavior = 0;
    for bit in [flag::NO_BATCHING, flag::GLOBAL, flag::RESET, flag::MULTI_REGION, flag::DRAIN, 64] {
        if random.one_in(8) {
            behavior |= bit;
        }
    }
    let mut request = RateLimitReq {
        name: name.to_owned(),
        unique_key: random.pick(&["a", "b"]).to_owned(),
        hits: random.pick(&[0, 0, 1, 1, 1, 1, 2, 3, 5, 10, 11, 100, -1, -2, -20]),
        limit: random.pick(&[0, 1, 2, 3, 7, 10, 10, 10, 20, 100, 1_000, (1 << 53) + 3]),
        duration: HALF + MINUTE * random.pick(&[0, 1, 1, 1, 10, 60, 1_440, 100_000]),
        algorithm: i32::from(leaky),
        behavior,
        burst: if random.one_in(3) { random.pick(&[1, 3, 10, 15, 100]) } else { 0 },
        created_at: Some(base + MINUTE * random.pick(&[-3, -1, 0, 0, 0, 0, 1, 2, 5]) + random.below(5_000)),
        ..RateLimitReq::default()
    };
    match kind {
        Kind::Dated => {
            if random.one_in(10) {
                request.behavior |= flag::GREGORIAN;
                request.duration = random.pick(&[0, 1, 2, 3, 4, 5, 6, -1]);
                // A leaky bucket lives for the rest of the interval, counted from the item's date.
                request.created_at = request.created_at.max(Some(base));
            } else if random.one_in(25) {
                // A leaky bucket falls below zero with a negative one.
                request.duration = if leaky { i64::MAX } else { random.pick(&[-HALF, i64::MAX, i64::MIN]) };
            }
            if !leaky && random.one_in(20) {
                request.hits = random.pick(&[i64::MAX, i64::MIN, -1_000_000]);
                request.limit = random.pick(&[i64::MAX, i64::MIN, -5, 0]);
            }
            if random.one_in(40) {
                request.algorithm = random.pick(&[2, -1, i32::MAX]);
            }
            if random.one_in(40) {
                request.max_wait = -1;
            }
        }
        Kind::Clocked => {
            (request.limit, request.duration) = (limit, duration);
            request.burst = random.pick(&[0, 0, 0, 5, 12, -2]);
            if random.one_in(2) {
                request.max_wait = random.pick(&[1, 17_333, 71_111, 153_003, 299_900, 10_000_000]);
                if !random.one_in(6) {
                    request.behavior &= flag::NO_BATCHING | flag::MULTI_REGION;
                }
            }
        }
    }
    request
}

struct Side {
    http: Connection,
    grpc: Channel,
}

impl Side {
    fn new(runtime: &Runtime, server: &Server) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc())).unwrap();
        Self { http: server.connect(), grpc: runtime.block_on(endpoint.connect()).unwrap() }
    }

    fn ask(&mut self, runtime: &Runtime, by_http: bool, items: &[RateLimitReq]) -> Vec<RateLimitResp> {
        if !by_http {
            let request = GetRateLimitsReq { requests: items.to_vec() };
            let answer = runtime.block_on(V1Client::new(self.grpc.clone()).get_rate_limits(request));
            return answer.unwrap().into_inner().responses;
        }
        let items: Vec<Value> = items
            .iter()
            .map(|item| {
                json!({
                    "name": item.name, "unique_key": item.unique_key, "hits": item.hits, "limit": item.limit,
                    "duration": item.duration.to_string(), "algorithm": item.algorithm,
                    "behavior": item.behavior, "burst": item.burst, "created_at": item.created_at,
                    "max_wait": item.max_wait,
                })
            })
            .collect();
        let request = Request::post("/v1/GetRateLimits", json!({ "requests": items }).to_string());
        let response = self.http.send(&request).unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
        let body = response.json().unwrap();
        body["responses"].as_array().unwrap().iter().map(from_json).collect()
    }
}

fn from_json(answer: &Value) -> RateLimitResp {
    let int = |name: &str| answer[name].as_str().unwrap().parse().unwrap();
    RateLimitResp {
        status: match &answer["status"] {
            Value::String(name) => Status::from_str_name(name).unwrap() as i32,
            number => i32::try_from(number.as_i64().unwrap()).unwrap(),
        },
        limit: int("limit"),
        remaining: int("remaining"),
        reset_time: int("reset_time"),
        retry_after: int("retry_after"),
        error: answer["error"].as_str().unwrap().to_owned(),
        metadata: answer["metadata"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
            .collect(),
    }
}

#[derive(PartialEq, Eq)]
enum Verdict {
    Same,
    /// The clock may be the reason.
    Unclear,
    Different,
}

fn judge(
    kind: Kind,
    request: &RateLimitReq,
    theirs: &RateLimitResp,
    ours: &RateLimitResp,
    slack: i64,
) -> Verdict {
    if theirs == ours {
        return Verdict::Same;
    }
    if kind == Kind::Dated {
        return Verdict::Different;
    }
    let close = |a: i64, b: i64| a.abs_diff(b) <= slack.unsigned_abs();
    let near_edge = |answer: &RateLimitResp| {
        let wait = answer.retry_after;
        wait != 0 && (close(wait, request.max_wait) || close(wait, 300_000))
    };
    let same_verdict = (theirs.status, theirs.limit, &theirs.error, &theirs.metadata)
        == (ours.status, ours.limit, &ours.error, &ours.metadata);
    if same_verdict
        && theirs.remaining == ours.remaining
        && close(theirs.reset_time, ours.reset_time)
        && close(theirs.retry_after, ours.retry_after)
    {
        Verdict::Same
    } else if near_edge(theirs) || near_edge(ours) || (theirs.remaining - ours.remaining).abs() == 1 {
        Verdict::Unclear
    } else {
        Verdict::Different
    }
}

#[test]
fn random_histories_get_the_same_answers() {
    let seed = std::env::var("FLYBALL_TEST_SEED").ok().map_or_else(
        || u64::try_from(now_ms()).unwrap(),
        |text| text.parse().expect("FLYBALL_TEST_SEED is a number"),
    );
    println!("FLYBALL_TEST_SEED={seed}");
    // The original's timer re-runs GLOBAL requests in the background; it is kept out of the way.
    let original = Launch::gubernator()
        .variable("GUBER_GLOBAL_SYNC_WAIT", "1h")
        .variable("GUBER_GLOBAL_BATCH_LIMIT", "1000000")
        .start()
        .unwrap();
    let ours = Launch::flyball_like_gubernator().start().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (mut theirs, mut ours) = (Side::new(&runtime, &original), Side::new(&runtime, &ours));
    let (mut requests, mut items_compared, mut thrown_away) = (0, 0, 0);
    for history in 0..HISTORIES {
        let mut random = Random::new(seed.wrapping_add(history));
        let kind = if history % 4 == 3 { Kind::Clocked } else { Kind::Dated };
        let by_http = random.one_in(2);
        let rate: Rate =
            (random.pick(&[1, 2, 3, 7, 10, 10, 20, 0]), HALF + MINUTE * random.pick(&[10, 10, 60, 1_440]));
        let name = format!("differential-{seed}-{history}");
        let base = now_ms();
        let mut story = String::new();
        let mut slack = 1;
        for _ in 0..5 + random.below(25) {
            let count = if random.one_in(4) { 2 + random.below(4) } else { 1 };
            let items: Vec<RateLimitReq> =
                (0..count).map(|_| item(&mut random, kind, rate, &name, base)).collect();
            let before = now_ms();
            let expected = theirs.ask(&runtime, by_http, &items);
            let got = ours.ask(&runtime, by_http, &items);
            let after = now_ms();
            requests += 1;
            slack += after - before;
            if base / MINUTE != after / MINUTE || after - base > TOO_LONG_MS {
                thrown_away += 1;
                break;
            }
            assert_eq!(expected.len(), got.len());
            let mut unclear = false;
            for (number, request) in items.iter().enumerate() {
                let (theirs, ours) = (&expected[number], &got[number]);
                let at = request.created_at.unwrap_or_default() - base;
                writeln!(story, "base{at:+} {request:?}\n  theirs {theirs:?}\n  ours   {ours:?}").unwrap();
                // An earlier item of the same call may have tipped already.
                match judge(kind, request, theirs, ours, slack) {
                    Verdict::Same => items_compared += 1,
                    _ if unclear => {}
                    Verdict::Unclear => unclear = true,
                    Verdict::Different => {
                        panic!("FLYBALL_TEST_SEED={seed}, history {history}, {kind:?}, base {base}:\n{story}")
                    }
                }
            }
            if unclear {
                thrown_away += 1;
                break;
            }
        }
    }
    println!(
        "{HISTORIES} histories, {requests} requests, {items_compared} items compared, {thrown_away} thrown away"
    );
    assert!(thrown_away * 10 < HISTORIES, "{thrown_away} of {HISTORIES} histories thrown away");
    assert!(items_compared > 5_000, "only {items_compared} items compared");
}
