//! What the original's own tests ask of its cache.

use std::thread;

use flyball_core::store::{Role, Store, StoreSettings};
use flyball_core::{Check, Rules, Timestamp};

use crate::support::{START, check, pair, token};

const NOW: Timestamp = Timestamp(START);

fn store() -> Store {
    Store::new(&StoreSettings::default())
}

#[test]
fn happy_path() {
    let store = store();
    for number in 0..1_000 {
        store.insert(pair("a", &number.to_string()), token(number, START, START + 60_000), NOW);
    }
    assert_eq!(store.stats(NOW).entries, 1_000);
    for number in 0..1_000 {
        let expected = token(number, START, START + 60_000);
        assert_eq!(store.get(pair("a", &number.to_string()), NOW), Some(expected));
    }
    for number in 0..1_000 {
        assert!(store.remove(pair("a", &number.to_string())));
    }
    let stats = store.stats(NOW);
    assert_eq!((stats.entries, stats.resident, stats.bytes), (0, 0, 0));
}

#[test]
fn updating_an_existing_key() {
    let store = store();
    let key = pair("a", "b");
    store.insert(key, token(1, START, START + 60_000), NOW);
    store.insert(key, token(2, START, START + 70_000), NOW);
    assert_eq!(store.get(key, NOW), Some(token(2, START, START + 70_000)));
    assert_eq!(store.stats(NOW).entries, 1);
}

const THREADS: i64 = 100;
const KEYS: i64 = 200;

fn in_threads(work: impl Fn(i64) + Sync) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

fn write_all(store: &Store) {
    for number in 0..KEYS {
        store.insert(pair("a", &number.to_string()), token(number % 100, START, START + 60_000), NOW);
    }
}

fn read_all(store: &Store) {
    for number in 0..KEYS {
        let bucket = store.get(pair("a", &number.to_string()), NOW);
        assert_eq!(bucket, Some(token(number % 100, START, START + 60_000)));
    }
}

#[test]
fn concurrent_reads() {
    let store = store();
    write_all(&store);
    in_threads(|_| read_all(&store));
    assert_eq!(store.stats(NOW).entries, KEYS as u64);
}

#[test]
fn concurrent_writes() {
    let store = store();
    in_threads(|_| write_all(&store));
    read_all(&store);
    assert_eq!(store.stats(NOW).entries, KEYS as u64);
}

#[test]
fn concurrent_reads_and_writes() {
    let store = store();
    write_all(&store);
    in_threads(|thread| if thread % 2 == 0 { read_all(&store) } else { write_all(&store) });
    assert_eq!(store.stats(NOW).entries, KEYS as u64);
}

/// Also what no cache of the original promises: no hit is lost, whoever sweeps, walks or scrapes meanwhile.
#[test]
fn stats_while_threads_count() {
    let (store, rules) = (store(), Rules::default());
    in_threads(|thread| match thread % 10 {
        0 => store.sweep(NOW),
        1 => store.for_each(|_, bucket| assert!(bucket.expire_at > START)),
        2 => assert!(store.stats(NOW).entries <= KEYS as u64),
        _ => {
            for number in 0..KEYS {
                let unique_key = number.to_string();
                let check = Check { limit: 100, ..check("a", &unique_key, 60_000, START) };
                store.apply(&check, NOW, &rules, Role::Owner).unwrap();
            }
        }
    });
    let stats = store.stats(NOW);
    let counting = (THREADS / 10 * 7) as u64;
    assert_eq!(stats.entries, KEYS as u64);
    assert_eq!((stats.hits, stats.misses), ((counting - 1) * KEYS as u64, KEYS as u64));
    for number in 0..KEYS {
        let unique_key = number.to_string();
        let look = Check { hits: 0, limit: 100, ..check("a", &unique_key, 60_000, START) };
        let answer = store.apply(&look, NOW, &rules, Role::Owner).unwrap();
        assert_eq!(answer.remaining, 100 - counting as i64);
    }
}

fn ten_and_one_more(expire_at: i64) -> u64 {
    let store = Store::new(&StoreSettings { entries_max: Some(10), ..StoreSettings::default() });
    for number in 0..10 {
        store.insert(pair("a", &number.to_string()), token(1, START, expire_at), NOW);
    }
    store.insert(pair("a", "one more"), token(1, START, START + 60_000), NOW);
    store.stats(NOW).evicted_alive
}

#[test]
fn evictions_of_expired_entries_are_not_counted() {
    assert_eq!(ten_and_one_more(START - 1), 0);
}

#[test]
fn evictions_of_live_entries_are_counted() {
    assert_eq!(ten_and_one_more(START + 60_000), 1);
}

/// Only the owner's verdicts are counted, so that a cluster counts each once.
#[test]
fn replicas_count_no_verdicts() {
    let (store, rules) = (store(), Rules::default());
    for (role, counted) in [(Role::Replica, 0), (Role::Owner, 1)] {
        let check = Check { hits: 11, ..check("a", "b", 60_000, START) };
        store.apply(&check, NOW, &rules, role).unwrap();
        assert_eq!(store.stats(NOW).over_limit, counted);
    }
}
