//! A key that is kept beside its bucket, in the tables of the GLOBAL machines.

use alloc::boxed::Box;
use core::hash::{Hash, Hasher};

use foldhash::quality::FixedState;
use indexmap::{Equivalent, IndexMap};

use crate::check::Key;

/// An owned [`Key`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedKey {
    /// The limit's name.
    pub name: Box<str>,
    /// Whom it limits.
    pub unique_key: Box<str>,
}

/// A table by key that keeps the order of insertion.
pub(super) type KeyMap<T> = IndexMap<OwnedKey, T, FixedState>;

/// An empty table. The seed should be a secret of the process, so that nobody can choose keys that collide.
pub(super) fn key_map<T>(seed: u64) -> KeyMap<T> {
    KeyMap::with_hasher(FixedState::with_seed(seed))
}

impl OwnedKey {
    /// Borrows it.
    pub fn as_key(&self) -> Key<'_> {
        Key { name: &self.name, unique_key: &self.unique_key }
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        Self { name: key.name.into(), unique_key: key.unique_key.into() }
    }
}

impl Hash for OwnedKey {
    /// As [`Key`]'s, so that one finds the other.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_key().hash(state);
    }
}

impl Equivalent<OwnedKey> for Key<'_> {
    fn equivalent(&self, owned: &OwnedKey) -> bool {
        *self == owned.as_key()
    }
}
