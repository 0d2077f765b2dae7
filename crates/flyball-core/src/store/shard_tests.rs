//! What no answer shows: that the structures over the entries agree, and that nothing is left behind. (Answers
//! and counts are compared with a model in `tests/store`.)

use alloc::collections::BTreeSet;
use alloc::format;

use proptest::prelude::*;

use super::super::key::{JoinBuffer, KeySpace, StoredKey};
use super::*;
use crate::algorithm::TokenBucket;
use crate::check::{Key, Semantics};

fn assert_sound(shard: &Shard) {
    let entries = 0..shard.slab.len() as u32;
    assert_eq!(shard.table.len(), shard.slab.len());
    for at in entries.clone() {
        let hash = table_hash(shard.slab[at].hash);
        assert!(shard.table.find(hash, |&other| other == at).is_some(), "entry {at} is in the table");
    }
    let joined = entries.clone().filter(|&at| shard.slab[at].split == Split::JOINED).count();
    assert_eq!(shard.joined, joined);
    let alive = entries.clone().filter(|&at| !shard.slab[at].is_dead()).count();
    assert_eq!((shard.stats.entries, shard.stats.resident), (alive as u64, shard.slab.len() as u64));
    let policies: BTreeSet<u32> = entries.map(|at| shard.slab[at].policy).collect();
    assert_eq!(shard.policies.len(), policies.len(), "policies without users are dropped");
}

#[derive(Clone, Debug)]
enum Op {
    Insert { joined: bool, limit: i64, life: i64 },
    Get,
    Remove,
    Advance { by: i64, budget: usize },
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any::<bool>(), 0_i64..30, -1_000_i64..20_000)
            .prop_map(|(joined, limit, life)| Op::Insert { joined, limit, life }),
        2 => Just(Op::Get),
        1 => Just(Op::Remove),
        2 => (-500_i64..5_000, 0_usize..20).prop_map(|(by, budget)| Op::Advance { by, budget }),
    ]
}

proptest! {
    #[test]
    fn everything_agrees_and_nothing_is_left_behind(
        entries_max in prop_oneof![1_usize..12, Just(usize::MAX)],
        ops in prop::collection::vec((0_u8..25, any_op()), 1..200),
    ) {
        let keys = KeySpace::new(Semantics::Exact, 3);
        let settings = ShardSettings { bytes_max: 100_000, entries_max, linger_ms: 500, seed: 1 };
        let mut shard = Shard::new(settings);
        let mut now = Timestamp(1_800_000_000_000);
        for (number, op) in ops {
            let (unique_key, text) = (format!("{number}"), format!("a_{number}"));
            let pair = StoredKey::Pair(Key { name: "a", unique_key: &unique_key });
            let (mut one, mut two) = (JoinBuffer::default(), JoinBuffer::default());
            let pair = keys.identify(pair, &mut one);
            match op {
                Op::Insert { joined, limit, life } => {
                    let state = TokenBucket { limit, created_at: now.ms() + life, ..TokenBucket::default() };
                    let bucket = Bucket { expire_at: now.ms() + life, state: State::Token(state) };
                    let joined = Some(StoredKey::Joined(&text)).filter(|_| joined);
                    let id = joined.map_or(pair, |text| keys.identify(text, &mut two));
                    shard.insert(&id, bucket, now);
                }
                Op::Get => {
                    shard.get(&pair, now);
                }
                Op::Remove => {
                    shard.remove(&pair);
                }
                Op::Advance { by, budget } => {
                    now = now.saturating_add(by);
                    shard.advance(now, budget);
                }
            }
            assert_sound(&shard);
        }
        while shard.advance(now.saturating_add(100_000), 7) {}
        assert_sound(&shard);
        prop_assert_eq!((shard.slab.len(), shard.stats.bytes), (0, 0));
    }
}
