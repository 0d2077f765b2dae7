//! What one decision costs: finding, deciding and storing, without any wire.
//!
//! `cargo bench -p flyball-core --bench store`

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use flyball_core::store::{Role, Store, StoreSettings};
use flyball_core::{Algorithm, Behavior, Check, Key, Rules, Timestamp};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn check(unique_key: &str, algorithm: Algorithm) -> Check<'_> {
    Check {
        key: Key { name: "requests_per_minute", unique_key },
        hits: 1,
        limit: 1_000_000,
        duration: 60_000,
        algorithm,
        behavior: Behavior::BATCHING,
        burst: 1_000_000,
        created_at: NOW,
        max_wait: 0,
    }
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("account:{number:06}")).collect()
}

fn apply(store: &Store, rules: &Rules, key: &str, algorithm: Algorithm) {
    let answer = store.apply(&check(key, algorithm), NOW, rules, Role::Owner);
    black_box(answer.is_ok());
}

fn decisions(criterion: &mut Criterion) {
    let rules = Rules::default();
    for count in [1_000, 1_000_000] {
        let keys = keys(count);
        for (algorithm, label) in [(Algorithm::TokenBucket, "token"), (Algorithm::LeakyBucket, "leaky")] {
            let store = Store::new(&StoreSettings::default());
            keys.iter().for_each(|key| apply(&store, &rules, key, algorithm));
            // A step that is prime to the number of keys visits all of them, far from the one before.
            let mut at = 0;
            criterion.bench_function(&format!("{label}, one of {count} keys"), |bencher| {
                bencher.iter(|| {
                    at = (at + 7_919) % count;
                    apply(&store, &rules, &keys[at], algorithm);
                });
            });
        }
    }
}

fn new_keys(criterion: &mut Criterion) {
    let (rules, keys) = (Rules::default(), keys(1_000));
    let fill = |store: &Store| keys.iter().for_each(|key| apply(store, &rules, key, Algorithm::TokenBucket));
    let roomy = || Store::new(&StoreSettings::default());
    criterion.bench_function("1000 new keys", |bencher| {
        bencher.iter_batched_ref(roomy, |store| fill(store), BatchSize::LargeInput);
    });
    let full = || {
        let store = Store::new(&StoreSettings { entries_max: Some(1_000), ..StoreSettings::default() });
        (0..2_000).for_each(|n| apply(&store, &rules, &format!("old:{n}"), Algorithm::TokenBucket));
        store
    };
    criterion.bench_function("1000 new keys, each evicting another", |bencher| {
        bencher.iter_batched_ref(full, |store| fill(store), BatchSize::LargeInput);
    });
    let expired = || {
        let store = roomy();
        fill(&store);
        store
    };
    criterion.bench_function("sweeping 1000 dead keys away", |bencher| {
        let later = NOW.saturating_add(100_000);
        bencher.iter_batched_ref(expired, |store| store.sweep(later), BatchSize::LargeInput);
    });
}

criterion_group!(benches, decisions, new_keys);
criterion_main!(benches);
