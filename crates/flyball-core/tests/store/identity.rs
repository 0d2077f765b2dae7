//! Which bucket a key means: pairs, joined texts, and which of them wins.

use std::collections::BTreeMap;

use flyball_core::store::{Role, Store, StoreSettings, StoredKey};
use flyball_core::{Rules, Semantics, Timestamp};

use crate::support::{OwnedKey, START, check, pair, token};

fn store(semantics: Semantics) -> (Store, Rules) {
    let settings = StoreSettings { semantics, ..StoreSettings::default() };
    (Store::new(&settings), Rules { semantics, ..Rules::default() })
}

fn hit(store: &Store, rules: &Rules, name: &str, unique_key: &str, now: i64) -> i64 {
    let check = flyball_core::Check { limit: 100, ..check(name, unique_key, 60_000, now) };
    store.apply(&check, Timestamp(now), rules, Role::Owner).unwrap().remaining
}

fn entries(store: &Store) -> usize {
    store.stats(Timestamp(START)).resident as usize
}

/// P11: pairs with the same joined text do not share a counter.
#[test]
fn p11_pairs_are_distinct_with_exact_semantics() {
    let (store, rules) = store(Semantics::Exact);
    assert_eq!(hit(&store, &rules, "a_b", "c", START), 99);
    assert_eq!(hit(&store, &rules, "a", "b_c", START), 99);
    assert_eq!(hit(&store, &rules, "a_b", "c", START), 98);
    assert_eq!(entries(&store), 2);
}

#[test]
fn pairs_share_the_joined_text_with_gubernators() {
    let (store, rules) = store(Semantics::Gubernator);
    assert_eq!(hit(&store, &rules, "a_b", "c", START), 99);
    assert_eq!(hit(&store, &rules, "a", "b_c", START), 98);
    assert_eq!(entries(&store), 1);
    let bucket = store.get(StoredKey::Joined("a_b_c"), Timestamp(START));
    assert!(bucket.is_some() && bucket == store.get(pair("a", "b_c"), Timestamp(START)));
}

/// A joined text may mean several pairs, and which of them asks first says nothing about whose it is.
#[test]
fn every_pair_goes_on_from_a_joined_bucket() {
    let (store, rules) = store(Semantics::Exact);
    store.insert(StoredKey::Joined("a_b_c"), token(40, START, START + 60_000), Timestamp(START));
    assert_eq!(hit(&store, &rules, "a_b", "c", START), 39);
    assert_eq!(hit(&store, &rules, "a", "b_c", START), 39);
    assert_eq!(hit(&store, &rules, "a_b", "c", START), 38, "and from then on for itself");
    assert_eq!(entries(&store), 3);
}

#[test]
fn the_newer_of_pair_and_joined_wins() {
    for (offset, remaining) in [(-1, 98), (0, 98), (1, 39)] {
        let (store, rules) = store(Semantics::Exact);
        assert_eq!(hit(&store, &rules, "a", "b", START), 99);
        let broadcast = token(40, START + offset, START + 60_000);
        store.insert(StoredKey::Joined("a_b"), broadcast, Timestamp(START));
        assert_eq!(hit(&store, &rules, "a", "b", START), remaining, "joined {offset} ms later");
        assert_eq!(hit(&store, &rules, "a", "b", START), remaining - 1, "joined {offset} ms later");
        assert_eq!(entries(&store), 2);
    }
}

#[test]
fn an_expired_bucket_is_never_newer() {
    let (store, rules) = store(Semantics::Exact);
    assert_eq!(hit(&store, &rules, "a", "b", START), 99);
    store.insert(StoredKey::Joined("a_b"), token(40, START + 500, START + 600), Timestamp(START));
    assert_eq!(hit(&store, &rules, "a", "b", START + 1_000), 98);
}

/// Nothing comes back from the joined text after the pair was reset or removed.
#[test]
fn a_pair_is_removed_in_both_forms() {
    use flyball_core::{Behavior, Check};

    let (store, rules) = store(Semantics::Exact);
    let both = || {
        store.insert(pair("a", "b"), token(40, START, START + 60_000), Timestamp(START));
        store.insert(StoredKey::Joined("a_b"), token(30, START - 1, START + 60_000), Timestamp(START));
    };
    both();
    let reset = Check { behavior: Behavior::RESET_REMAINING, ..check("a", "b", 60_000, START) };
    store.apply(&reset, Timestamp(START), &rules, Role::Owner).unwrap();
    let stored = store.get(StoredKey::Joined("a_b"), Timestamp(START));
    let own = store.get(pair("a", "b"), Timestamp(START));
    assert!(own.is_some() || stored.is_none(), "a reset that stores nothing leaves nothing");

    both();
    assert!(store.remove(pair("a", "b")));
    assert_eq!(entries(&store), 0);
    assert!(!store.remove(pair("a", "b")));

    both();
    assert!(store.remove(StoredKey::Joined("a_b")), "what is said of a joined text is said of its pairs");
    assert_eq!(entries(&store), 0);
}

/// Everything comes out of a walk as it went in, keys of all forms and lengths, over many pages.
#[test]
fn a_walk_returns_what_was_inserted() {
    let (first, _) = store(Semantics::Exact);
    let mut expected = BTreeMap::new();
    for number in 0..20_000_i64 {
        let unique_key = format!("{number}_{}", "é".repeat(number as usize % 300));
        let key = match number % 3 {
            0 => OwnedKey::Joined(unique_key),
            1 => OwnedKey::Pair(String::new(), unique_key),
            _ => OwnedKey::Pair(format!("n_{number}"), unique_key),
        };
        let bucket = token(number % 100, START, START + number);
        first.insert(key.borrowed(), bucket, Timestamp(START));
        expected.insert(key, bucket);
    }
    let (second, _) = store(Semantics::Exact);
    let mut seen = 0;
    // The callback may use the store it walks over.
    first.for_each(|key, bucket| {
        assert_eq!(first.get(key, Timestamp(START)), Some(*bucket));
        second.insert(key, *bucket, Timestamp(START));
        seen += 1;
    });
    assert_eq!(seen, expected.len());
    let mut got = BTreeMap::new();
    second.for_each(|key, bucket| assert!(got.insert(OwnedKey::from(key), *bucket).is_none()));
    assert_eq!(got, expected);
}

/// What is there throughout is visited, though entries are removed and moved during the walk.
#[test]
fn a_walk_misses_nothing_that_stays() {
    let store = Store::new(&StoreSettings { shards: 1, ..StoreSettings::default() });
    const KEYS: u32 = 1_000;
    for number in 0..KEYS {
        let text = number.to_string();
        store.insert(pair("a", &text), token(1, START, START + 60_000), Timestamp(START));
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut next = 0;
    store.for_each(|key, _| {
        seen.insert(OwnedKey::from(key).joined());
        // Remove the odd ones while walking, in an order of their own.
        let text = ((next * 7 % KEYS) | 1).to_string();
        store.remove(pair("a", &text));
        next += 1;
    });
    for number in (0..KEYS).step_by(2) {
        assert!(seen.contains(&format!("a_{number}")), "{number} was missed");
    }
}
