//! A shard against a model that has a map, a linear scan and no cleverness: the same answers, the same
//! entries, the same counts, whatever is asked in whatever order.

use std::collections::BTreeMap;

use flyball_core::algorithm::{Bucket, State, decide};
use flyball_core::store::{Role, entry_bytes};
use flyball_core::{Algorithm, Answer, Behavior, Check, Key, Rules, Semantics, Timestamp};
use proptest::prelude::*;

use crate::support::{Keyed, OwnedKey, START, roomy, token};

struct Model {
    entries: BTreeMap<OwnedKey, (Bucket, bool)>,
    rules: Rules,
    linger_ms: i64,
    /// Tick of the last sweep.
    present: i64,
    hits: u64,
    misses: u64,
    over_limit: u64,
    scheduled: u64,
    expired: u64,
}

/// Ticks of 64 ms.
fn tick(ms: i64) -> i64 {
    ms.div_euclid(64)
}

impl Model {
    fn new(semantics: Semantics, linger_ms: i64) -> Self {
        Self {
            entries: BTreeMap::new(),
            rules: Rules { semantics, ..Rules::default() },
            linger_ms,
            present: i64::MIN,
            hits: 0,
            misses: 0,
            over_limit: 0,
            scheduled: 0,
            expired: 0,
        }
    }

    fn name(&self, key: &OwnedKey) -> OwnedKey {
        match self.rules.semantics {
            Semantics::Exact => key.clone(),
            Semantics::Gubernator => OwnedKey::Joined(key.joined()),
        }
    }

    fn put(&mut self, key: &OwnedKey, bucket: Bucket) {
        let key = self.name(key);
        let was_dead = self.entries.get(&key).is_some_and(|entry| entry.1);
        let dead = was_dead && tick(bucket.expire_at.saturating_add(1)) < self.present;
        self.entries.insert(key, (bucket, dead));
    }

    /// What a check meets: the pair's own bucket, or a newer one under the joined text.
    fn newest(&self, key: &OwnedKey, now: i64) -> Option<Bucket> {
        let key = self.name(key);
        let bucket = |key: &OwnedKey| self.entries.get(key).map(|entry| entry.0);
        let rank = |bucket: &Bucket| {
            let since = match bucket.state {
                State::Token(token) => token.created_at,
                State::Leaky(leaky) => leaky.updated_at,
            };
            (bucket.expire_at >= now, since)
        };
        // Of equals the last counts.
        [bucket(&OwnedKey::Joined(key.joined())), bucket(&key)].into_iter().flatten().max_by_key(rank)
    }

    fn remove(&mut self, key: &OwnedKey) -> bool {
        let key = self.name(key);
        let joined = OwnedKey::Joined(key.joined());
        let before = self.entries.len();
        self.entries.retain(|other, _| {
            let same_text = other.joined() == key.joined();
            !(same_text && (key == joined || *other == key || *other == joined))
        });
        self.entries.len() < before
    }

    fn apply(&mut self, check: &Check<'_>, now: i64, role: Role) -> Answer {
        let key = OwnedKey::Pair(check.key.name.into(), check.key.unique_key.into());
        let stored = self.newest(&key, now);
        let outcome = decide(stored.as_ref(), check, Timestamp(now), &self.rules);
        match outcome.bucket {
            Some(bucket) => self.put(&key, bucket),
            None => {
                self.remove(&key);
            }
        }
        *(if outcome.effects.hit { &mut self.hits } else { &mut self.misses }) += 1;
        if role == Role::Owner {
            self.over_limit += u64::from(outcome.effects.over_limit);
            self.scheduled += u64::from(outcome.effects.scheduled);
        }
        outcome.answer
    }

    fn sweep(&mut self, now: i64) {
        self.present = tick(now);
        for (bucket, dead) in self.entries.values_mut() {
            *dead |= tick(bucket.expire_at.saturating_add(1)) < self.present;
        }
        let before = self.entries.len();
        self.entries.retain(|_, (bucket, dead)| {
            let freed_after = bucket.expire_at.saturating_add(self.linger_ms).saturating_add(1);
            !*dead || tick(freed_after) >= self.present
        });
        self.expired += (before - self.entries.len()) as u64;
    }

    fn alive(&self) -> u64 {
        self.entries.values().filter(|entry| !entry.1).count() as u64
    }

    fn bytes(&self) -> u64 {
        self.entries.keys().map(|key| entry_bytes(key.joined().len()) as u64).sum()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Apply { key: OwnedKey, check: Check<'static>, lag: i64, role: Role },
    Insert { key: OwnedKey, remaining: i64, created: i64, life: i64 },
    Get(OwnedKey),
    Remove(OwnedKey),
    Step(i64),
    Jump(i64),
    Sweep,
}

fn any_pair() -> impl Strategy<Value = OwnedKey> {
    prop_oneof![
        // Pairs with the same joined text.
        Just(("a".to_owned(), "b_c".to_owned())),
        Just(("a_b".to_owned(), "c".to_owned())),
        Just(("名".to_owned(), "前_".to_owned())),
        // Enough others that tables grow, shrink and move entries.
        (0..60_u8).prop_map(|n| ("n".to_owned(), n.to_string())),
        Just(("long".to_owned(), "k".repeat(700))),
    ]
    .prop_map(|(name, unique_key)| OwnedKey::Pair(name, unique_key))
}

fn any_key() -> impl Strategy<Value = OwnedKey> {
    (any_pair(), prop::bool::weighted(0.3)).prop_map(|(key, joined)| match joined {
        true => OwnedKey::Joined(key.joined()),
        false => key,
    })
}

fn any_check() -> impl Strategy<Value = Check<'static>> {
    let hits = prop_oneof![8 => -3_i64..8, 1 => any::<i64>()];
    let limit = prop_oneof![8 => 0_i64..10, 1 => 0..=i64::MAX];
    let duration = prop_oneof![6 => 0_i64..3_000, 2 => 0_i64..200_000, 1 => 0..=i64::MAX];
    let flags = prop_oneof![8 => Just(0), 1 => Just(8), 1 => Just(32), 1 => Just(4)];
    let wait = prop_oneof![3 => Just(0_i64), 1 => 1_i64..100_000];
    (hits, limit, duration, 0_i64..12, any::<bool>(), flags, wait).prop_map(
        |(hits, limit, duration, burst, leaky, flags, wait)| Check {
            key: Key { name: "", unique_key: "" },
            hits,
            limit,
            duration: if flags == 4 { duration % 7 } else { duration },
            algorithm: if leaky { Algorithm::LeakyBucket } else { Algorithm::TokenBucket },
            behavior: Behavior(flags),
            burst: if burst == 0 { limit } else { burst },
            created_at: Timestamp(0),
            max_wait: if leaky && flags == 0 && hits >= 0 { wait } else { 0 },
        },
    )
}

fn any_op() -> impl Strategy<Value = Op> {
    let lag = prop_oneof![4 => Just(0_i64), 4 => -5_500_i64..5_500];
    let role = prop_oneof![Just(Role::Owner), Just(Role::Replica)];
    let life = prop_oneof![
        6 => -8_000_i64..8_000,
        2 => -200_000_000_i64..200_000_000,
        1 => Just(i64::MAX),
        1 => Just(i64::MIN),
        1 => any::<i64>(),
    ];
    let step = prop_oneof![6 => 0_i64..500, 3 => 0_i64..20_000, 1 => -20_000_i64..0, 1 => -400_i64..400];
    let jump = prop_oneof![-5_000_000_000_i64..5_000_000_000, -4_000_000_000_000_i64..4_000_000_000_000];
    prop_oneof![
        12 => (any_pair(), any_check(), lag, role)
            .prop_map(|(key, check, lag, role)| Op::Apply { key, check, lag, role }),
        4 => (any_key(), -5_i64..101, -9_000_i64..9_000, life)
            .prop_map(|(key, remaining, created, life)| Op::Insert { key, remaining, created, life }),
        1 => any_key().prop_map(Op::Get),
        1 => any_key().prop_map(Op::Remove),
        6 => step.prop_map(Op::Step),
        1 => jump.prop_map(Op::Jump),
        4 => Just(Op::Sweep),
    ]
}

fn run(semantics: Semantics, start: i64, ops: &[Op]) -> Result<(), TestCaseError> {
    let settings = roomy();
    let mut real = Keyed::new(settings, semantics);
    let mut model = Model::new(semantics, settings.linger_ms);
    let mut now = start;
    for op in ops {
        match op {
            Op::Apply { key: OwnedKey::Pair(name, unique_key), check, lag, role } => {
                let created_at = Timestamp(now.saturating_add(*lag));
                let check = Check { key: Key { name, unique_key }, created_at, ..*check };
                let (got, expected) = (real.apply(&check, now, *role), model.apply(&check, now, *role));
                prop_assert_eq!(got, expected, "{:?}", check);
            }
            Op::Apply { .. } => unreachable!("checks have pairs"),
            Op::Insert { key, remaining, created, life } => {
                let bucket = token(*remaining, now.saturating_add(*created), now.saturating_add(*life));
                real.insert(key.borrowed(), bucket, now);
                model.put(key, bucket);
            }
            Op::Get(key) => {
                let (got, expected) = (real.get(key.borrowed(), now), model.newest(key, now));
                prop_assert_eq!(format!("{got:?}"), format!("{expected:?}"));
            }
            Op::Remove(key) => prop_assert_eq!(real.remove(key.borrowed()), model.remove(key)),
            Op::Step(ms) | Op::Jump(ms) => now = now.saturating_add(*ms),
            Op::Sweep => {
                real.sweep(now);
                model.sweep(now);
            }
        }
        let stats = real.shard.stats();
        prop_assert_eq!(stats.entries, model.alive(), "alive after {:?}", op);
        prop_assert_eq!(stats.resident, model.entries.len() as u64);
        prop_assert_eq!(stats.bytes, model.bytes());
        prop_assert_eq!((stats.hits, stats.misses), (model.hits, model.misses));
        prop_assert_eq!((stats.over_limit, stats.scheduled), (model.over_limit, model.scheduled));
        prop_assert_eq!(stats.expired, model.expired);
    }
    let mut got: Vec<_> =
        real.entries().into_iter().map(|(key, bucket)| (key, format!("{bucket:?}"))).collect();
    got.sort();
    let expected: Vec<_> =
        model.entries.iter().map(|(key, entry)| (key.clone(), format!("{:?}", entry.0))).collect();
    prop_assert_eq!(got, expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_shard_is_its_model(
        gubernator in any::<bool>(),
        start in prop_oneof![8 => Just(START), 1 => -1_000_000_i64..1_000_000, 1 => any::<i64>()],
        ops in prop::collection::vec(any_op(), 1..250),
    ) {
        let semantics = if gubernator { Semantics::Gubernator } else { Semantics::Exact };
        run(semantics, start, &ops)?;
    }
}
