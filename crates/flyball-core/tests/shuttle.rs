//! The shard's lock under shuttle: whatever the order in which threads get their turn, the hits on one key are
//! counted one by one.
#![cfg(feature = "shuttle")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;

use flyball_core::algorithm::{Bucket, State, TokenBucket};
use flyball_core::store::{Role, Store, StoreSettings, StoredKey};
use flyball_core::{Algorithm, Behavior, Check, Key, Rules, Timestamp};
use shuttle::thread;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const SCHEDULES: usize = 2_000;

fn store() -> Arc<Store> {
    Arc::new(Store::new(&StoreSettings { shards: 2, ..StoreSettings::default() }))
}

fn check(unique_key: &str, hits: i64, algorithm: Algorithm) -> Check<'_> {
    Check {
        key: Key { name: "a", unique_key },
        hits,
        limit: 5,
        duration: 60_000,
        algorithm,
        behavior: Behavior::BATCHING,
        burst: 5,
        created_at: NOW,
        max_wait: 0,
    }
}

fn apply(store: &Store, check: &Check<'_>) -> i64 {
    store.apply(check, NOW, &Rules::default(), Role::Owner).unwrap().remaining
}

fn counts_one_by_one(algorithm: Algorithm) {
    shuttle::check_random(
        move || {
            let store = store();
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let store = Arc::clone(&store);
                    thread::spawn(move || apply(&store, &check("b", 1, algorithm)))
                })
                .collect();
            let mut seen: Vec<i64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            seen.sort_unstable();
            assert_eq!(seen, [2, 3, 4], "every hit has its own place");
            assert_eq!(apply(&store, &check("b", 0, algorithm)), 2);
        },
        SCHEDULES,
    );
}

#[test]
fn token_hits_are_atomic() {
    counts_one_by_one(Algorithm::TokenBucket);
}

#[test]
fn leaky_hits_are_atomic() {
    counts_one_by_one(Algorithm::LeakyBucket);
}

/// The same while other threads sweep, sum, walk, and insert and remove neighbours in the same table.
#[test]
fn nothing_is_lost_to_what_else_goes_on() {
    shuttle::check_random(
        || {
            let store = store();
            let neighbour = |life| Bucket {
                expire_at: NOW.ms() + life,
                state: State::Token(TokenBucket { limit: 5, remaining: 1, ..TokenBucket::default() }),
            };
            // Entries that a sweep frees, so that others move.
            for key in ["a_x", "a_y"] {
                store.insert(StoredKey::Joined(key), neighbour(-100_000), NOW);
            }
            let hitters: Vec<_> = (0..2)
                .map(|_| {
                    let store = Arc::clone(&store);
                    thread::spawn(move || apply(&store, &check("b", 1, Algorithm::TokenBucket)))
                })
                .collect();
            let others: [fn(&Store, Bucket); 3] = [
                |store, _| store.sweep(NOW),
                |store, _| assert!(store.stats(NOW).entries <= 2),
                |store, bucket| {
                    store.insert(StoredKey::Joined("a_z"), bucket, NOW);
                    store.for_each(|_, _| ());
                    assert!(store.remove(StoredKey::Joined("a_z")));
                },
            ];
            let others: Vec<_> = others
                .into_iter()
                .map(|other| {
                    let (store, bucket) = (Arc::clone(&store), neighbour(100_000));
                    thread::spawn(move || other(&store, bucket))
                })
                .collect();
            let mut seen: Vec<i64> = hitters.into_iter().map(|thread| thread.join().unwrap()).collect();
            others.into_iter().for_each(|thread| thread.join().unwrap());
            seen.sort_unstable();
            assert_eq!(seen, [3, 4]);
            let stats = store.stats(NOW);
            assert_eq!((stats.entries, stats.resident, stats.expired), (1, 1, 2));
        },
        SCHEDULES,
    );
}

/// A broadcast that overwrites is before or after each hit, never in the middle of one.
#[test]
fn an_overwrite_is_whole() {
    shuttle::check_random(
        || {
            let store = store();
            apply(&store, &check("b", 1, Algorithm::TokenBucket));
            let state = TokenBucket {
                limit: 5,
                remaining: 1,
                duration: 60_000,
                created_at: NOW.ms(),
                ..TokenBucket::default()
            };
            let bucket = Bucket { expire_at: NOW.ms() + 60_000, state: State::Token(state) };
            let writer = {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    store.insert(StoredKey::Pair(Key { name: "a", unique_key: "b" }), bucket, NOW);
                })
            };
            let hit = apply(&store, &check("b", 1, Algorithm::TokenBucket));
            writer.join().unwrap();
            let left = apply(&store, &check("b", 0, Algorithm::TokenBucket));
            assert!((hit, left) == (3, 1) || (hit, left) == (0, 0), "{hit} then {left}");
        },
        SCHEDULES,
    );
}
