//! The dead stop counting at once and leave memory soon, live ones never do, whatever the clock does.

use flyball_core::store::{Role, ShardSettings};
use flyball_core::{Semantics, Timestamp};
use proptest::prelude::*;

use crate::support::{Keyed, START, check, pair, roomy, token};

const LINGER_MS: i64 = 5_500;
/// How often a node sweeps.
const SWEEP_MS: i64 = 250;

fn shard() -> Keyed {
    Keyed::new(ShardSettings { linger_ms: LINGER_MS, ..roomy() }, Semantics::Exact)
}

fn counts(keyed: &Keyed) -> (u64, u64) {
    (keyed.shard.stats().entries, keyed.shard.stats().resident)
}

/// P40: keys leave memory by their own duration, not a thousand times later.
#[test]
#[cfg(not(feature = "shuttle"))]
fn p40_a_hundred_thousand_keys_of_a_second_are_gone() {
    use flyball_core::Rules;
    use flyball_core::store::{Store, StoreSettings};

    let store = Store::new(&StoreSettings::default());
    let (rules, keys) = (Rules::default(), 100_000);
    for number in 0..keys {
        let unique_key = format!("account:{number}");
        store.apply(&check("p40", &unique_key, 1_000, START), Timestamp(START), &rules, Role::Owner).unwrap();
    }
    let stats = store.stats(Timestamp(START + 1_000));
    assert_eq!((stats.entries, stats.resident), (keys, keys), "alive to the last millisecond");
    let stats = store.stats(Timestamp(START + 1_000 + 65));
    assert_eq!((stats.entries, stats.resident), (0, keys), "dead, and kept for those who lag");
    let stats = store.stats(Timestamp(START + 1_000 + LINGER_MS + 65));
    assert_eq!((stats.entries, stats.resident, stats.bytes), (0, 0, 0), "freed");
    assert_eq!((stats.expired, stats.evicted_alive), (keys, 0));
}

/// However many entries are due, a step of a sweep is a few thousand of them.
#[test]
#[cfg(not(feature = "shuttle"))]
fn a_sweep_goes_in_steps() {
    use flyball_core::Rules;
    use flyball_core::store::{Store, StoreSettings};

    let store = Store::new(&StoreSettings::default());
    let (rules, keys) = (Rules::default(), 50_000);
    for number in 0..keys {
        let unique_key = format!("account:{number}");
        store
            .apply(&check("steps", &unique_key, 1_000, START), Timestamp(START), &rules, Role::Owner)
            .unwrap();
    }
    let now = Timestamp(START + 1_000 + 65);
    assert_eq!(store.counted().entries, keys, "looking makes nothing die");
    let mut sweep = store.begin_sweep(now);
    let mut alive = keys;
    let mut steps = 0;
    while sweep.step() {
        let left = store.counted().entries;
        assert!(alive - left <= 4_096, "{alive} → {left}");
        (alive, steps) = (left, steps + 1);
    }
    assert_eq!(store.counted().entries, 0);
    assert!(steps >= keys / 4_096, "{steps} steps");
    // One that is given up is taken up by the next.
    let later = Timestamp(START + 1_000 + LINGER_MS + 65);
    assert!(store.begin_sweep(later).step());
    let freed = store.counted().expired;
    assert!(freed > 0 && freed <= 4_096, "{freed}");
    store.sweep(later);
    assert_eq!(store.counted().expired, keys);
}

/// A client whose clock lags finds what it used, after the node's clock has passed the end of the window.
#[test]
fn the_dead_still_answer_clients_that_lag() {
    let mut keyed = shard();
    for _ in 0..10 {
        keyed.apply(&check("a", "b", 1_000, START), START, Role::Owner).unwrap();
    }
    let now = START + 1_000 + 4_000;
    keyed.sweep(now);
    assert_eq!(counts(&keyed), (0, 1));
    let late = keyed.apply(&check("a", "b", 1_000, now - 4_000), now, Role::Owner).unwrap();
    assert_eq!(late.remaining, 0, "the window of the client's time is used up");
    assert_eq!(counts(&keyed), (0, 1), "it answered and is dead as before");
    let punctual = keyed.apply(&check("a", "b", 1_000, now), now, Role::Owner).unwrap();
    assert_eq!(punctual.remaining, 9);
    assert_eq!(counts(&keyed), (1, 1), "a new window: alive again");
    keyed.sweep(now + 1_000 + 64);
    assert_eq!(counts(&keyed), (0, 1), "and dead again in its time");
}

#[test]
fn an_expiry_that_moves_is_followed_both_ways() {
    let mut keyed = shard();
    keyed.insert(pair("a", "later"), token(1, START, START + 1_000), START);
    keyed.insert(pair("a", "sooner"), token(1, START, START + 1_000_000), START);
    keyed.sweep(START);
    keyed.insert(pair("a", "later"), token(1, START, START + 1_000_000), START);
    keyed.insert(pair("a", "sooner"), token(1, START, START + 1_000), START);
    keyed.sweep(START + 1_100);
    assert_eq!(counts(&keyed), (1, 2));
    keyed.sweep(START + 1_100 + LINGER_MS);
    assert_eq!(keyed.get(pair("a", "sooner"), START), None);
    assert!(keyed.get(pair("a", "later"), START).is_some());
    keyed.sweep(START + 1_000_000 + LINGER_MS + 65);
    assert_eq!(counts(&keyed), (0, 0));
}

#[test]
fn the_ends_of_time_are_ordinary_moments() {
    let mut keyed = shard();
    for (key, expire_at) in [("never", i64::MAX), ("long ago", i64::MIN), ("before 1970", -5), ("zero", 0)] {
        keyed.insert(pair("a", key), token(1, START, expire_at), START);
    }
    keyed.insert(pair("a", "in 300 years"), token(1, START, START + 300 * 31_557_600_000), START);
    keyed.sweep(START);
    assert_eq!(counts(&keyed), (2, 2), "what had expired before it came is freed at once");
    keyed.sweep(START + 299 * 31_557_600_000);
    assert_eq!(counts(&keyed), (2, 2));
    keyed.sweep(START + 301 * 31_557_600_000);
    assert_eq!(counts(&keyed), (1, 1));
    keyed.sweep(i64::MAX);
    assert_eq!(counts(&keyed), (1, 1), "the last moment is alive until the end of time, inclusive");
    keyed.sweep(i64::MIN);
    keyed.sweep(i64::MAX);
    assert_eq!(counts(&keyed), (1, 1));
}

/// A clock an hour ahead that is put right must not make the store forget: neither at once, nor for the hour
/// that comes twice.
#[test]
fn a_step_back_keeps_live_buckets() {
    let mut keyed = shard();
    let ahead = START + 3_600_000;
    keyed.sweep(ahead);
    keyed.insert(pair("a", "old"), token(1, ahead, ahead + 60_000), ahead);
    keyed.sweep(START);
    keyed.insert(pair("a", "new"), token(1, START, START + 60_000), START);
    for now in (START..START + 60_000).step_by(SWEEP_MS as usize) {
        keyed.sweep(now);
        assert_eq!(counts(&keyed), (2, 2), "at {}", now - START);
    }
    keyed.sweep(START + 60_000 + LINGER_MS + 65);
    assert_eq!(counts(&keyed), (1, 1));
    keyed.sweep(ahead + 60_000 + LINGER_MS + 65);
    assert_eq!(counts(&keyed), (0, 0));
}

/// A sweep never holds a shard for longer than its budget, and always gets to the end.
#[test]
fn work_under_one_lock_is_bounded() {
    let mut keyed = shard();
    const KEYS: u64 = 10_000;
    for number in 0..KEYS {
        keyed.insert(pair("a", &number.to_string()), token(1, START, START + 1_000), START);
    }
    keyed.sweep(START);
    let late = Timestamp(START + 100_000);
    let (mut freed, mut rounds) = (0, 0);
    while keyed.shard.advance(late, 128) {
        let expired = keyed.shard.stats().expired;
        assert!(expired - freed <= 128);
        (freed, rounds) = (expired, rounds + 1);
        // Checks go on in between.
        keyed.apply(&check("b", "c", 60_000, late.ms()), late.ms(), Role::Owner).unwrap();
    }
    assert!(rounds >= KEYS / 128, "{rounds} rounds");
    assert_eq!((keyed.shard.stats().expired, counts(&keyed)), (KEYS, (1, 1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Swept every 250 ms, an entry is in memory until it has lingered, and gone within half a second more.
    #[test]
    fn the_dead_leave_in_time(
        lives in prop::collection::vec(prop_oneof![-20_000_i64..60_000, 0_i64..2_000], 1..200),
        phase in 0_i64..SWEEP_MS,
    ) {
        let mut keyed = shard();
        for (number, life) in lives.iter().enumerate() {
            keyed.insert(pair("a", &number.to_string()), token(1, START, START + life), START);
        }
        for now in (START + phase..START + 70_000).step_by(SWEEP_MS as usize) {
            keyed.sweep(now);
            let alive = lives.iter().filter(|&&life| START + life >= now).count() as u64;
            let just_alive = lives.iter().filter(|&&life| START + life >= now - 64).count() as u64;
            let counted = keyed.shard.stats().entries;
            prop_assert!(alive <= counted && counted <= just_alive, "{alive} <= {counted} <= {just_alive}");
            let must_be_there = lives.iter().filter(|&&life| START + life + LINGER_MS >= now).count();
            let entries = keyed.entries();
            prop_assert!(entries.len() >= must_be_there);
            for (key, bucket) in entries {
                prop_assert!(bucket.expire_at + LINGER_MS + 64 >= now, "{key:?} should be gone");
            }
        }
        prop_assert_eq!(counts(&keyed), (0, 0));
    }
}
