//! Who goes when a shard is full, and that full means what was configured.

use flyball_core::store::{Role, ShardSettings, entry_bytes};
use flyball_core::{Semantics, Status};
use proptest::prelude::*;

use crate::support::{Keyed, START, check, in_debt, pair, roomy, token};

fn small(entries_max: usize) -> Keyed {
    Keyed::new(ShardSettings { entries_max, ..roomy() }, Semantics::Exact)
}

fn names(keyed: &Keyed) -> Vec<String> {
    let mut names: Vec<String> = keyed.entries().into_iter().map(|(key, _)| key.joined()).collect();
    names.sort();
    names
}

const LIVE: i64 = START + 60_000;

#[test]
fn an_expired_entry_goes_first() {
    let mut keyed = small(3);
    keyed.insert(pair("a", "full"), token(100, START, LIVE), START);
    keyed.insert(pair("a", "expired"), token(0, START, START - 1), START);
    keyed.insert(pair("a", "empty"), token(0, START, LIVE), START);
    keyed.insert(pair("a", "new"), token(0, START, LIVE), START);
    assert_eq!(names(&keyed), ["a_empty", "a_full", "a_new"]);
    let stats = keyed.shard.stats();
    assert_eq!((stats.expired, stats.evicted_alive, stats.evicted_in_debt), (1, 0, 0));
    assert_eq!((stats.entries, stats.resident), (3, 3));
}

#[test]
fn then_the_fullest_goes() {
    let mut keyed = small(4);
    for remaining in [10, 90, 50, 0] {
        keyed.insert(pair("a", &remaining.to_string()), token(remaining, START, LIVE), START);
    }
    keyed.insert(pair("a", "new"), token(60, START, LIVE), START);
    assert_eq!(names(&keyed), ["a_0", "a_10", "a_50", "a_new"]);
    keyed.insert(pair("a", "next"), token(60, START, LIVE), START);
    assert_eq!(names(&keyed), ["a_0", "a_10", "a_50", "a_next"]);
    assert_eq!(keyed.shard.stats().evicted_alive, 2);
}

#[test]
fn among_equals_the_least_recently_used_goes() {
    let mut keyed = small(4);
    for (key, used_at) in [("one", 0), ("two", 1_000), ("three", 2_000), ("four", 3_000)] {
        keyed.insert(pair("a", key), token(50, START, LIVE), START + used_at);
    }
    // A check uses; a look by `get` does not.
    let look = flyball_core::Check { hits: 0, limit: 100, ..check("a", "one", 60_000, START + 4_000) };
    keyed.apply(&look, START + 4_000, Role::Owner).unwrap();
    keyed.get(pair("a", "two"), START + 4_000).unwrap();
    keyed.insert(pair("a", "new"), token(50, START, LIVE), START + 5_000);
    assert_eq!(names(&keyed), ["a_four", "a_new", "a_one", "a_three"]);
}

#[test]
fn a_step_back_does_not_make_the_newest_look_oldest() {
    let mut keyed = small(2);
    keyed.insert(pair("a", "old"), token(50, START, LIVE), START);
    keyed.insert(pair("a", "future"), token(50, START, LIVE), START + 50_000);
    keyed.insert(pair("a", "new"), token(50, START, LIVE), START + 1_000);
    assert_eq!(names(&keyed), ["a_future", "a_new"]);
}

#[test]
fn debt_goes_only_if_there_is_nothing_else() {
    let mut keyed = small(8);
    for number in 0..7 {
        keyed.insert(pair("debt", &number.to_string()), in_debt(LIVE + number, START), START);
    }
    // Empty and just used: by anything but its debt the best one to keep.
    keyed.insert(pair("empty", "x"), token(0, START, LIVE), START + 10_000);
    keyed.insert(pair("debt", "7"), in_debt(LIVE, START), START + 10_000);
    assert!(names(&keyed).iter().all(|name| name.starts_with("debt")));
    let stats = *keyed.shard.stats();
    assert_eq!((stats.evicted_alive, stats.evicted_in_debt), (1, 0));

    keyed.insert(pair("empty", "x"), token(0, START, LIVE), START + 10_000);
    let stats = *keyed.shard.stats();
    assert_eq!((stats.evicted_alive, stats.evicted_in_debt), (2, 1));
}

/// The point of it all: who floods a store with new keys does not get the exhausted buckets forgotten.
#[test]
fn a_flood_of_fresh_keys_evicts_itself() {
    let mut keyed = small(2_000);
    for number in 0..1_000 {
        keyed.insert(pair("blocked", &number.to_string()), token(0, START, LIVE), START);
    }
    for number in 0..100_000 {
        keyed.apply(&check("fresh", &number.to_string(), 60_000, START), START + 1, Role::Owner).unwrap();
    }
    let kept = names(&keyed).iter().filter(|name| name.starts_with("blocked")).count();
    assert!(kept > 750, "{kept} of 1000 exhausted buckets survived");
    assert_eq!(keyed.shard.stats().evicted_alive, 99_000);
    assert_eq!(keyed.shard.stats().resident, 2_000);
}

/// A key too large for its shard gets its answers, but nothing is remembered and nobody evicted for it.
#[test]
fn a_key_larger_than_the_shard_is_decided_but_not_kept() {
    let bytes_max = 10_000;
    let mut keyed = Keyed::new(ShardSettings { bytes_max, ..roomy() }, Semantics::Gubernator);
    keyed.insert(pair("a", "small"), token(1, START, LIVE), START);
    let long = "k".repeat(bytes_max);
    for _ in 0..2 {
        let answer = keyed.apply(&check("a", &long, 60_000, START), START, Role::Owner).unwrap();
        assert_eq!((answer.status, answer.remaining), (Status::UnderLimit, 9));
    }
    let stats = keyed.shard.stats();
    assert_eq!((stats.oversized, stats.resident, stats.misses), (2, 1, 2));

    // The largest that fits takes the whole shard.
    let long = "k".repeat(bytes_max - entry_bytes("a_".len()));
    keyed.apply(&check("a", &long, 60_000, START), START, Role::Owner).unwrap();
    let stats = keyed.shard.stats();
    assert_eq!((stats.oversized, stats.resident, stats.bytes), (2, 1, bytes_max as u64));
    assert_eq!(keyed.apply(&check("a", &long, 60_000, START), START, Role::Owner).unwrap().remaining, 8);
}

/// A17: a store for fewer entries than it has shards holds exactly that many, never none and never more.
#[test]
#[cfg(not(feature = "shuttle"))]
fn a17_a_bound_below_the_shard_count_is_kept() {
    use flyball_core::store::{Store, StoreSettings};
    use flyball_core::{Rules, Timestamp};

    for (configured, shards, holds) in
        [(3, 64, 3), (1, 64, 1), (0, 64, 1), (1_003, 4, 1_003), (5_001, 16, 5_001)]
    {
        let store =
            Store::new(&StoreSettings { shards, entries_max: Some(configured), ..StoreSettings::default() });
        for number in 0..holds * 3 + 100 {
            let unique_key = number.to_string();
            let check = check("a17", &unique_key, 60_000, START);
            store.apply(&check, Timestamp(START), &Rules::default(), Role::Owner).unwrap();
            assert!(store.stats(Timestamp(START)).resident <= holds, "bound {configured}");
        }
        let stats = store.stats(Timestamp(START));
        assert_eq!(stats.resident, holds, "bound {configured}");
        assert_eq!(stats.evicted_alive, holds * 2 + 100);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Neither bound is ever exceeded, by keys of any length, and the books always balance.
    #[test]
    fn bounds_hold(
        bytes_max in prop_oneof![0_usize..3_000, 0_usize..3_000_000],
        entries_max in prop_oneof![0_usize..20, Just(usize::MAX)],
        lengths in prop::collection::vec(prop_oneof![6 => 0_usize..100, 2 => 0_usize..5_000, 1 => 0_usize..1_048_577], 1..150),
    ) {
        let settings = ShardSettings { bytes_max, entries_max, ..roomy() };
        let mut keyed = Keyed::new(settings, Semantics::Gubernator);
        for (number, length) in lengths.into_iter().enumerate() {
            let key = format!("{number}{}", "k".repeat(length));
            let now = START + number as i64 * 100;
            if number % 3 == 0 {
                keyed.insert(pair("a", &key), token(1, START, now + 1_000), now);
            } else {
                keyed.apply(&check("a", &key, 5_000, now), now, Role::Owner).unwrap();
            }
            if number % 10 == 0 {
                keyed.sweep(now);
            }
            let stats = *keyed.shard.stats();
            prop_assert!(stats.bytes <= bytes_max as u64, "{} bytes of {bytes_max}", stats.bytes);
            prop_assert!(stats.resident <= entries_max.max(1) as u64);
            prop_assert!(stats.evicted_in_debt <= stats.evicted_alive);
            let entries = keyed.entries();
            prop_assert_eq!(entries.len() as u64, stats.resident);
            let bytes: usize = entries.iter().map(|(key, _)| entry_bytes(key.joined().len())).sum();
            prop_assert_eq!(bytes as u64, stats.bytes);
            let fits = entry_bytes(key.len() + 2) <= bytes_max;
            prop_assert_eq!(keyed.get(pair("a", &key), now).is_some(), fits, "kept iff it fits");
        }
    }
}
