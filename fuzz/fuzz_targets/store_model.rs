//! The real store beside a plain map over the same decisions: table, expiry and sweeping change no answer.
//!
//! Input: moves of three bytes: what, which key, how much. Time only goes forward here: backwards, a bucket that
//! was freed in the meantime would rightly be missed.
#![no_main]

use std::collections::HashMap;

use flyball_core::algorithm::{Bucket, decide};
use flyball_core::store::{Role, Store, StoreSettings, StoredKey};
use flyball_core::{Behavior, Key, Request, Rules, Source, Timestamp};
use libfuzzer_sys::fuzz_target;

/// Keys of which some are equal once joined.
const KEYS: [(&str, &str); 6] = [
    ("a", "b"),
    ("a_b", "c"),
    ("a", "b_c"),
    ("a_", "b"),
    ("a", "_b"),
    ("name", "a longer key than the others"),
];

fuzz_target!(|data: &[u8]| {
    let rules = Rules::default();
    let store = Store::new(&StoreSettings { shards: 2, ..StoreSettings::default() });
    let mut model: HashMap<Key<'_>, Bucket> = HashMap::new();
    let mut now = Timestamp(1_800_000_000_000);
    for &[what, which, much] in data.as_chunks::<3>().0 {
        let (name, unique_key) = KEYS[usize::from(which) % KEYS.len()];
        let key = Key { name, unique_key };
        match what % 8 {
            4 => now = now.saturating_add(i64::from(much) * i64::from(much) * 20),
            5 => store.sweep(now),
            6 => {
                store.remove(StoredKey::Pair(key));
                model.remove(&key);
            }
            move_of_check => {
                let request = request(key, move_of_check, which, much);
                let Ok(admitted) = rules.admit(&request, Source::Client, now) else { continue };
                let answer = store.apply(&admitted.check, now, &rules, Role::Owner);
                let outcome = decide(model.get(&key), &admitted.check, now, &rules);
                match outcome.bucket {
                    Some(bucket) => model.insert(key, bucket),
                    None => model.remove(&key),
                };
                assert_eq!(answer, outcome.answer, "{:?} at {now}", admitted.check);
            }
        }
    }
    assert!(
        store.stats(now).entries <= model.len() as u64,
        "a dead bucket is counted, or one came from nowhere"
    );
});

fn request<'a>(key: Key<'a>, what: u8, which: u8, much: u8) -> Request<'a> {
    let behavior = match what {
        3 => Behavior::DURATION_IS_GREGORIAN,
        7 => Behavior(i32::from(much & 0b10_1000)),
        _ => Behavior::BATCHING,
    };
    Request {
        key,
        hits: i64::from(much.cast_signed()) / 4,
        limit: i64::from(which) / 2,
        duration: if what == 3 { i64::from(much % 6) } else { i64::from(which) * 100 },
        algorithm: i32::from(what % 3 != 0),
        behavior,
        burst: i64::from(which % 5) * 3,
        created_at: None,
        max_wait: if what == 2 { i64::from(much) * 100 } else { 0 },
    }
}
