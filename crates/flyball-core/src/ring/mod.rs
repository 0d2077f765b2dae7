//! Which peer owns a key: consistent hashing, placing every key exactly where Gubernator's default picker
//! would.
//!
//! Each peer has some hundred points on a circle of 2^64 places, at `hash(number + md5(address))`; a key
//! belongs to the first point at or after `hash(name + "_" + unique_key)`, around the end if need be. When a
//! peer comes, only keys that become its own move; when it goes, only those that were.
//!
//! A ring is a value: made once from a set of addresses, never changed. Two nodes that see the same addresses,
//! in any order, agree on every owner. Addresses are compared as text: `localhost:1051` and `127.0.0.1:1051`
//! are two peers.

pub mod hash;
mod points;
mod shares;

pub use hash::Hash;
pub use shares::Moved;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use md5::{Digest, Md5};

use points::{Point, Points};

/// How many points each peer has: more of them even out the shares, and cost 16 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replicas(u32);

impl Replicas {
    /// The most points a peer may have.
    pub const MAX: u32 = 65_536;

    /// `points` for each peer, 1 to [`Replicas::MAX`].
    ///
    /// # Errors
    /// For a number outside of that. With 0 nobody would own anything; a configuration that takes 0 for "the
    /// default" has to say so before it comes here.
    pub const fn new(points: u32) -> Result<Self, BadReplicas> {
        if points == 0 || points > Self::MAX { Err(BadReplicas(points)) } else { Ok(Self(points)) }
    }

    /// The number of points.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Replicas {
    /// 512, as every member of a Gubernator cluster has that is not told otherwise.
    fn default() -> Self {
        Self(512)
    }
}

/// A number of points that no ring can be made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReplicas(pub u32);

impl fmt::Display for BadReplicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} points per peer: must be between 1 and {}", self.0, Replicas::MAX)
    }
}

impl core::error::Error for BadReplicas {}

/// See [the module](self).
#[derive(Clone, PartialEq, Eq)]
pub struct Ring {
    hash: Hash,
    /// Sorted, each once.
    peers: Box<[Box<str>]>,
    points: Points,
}

impl Ring {
    /// The ring of these addresses. An address given twice counts once, and their order does not matter.
    pub fn new<'a>(peers: impl IntoIterator<Item = &'a str>, hash: Hash, replicas: Replicas) -> Self {
        let mut addresses: Vec<&str> = peers.into_iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut points = Vec::with_capacity(addresses.len() * replicas.get() as usize);
        for (peer, address) in addresses.iter().enumerate() {
            let label = label(address);
            for number in 0..replicas.get() {
                let mut digits = [0; 10];
                let at = hash.of(&[decimal(number, &mut digits), &label]);
                points.push(Point { at, peer: peer as u32 });
            }
        }
        Self { hash, peers: addresses.into_iter().map(Box::from).collect(), points: Points::new(points) }
    }

    /// The address of the peer that owns a key; `None` if the ring is empty.
    pub fn owner(&self, name: &str, unique_key: &str) -> Option<&str> {
        self.owner_index(name, unique_key).map(|index| &*self.peers[index])
    }

    /// The owner's index in [`Ring::peers`].
    #[inline]
    pub fn owner_index(&self, name: &str, unique_key: &str) -> Option<usize> {
        self.owner_at(self.place(name, unique_key))
    }

    /// The owner of a key of which only the joined text is known.
    pub fn owner_of_joined(&self, joined: &str) -> Option<&str> {
        self.owner_at(self.place_of_joined(joined)).map(|index| &*self.peers[index])
    }

    /// Where a key lies of which only the joined text is known.
    pub fn place_of_joined(&self, joined: &str) -> u64 {
        self.hash.of(&[joined.as_bytes()])
    }

    /// Where on the circle a key lies: the hash of its name, `_` and its unique key. It depends on the ring's hash
    /// alone, so whoever asks several rings of one hash, or asks again after a change of peers, hashes once.
    #[inline]
    pub fn place(&self, name: &str, unique_key: &str) -> u64 {
        self.hash.of(&[name.as_bytes(), b"_", unique_key.as_bytes()])
    }

    /// The index in [`Ring::peers`] of the peer that owns a place; `None` if the ring is empty.
    #[inline]
    pub fn owner_at(&self, place: u64) -> Option<usize> {
        self.points.peer_at(place)
    }

    /// The address of the peer with this index, if there are so many.
    pub fn peer(&self, index: usize) -> Option<&str> {
        self.peers.get(index).map(|address| &**address)
    }

    /// All addresses, sorted, each once.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.peers.iter().map(|address| &**address)
    }

    /// How many peers there are.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Whether this address is on the ring.
    pub fn contains(&self, address: &str) -> bool {
        self.peers.binary_search_by(|peer| (**peer).cmp(address)).is_ok()
    }
}

impl fmt::Debug for Ring {
    /// Without the thousands of points.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("hash", &self.hash).field("peers", &self.peers).finish_non_exhaustive()
    }
}

/// MD5 of an address in lower-case hexadecimal digits: what the points of a peer have in common.
fn label(address: &str) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(Md5::digest(address.as_bytes())) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// `number` in decimal digits, written to the end of `digits`.
fn decimal(number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &digits[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn points_are_where_the_original_puts_them() {
        let peers = ["127.0.0.11:31101", "127.0.0.12:31101", "127.0.0.13:31101"];
        assert_eq!(&label(peers[0]), b"8b4dc7d5e0905072433fe55e53394e7b");
        let point = |number, peer| Hash::Fnv1.of(&[decimal(number, &mut [0; 10]), &label(peer)]);
        assert_eq!(point(0, peers[0]), 0x5f4d_7bc6_6e3d_d290);
        assert_eq!(point(511, peers[0]), 0xff6a_179e_2112_f0f7);

        let ring = Ring::new(peers, Hash::Fnv1, Replicas::default());
        assert_eq!(ring.points.sorted().len(), 3 * 512);
        assert_eq!(ring.points.sorted().first(), Some(&Point { at: 0x0012_76d6_1562_022c, peer: 1 }));
        assert_eq!(ring.points.sorted().last(), Some(&Point { at: 0xfffa_08d5_5d3d_821e, peer: 0 }));
    }

    /// A key can hit a point exactly: the text a point is the hash of is such a key.
    #[test]
    fn a_point_belongs_to_its_peer() {
        let peers = ["10.0.0.1:1051", "10.0.0.2:1051", "10.0.0.3:1051"];
        for hash in [Hash::Fnv1, Hash::Fnv1a] {
            let ring = Ring::new(peers, hash, Replicas::default());
            for (peer, number) in peers.into_iter().zip([0, 17, 511]) {
                let mut key = number.to_string();
                key.extend(label(peer).map(char::from));
                assert_eq!(ring.owner_of_joined(&key), Some(peer));
            }
        }
    }

    #[test]
    fn decimal_is_what_everybody_writes() {
        for number in [0, 1, 9, 10, 511, 65_535, u32::MAX] {
            assert_eq!(decimal(number, &mut [0; 10]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn replicas_are_bounded() {
        assert_eq!(Replicas::new(0), Err(BadReplicas(0)));
        assert_eq!(Replicas::new(Replicas::MAX + 1), Err(BadReplicas(Replicas::MAX + 1)));
        assert_eq!(Replicas::new(Replicas::MAX).map(Replicas::get), Ok(Replicas::MAX));
        assert_eq!(Replicas::new(512), Ok(Replicas::default()));
        assert_eq!(BadReplicas(0).to_string(), "0 points per peer: must be between 1 and 65536");
    }
}
