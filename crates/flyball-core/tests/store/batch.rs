//! Many checks at once are told what they would have been told one after the other.

use std::ops::ControlFlow;

use flyball_core::store::{Role, Store, StoreSettings};
use flyball_core::{Check, Rules, Timestamp};
use proptest::prelude::*;

use crate::support::{START, check};

const NOW: Timestamp = Timestamp(START);

fn store(shards: usize, entries_max: Option<usize>) -> Store {
    Store::new(&StoreSettings { shards, entries_max, seed: 3, ..StoreSettings::default() })
}

fn checks(keys: &[(String, i64)]) -> Vec<Check<'_>> {
    keys.iter().map(|(key, hits)| Check { hits: *hits, ..check("n", key, 60_000, START) }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn as_one_after_the_other(
        // Few keys, so that they repeat; many, so that a full shard evicts.
        keys in prop_oneof![
            prop::collection::vec(("[a-e]", 0_i64..4), 0..200),
            prop::collection::vec(("[a-z]{3}", 0_i64..4), 0..1_000),
        ],
        shards in prop_oneof![Just(1_usize), Just(2), Just(64), Just(128)],
        bounded in any::<bool>(),
    ) {
        let entries_max = bounded.then_some(300);
        let (one, all) = (store(shards, entries_max), store(shards, entries_max));
        let (rules, checks) = (Rules::default(), checks(&keys));
        let expected: Vec<_> =
            checks.iter().map(|check| Some(one.apply(check, NOW, &rules, Role::Owner))).collect();
        let mut answers = vec![None; checks.len()];
        all.visit(checks.len(), |index| checks[index].key, |index, mut bucket| {
            let before = answers[index].replace(bucket.apply(&checks[index], NOW, &rules, Role::Owner));
            assert_eq!(before, None, "each is visited once");
            ControlFlow::Continue(())
        });
        prop_assert_eq!(answers, expected);
        prop_assert_eq!(all.counted(), one.counted());
    }

    #[test]
    fn a_break_leaves_the_rest_alone(count in 0_usize..200, stop in 0_usize..200) {
        let keys: Vec<_> = (0..count).map(|index| (index.to_string(), 1)).collect();
        let (store, checks) = (store(4, None), checks(&keys));
        let mut applied = 0;
        store.visit(count, |index| checks[index].key, |index, mut bucket| {
            if applied == stop {
                return ControlFlow::Break(());
            }
            bucket.apply(&checks[index], NOW, &Rules::default(), Role::Owner).unwrap();
            applied += 1;
            ControlFlow::Continue(())
        });
        prop_assert_eq!(applied, count.min(stop));
        prop_assert_eq!(store.counted().resident, applied as u64);
    }
}
