//! Wire to core and back.

use flyball_core::algorithm::{Bucket, LeakyBucket, State, TokenBucket};
use flyball_core::{Behavior, CheckError, Decision, Key, Request, Source, Status, Timestamp};
use flyball_proto::convert::{self, Update};
use flyball_proto::pb;
use proptest::prelude::*;

const KEY: Key<'static> = Key { name: "n", unique_key: "k" };
const NOW: Timestamp = Timestamp(1_800_000_000_000);

#[test]
fn a_request_borrows_every_field() {
    let item = pb::RateLimitReq {
        name: "name".to_owned(),
        unique_key: "key".to_owned(),
        hits: -1,
        limit: 2,
        duration: 3,
        algorithm: 4,
        behavior: 64 | 2,
        burst: 5,
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        created_at: Some(6),
        max_wait: 7,
    };
    let expected = Request {
        key: Key { name: "name", unique_key: "key" },
        hits: -1,
        limit: 2,
        duration: 3,
        algorithm: 4,
        behavior: Behavior(66),
        burst: 5,
        created_at: Some(6),
        max_wait: 7,
    };
    assert_eq!(convert::request(&item), expected);
    assert!(std::ptr::eq(convert::request(&item).key.name, item.name.as_str()));
}

#[test]
fn decisions_keep_their_numbers_and_tell_a_plain_wait_in_metadata() {
    let made = Decision {
        status: Status::Scheduled,
        limit: 1,
        remaining: 2,
        reset_time: 3,
        retry_after: 4,
        plain_retry_after: None,
    };
    let expected = pb::RateLimitResp {
        status: 3,
        limit: 1,
        remaining: 2,
        reset_time: 3,
        retry_after: 4,
        ..Default::default()
    };
    assert_eq!(convert::answer(&Ok(made), KEY, Source::Client), expected);
    for (status, number) in
        [(Status::UnderLimit, 0), (Status::OverLimit, 1), (Status::NeverFits, 2), (Status::Scheduled, 3)]
    {
        assert_eq!(convert::decision(&Decision { status, ..made }).status, number);
        assert_eq!(pb::Status::try_from(number).unwrap().as_str_name(), status.name());
    }
    let waiting = convert::decision(&Decision { plain_retry_after: Some(250), ..made });
    assert_eq!(waiting.metadata, [("retry_after_ms".to_owned(), "250".to_owned())].into());
}

#[test]
fn errors_stand_alone_or_say_where_they_happened() {
    let text = |error, source| {
        let message = convert::answer(&Err(error), KEY, source);
        assert_eq!(message, pb::RateLimitResp { error: message.error.clone(), ..Default::default() });
        message.error
    };
    for source in [Source::Client, Source::Peer] {
        assert_eq!(text(CheckError::EmptyUniqueKey, source), "field 'unique_key' cannot be empty");
        assert_eq!(text(CheckError::EmptyName, source), "field 'namespace' cannot be empty");
        let error = CheckError::MaxWaitWith("RESET_REMAINING");
        assert_eq!(text(error, source), "max_wait cannot be combined with RESET_REMAINING");
    }
    assert_eq!(
        text(CheckError::InvalidAlgorithm(2), Source::Client),
        "Error while apply rate limit for 'n_k': during workerPool.GetRateLimit: Invalid rate limit algorithm '2'"
    );
    assert_eq!(
        text(CheckError::InvalidCalendar("leakyBucket"), Source::Peer),
        "Error in getLocalRateLimit: during workerPool.GetRateLimit: Error in leakyBucket: behavior \
         DURATION_IS_GREGORIAN is set; but `Duration` is not a valid gregorian interval"
    );
}

fn broadcast(algorithm: i32, duration: i64, status: pb::RateLimitResp) -> pb::UpdatePeerGlobal {
    pb::UpdatePeerGlobal {
        key: "n_k".to_owned(),
        status: Some(status),
        algorithm,
        duration,
        created_at: 1,
        bucket: None,
    }
}

#[test]
fn a_broadcast_becomes_a_bucket_that_starts_now() {
    let status = pb::RateLimitResp { limit: 10, remaining: 7, reset_time: 99, ..Default::default() };
    let token = TokenBucket {
        limit: 10,
        remaining: 7,
        duration: 60_000,
        created_at: NOW.ms(),
        calendar: false,
        over_limit: false,
    };
    let bucket = Bucket { expire_at: 99, state: State::Token(token) };
    let item = broadcast(0, 60_000, status.clone());
    assert_eq!(convert::update(&item, NOW), Some(Update::Replace("n_k", bucket)));

    let leaky = LeakyBucket {
        limit: 10,
        duration: 60_000,
        burst: 10,
        balance: -7.0,
        updated_at: NOW.ms(),
        rate: 6_000.0,
        ..LeakyBucket::default()
    };
    let bucket = Bucket { expire_at: 99, state: State::Leaky(leaky) };
    let item = broadcast(1, 60_000, pb::RateLimitResp { remaining: -7, ..status });
    assert_eq!(convert::update(&item, NOW), Some(Update::Replace("n_k", bucket)));
}

#[test]
fn only_over_limit_is_over_limit() {
    for number in [-1, 0, 1, 2, 3, 99] {
        let said = pb::RateLimitResp { status: number, reset_time: 99, ..Default::default() };
        let item = broadcast(0, 1_000, said);
        let Some(Update::Replace(_, Bucket { state: State::Token(token), .. })) = convert::update(&item, NOW)
        else {
            panic!("a token bucket")
        };
        assert_eq!(token.over_limit, number == 1, "{number}");
    }
}

#[test]
fn calendar_codes_are_known_by_their_size() {
    for (duration, calendar) in [(-1, false), (0, true), (5, true), (6, false), (60_000, false)] {
        let item = broadcast(0, duration, pb::RateLimitResp { reset_time: 99, ..Default::default() });
        let Some(Update::Replace(_, Bucket { state: State::Token(token), .. })) = convert::update(&item, NOW)
        else {
            panic!("a token bucket")
        };
        assert_eq!(token.calendar, calendar, "{duration}");
    }
}

#[test]
fn a_broadcast_that_says_nothing_is_skipped_and_an_unknown_algorithm_forgotten() {
    let item = pb::UpdatePeerGlobal { status: None, ..broadcast(0, 1, pb::RateLimitResp::default()) };
    assert_eq!(convert::update(&item, NOW), None);
    let item = broadcast(7, 1, pb::RateLimitResp::default());
    assert_eq!(convert::update(&item, NOW), Some(Update::Forget("n_k")));
}

/// An owner of the original's kind that was asked between a reset and its broadcast tells this.
#[test]
fn a_broadcast_reset_leaves_no_bucket() {
    let item = broadcast(0, 60_000, pb::RateLimitResp { limit: 10, remaining: 10, ..Default::default() });
    assert_eq!(convert::update(&item, NOW), Some(Update::Forget("n_k")));
}

proptest! {
    #[test]
    fn no_broadcast_is_too_strange_to_read(
        algorithm in -2..4_i32,
        numbers in any::<[i64; 4]>(),
        status in any::<i32>(),
        now in any::<i64>(),
    ) {
        let [duration, limit, remaining, reset_time] = numbers;
        let said = pb::RateLimitResp { status, limit, remaining, reset_time, ..Default::default() };
        let item = broadcast(algorithm, duration, said);
        match convert::update(&item, Timestamp(now)) {
            Some(Update::Replace("n_k", bucket)) => prop_assert_eq!(bucket.expire_at, reset_time),
            Some(Update::Forget("n_k")) => {
                prop_assert!(!(0..2).contains(&algorithm) || (algorithm, reset_time) == (0, 0));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
