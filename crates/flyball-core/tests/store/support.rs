//! Checks, buckets and a shard with its keys, as short as tests want to write them.

use flyball_core::algorithm::{Bucket, LeakyBucket, State, TokenBucket};
use flyball_core::store::{JoinBuffer, KeySpace, Role, Shard, ShardSettings, StoredKey};
use flyball_core::{Algorithm, Answer, Behavior, Check, Key, Rules, Semantics, Timestamp};

/// A moment like those of real life.
pub(crate) const START: i64 = 1_800_000_000_000;

pub(crate) fn pair<'a>(name: &'a str, unique_key: &'a str) -> StoredKey<'a> {
    StoredKey::Pair(Key { name, unique_key })
}

/// One hit of ten per `duration` ms on a token bucket.
pub(crate) fn check<'a>(name: &'a str, unique_key: &'a str, duration: i64, t: i64) -> Check<'a> {
    Check {
        key: Key { name, unique_key },
        hits: 1,
        limit: 10,
        duration,
        algorithm: Algorithm::TokenBucket,
        behavior: Behavior::BATCHING,
        burst: 10,
        created_at: Timestamp(t),
        max_wait: 0,
    }
}

/// A token bucket of 100.
pub(crate) fn token(remaining: i64, created_at: i64, expire_at: i64) -> Bucket {
    let state = TokenBucket { limit: 100, remaining, duration: 60_000, created_at, ..TokenBucket::default() };
    Bucket { expire_at, state: State::Token(state) }
}

/// A leaky bucket of 100, one unit a second, that owes units until `booked_until`.
pub(crate) fn in_debt(booked_until: i64, now: i64) -> Bucket {
    let state = LeakyBucket {
        limit: 100,
        duration: 100_000,
        burst: 100,
        balance: -((booked_until - now) as f64) / 1_000.0,
        updated_at: now,
        rate: 1_000.0,
        booked_ms: (booked_until - now) as f64,
    };
    Bucket { expire_at: booked_until + 100_000, state: State::Leaky(state) }
}

/// A shard that is spoken to by keys.
pub(crate) struct Keyed {
    pub(crate) shard: Shard,
    pub(crate) keys: KeySpace,
    pub(crate) rules: Rules,
}

impl Keyed {
    pub(crate) fn new(settings: ShardSettings, semantics: Semantics) -> Self {
        let rules = Rules { semantics, ..Rules::default() };
        Self { shard: Shard::new(settings), keys: KeySpace::new(semantics, 42), rules }
    }

    pub(crate) fn apply(&mut self, check: &Check<'_>, now: i64, role: Role) -> Answer {
        let mut buffer = JoinBuffer::default();
        let id = self.keys.identify(StoredKey::Pair(check.key), &mut buffer);
        self.shard.apply(&id, check, Timestamp(now), &self.rules, role)
    }

    pub(crate) fn insert(&mut self, key: StoredKey<'_>, bucket: Bucket, now: i64) {
        let mut buffer = JoinBuffer::default();
        self.shard.insert(&self.keys.identify(key, &mut buffer), bucket, Timestamp(now));
    }

    pub(crate) fn get(&mut self, key: StoredKey<'_>, now: i64) -> Option<Bucket> {
        let mut buffer = JoinBuffer::default();
        self.shard.get(&self.keys.identify(key, &mut buffer), Timestamp(now))
    }

    pub(crate) fn remove(&mut self, key: StoredKey<'_>) -> bool {
        let mut buffer = JoinBuffer::default();
        self.shard.remove(&self.keys.identify(key, &mut buffer))
    }

    pub(crate) fn sweep(&mut self, now: i64) {
        while self.shard.advance(Timestamp(now), 3) {}
    }

    /// All entries, in no order.
    pub(crate) fn entries(&self) -> Vec<(OwnedKey, Bucket)> {
        let mut entries = Vec::new();
        let mut end = usize::MAX;
        while end > 0 {
            end = self.shard.page(end, |key, bucket| entries.push((OwnedKey::from(key), *bucket)));
        }
        entries
    }
}

/// Bounds that no test reaches by accident.
pub(crate) fn roomy() -> ShardSettings {
    ShardSettings { bytes_max: 1 << 30, entries_max: usize::MAX, linger_ms: 5_500, seed: 1 }
}

/// A [`StoredKey`] to keep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnedKey {
    Pair(String, String),
    Joined(String),
}

impl OwnedKey {
    pub(crate) fn borrowed(&self) -> StoredKey<'_> {
        match self {
            Self::Pair(name, unique_key) => pair(name, unique_key),
            Self::Joined(text) => StoredKey::Joined(text),
        }
    }

    pub(crate) fn joined(&self) -> String {
        match self {
            Self::Pair(name, unique_key) => format!("{name}_{unique_key}"),
            Self::Joined(text) => text.clone(),
        }
    }
}

impl From<StoredKey<'_>> for OwnedKey {
    fn from(key: StoredKey<'_>) -> Self {
        match key {
            StoredKey::Pair(key) => Self::Pair(key.name.into(), key.unique_key.into()),
            StoredKey::Joined(text) => Self::Joined(text.into()),
        }
    }
}
