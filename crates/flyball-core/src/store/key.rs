//! Which bucket a check means.
//!
//! With exact semantics a bucket is identified by the *pair* (name, unique_key): `("a_b", "c")` and
//! `("a", "b_c")` are two limits. With Gubernator's it is the joined text `name_unique_key`, so they are one.
//! A cluster of both kinds also broadcasts buckets that carry the joined text only.
//!
//! All of them are stored alike: the joined text once, and the place where it splits. The hash is always that
//! of the joined text, so the two forms of one key meet in the same shard and the same probe sequence, and
//! only the comparison looks at the split.
//!
//! Rejected: two strings per entry (a second allocation for every key), and hashing the pair (the joined form
//! would live in another shard, behind another lock).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

use crate::check::{Key, Semantics};

/// Joined keys up to this many bytes are put together on the stack.
const STACK_BYTES: usize = 256;

/// How a bucket is named when it enters or leaves the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoredKey<'a> {
    /// By the two parts of a check's key.
    Pair(Key<'a>),
    /// By `name_unique_key` alone: all that a Gubernator peer's broadcast tells. With Gubernator's semantics
    /// every bucket is named so.
    Joined(&'a str),
}

impl<'a> StoredKey<'a> {
    /// Bytes of the joined text.
    #[inline]
    pub const fn joined_len(&self) -> usize {
        match self {
            Self::Pair(key) => key.joined_len(),
            Self::Joined(text) => text.len(),
        }
    }

    pub(super) fn split(&self) -> Split {
        match self {
            // A name beyond 4 GiB is looked up in vain: the shard stores no key of that size.
            Self::Pair(key) => Split(u32::try_from(key.name.len()).unwrap_or(u32::MAX - 1)),
            Self::Joined(_) => Split::JOINED,
        }
    }

    /// The joined text is `text`.
    #[inline]
    pub(super) fn is_joined_as(&self, text: &str) -> bool {
        let text = text.as_bytes();
        match self {
            Self::Joined(own) => own.as_bytes() == text,
            Self::Pair(key) => {
                let name = key.name.len();
                text.len() == key.joined_len()
                    && text[..name] == *key.name.as_bytes()
                    && text[name] == b'_'
                    && text[name + 1..] == *key.unique_key.as_bytes()
            }
        }
    }

    /// The joined text, in an allocation of exactly its size.
    pub(super) fn to_text(self) -> Box<str> {
        match self {
            Self::Pair(key) => {
                let mut text = String::with_capacity(key.joined_len());
                text.push_str(key.name);
                text.push('_');
                text.push_str(key.unique_key);
                text.into_boxed_str()
            }
            Self::Joined(text) => text.into(),
        }
    }

    /// The inverse of [`StoredKey::to_text`].
    pub(super) fn from_text(text: &'a str, split: Split) -> Self {
        let pair = match split {
            Split::JOINED => None,
            Split(at) => text.split_at_checked(at as usize),
        };
        match pair.and_then(|(name, rest)| Some((name, rest.strip_prefix('_')?))) {
            Some((name, unique_key)) => Self::Pair(Key { name, unique_key }),
            None => Self::Joined(text),
        }
    }
}

/// Where a stored text splits into name and unique_key: the length of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split(u32);

impl Split {
    /// Nowhere: the text itself is the identity.
    pub(super) const JOINED: Self = Self(u32::MAX);
}

/// Room to put a key together without a heap allocation, unless it is unusually long.
#[derive(Debug)]
pub struct JoinBuffer {
    stack: [u8; STACK_BYTES],
    heap: Vec<u8>,
}

impl Default for JoinBuffer {
    #[inline]
    fn default() -> Self {
        Self { stack: [0; STACK_BYTES], heap: Vec::new() }
    }
}

impl JoinBuffer {
    #[inline]
    fn join<'a>(&'a mut self, key: &StoredKey<'a>) -> &'a [u8] {
        let key = match key {
            StoredKey::Joined(text) => return text.as_bytes(),
            StoredKey::Pair(key) => key,
        };
        let (name, unique_key) = (key.name.as_bytes(), key.unique_key.as_bytes());
        let len = key.joined_len();
        if let Some(space) = self.stack.get_mut(..len) {
            let (head, tail) = space.split_at_mut(name.len());
            head.copy_from_slice(name);
            tail[0] = b'_';
            tail[1..].copy_from_slice(unique_key);
            return space;
        }
        self.heap.clear();
        self.heap.reserve_exact(len);
        self.heap.extend_from_slice(name);
        self.heap.push(b'_');
        self.heap.extend_from_slice(unique_key);
        &self.heap
    }
}

/// A key ready to be looked up.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub(super) key: StoredKey<'a>,
    pub(super) split: Split,
    /// Of the joined text.
    pub(super) hash: u64,
}

impl Identity<'_> {
    /// The hash of the joined text. A shard is chosen by its upper half, the place in the shard by its lower.
    #[inline]
    pub const fn hash(&self) -> u64 {
        self.hash
    }
}

/// Turns keys into identities: what two shards of one store have in common.
#[derive(Clone, Debug)]
pub struct KeySpace {
    semantics: Semantics,
    seed: u64,
    shared: SharedSeed,
}

impl KeySpace {
    /// `seed` should be a secret of the process: who knows it can choose keys that collide.
    pub fn new(semantics: Semantics, seed: u64) -> Self {
        Self { semantics, seed, shared: SharedSeed::from_u64(seed) }
    }

    /// The identity of `key`, whose text is put together in `buffer` if need be.
    #[inline]
    pub fn identify<'a>(&self, key: StoredKey<'a>, buffer: &mut JoinBuffer) -> Identity<'a> {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write(buffer.join(&key));
        self.known(key, hasher.finish())
    }

    /// The identity of `key`, of which the hash is known.
    #[inline]
    pub(super) fn known<'a>(&self, key: StoredKey<'a>, hash: u64) -> Identity<'a> {
        let split = match self.semantics {
            Semantics::Exact => key.split(),
            Semantics::Gubernator => Split::JOINED,
        };
        Identity { key, split, hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair<'a>(name: &'a str, unique_key: &'a str) -> StoredKey<'a> {
        StoredKey::Pair(Key { name, unique_key })
    }

    #[test]
    fn text_and_split_name_the_pair_again() {
        for (name, unique_key) in
            [("a", "b"), ("a_b", "c"), ("a", "b_c"), ("", ""), ("名前", "é_"), ("_", "_")]
        {
            let key = pair(name, unique_key);
            let text = key.to_text();
            assert_eq!(text.len(), key.joined_len());
            assert_eq!(StoredKey::from_text(&text, key.split()), key);
            assert_eq!(StoredKey::from_text(&text, Split::JOINED), StoredKey::Joined(&text));
        }
    }

    #[test]
    fn a_wrong_split_is_no_panic() {
        assert_eq!(StoredKey::from_text("é_a", Split(1)), StoredKey::Joined("é_a"));
        assert_eq!(StoredKey::from_text("é_a", Split(99)), StoredKey::Joined("é_a"));
        assert_eq!(StoredKey::from_text("é_a", Split(3)), StoredKey::Joined("é_a"));
    }

    #[test]
    fn all_forms_of_a_key_hash_alike_and_split_apart() {
        let long = "k".repeat(3 * STACK_BYTES);
        let space = KeySpace::new(Semantics::Exact, 7);
        for unique_key in ["c_d", "", &long] {
            let text = alloc::format!("a_b_{unique_key}");
            let rest = alloc::format!("b_{unique_key}");
            let (mut one, mut two, mut three) = Default::default();
            let first = space.identify(pair("a_b", unique_key), &mut one);
            let second = space.identify(pair("a", &rest), &mut two);
            let joined = space.identify(StoredKey::Joined(&text), &mut three);
            assert_eq!((first.hash, first.hash), (second.hash, joined.hash));
            assert!([first, second, joined].iter().all(|id| id.key.is_joined_as(&text)));
            assert!(first.split != second.split && first.split != joined.split);
        }
    }

    #[test]
    fn gubernator_knows_only_the_joined_form() {
        let space = KeySpace::new(Semantics::Gubernator, 7);
        let (mut one, mut two) = Default::default();
        let first = space.identify(pair("a_b", "c"), &mut one);
        let second = space.identify(pair("a", "b_c"), &mut two);
        assert_eq!((first.split, second.split), (Split::JOINED, Split::JOINED));
    }

    #[test]
    fn the_seed_decides_the_hash() {
        let (mut one, mut two) = Default::default();
        let first = KeySpace::new(Semantics::Exact, 1).identify(pair("a", "b"), &mut one).hash;
        let second = KeySpace::new(Semantics::Exact, 2).identify(pair("a", "b"), &mut two).hash;
        assert_ne!(first, second);
    }
}
