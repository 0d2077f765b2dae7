//! How much of the circle each peer owns, and what moves between them when the peers change.
//!
//! Measured in arcs, exactly: a peer owns what lies between each of its points and the point before. It is what
//! many keys that spread evenly would show; real keys need not, FNV-1 keeps keys together that differ only at
//! their end.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::Ring;

/// Places on the circle.
const CIRCLE: f64 = 18_446_744_073_709_551_616.0;

/// What one peer gives to another when one ring takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// Whose it was: an index in the peers of the ring before.
    pub from: usize,
    /// Whose it is: an index in the peers of the ring after.
    pub to: usize,
    /// Part of the whole circle, 0 to 1.
    pub share: f64,
}

impl Ring {
    /// The part of the circle that each peer owns, in the order of [`Ring::peers`]. They add up to 1; an empty ring
    /// has none.
    pub fn shares(&self) -> Box<[f64]> {
        // Whole places, so that nothing is lost by adding up.
        let mut places = vec![0_u128; self.len()];
        self.arcs(|_, length, peer| places[peer] += length);
        places.into_iter().map(|places| places as f64 / CIRCLE).collect()
    }

    /// What moves, and between whom, when `next` takes the place of this ring; the largest first. Nothing if one of
    /// the two is empty.
    pub fn moved(&self, next: &Ring) -> Vec<Moved> {
        // Between two neighbouring points of either ring everything has one owner before and one after.
        let mut ends: Vec<u64> = Vec::new();
        self.arcs(|end, _, _| ends.push(end));
        next.arcs(|end, _, _| ends.push(end));
        ends.sort_unstable();
        ends.dedup();
        let mut moved = BTreeMap::<(usize, usize), u128>::new();
        let mut last = ends.last().copied().unwrap_or_default();
        for end in ends.iter().copied() {
            if let (Some(from), Some(to)) = (self.owner_at(end), next.owner_at(end))
                && self.peers[from] != next.peers[to]
            {
                *moved.entry((from, to)).or_default() += arc(last, end, ends.len());
            }
            last = end;
        }
        let mut moved: Vec<Moved> = moved
            .into_iter()
            .map(|((from, to), places)| Moved { from, to, share: places as f64 / CIRCLE })
            .collect();
        moved.sort_by(|a, b| b.share.total_cmp(&a.share));
        moved
    }

    /// Calls `each` with the last place of every arc, the number of its places, and its owner.
    fn arcs(&self, mut each: impl FnMut(u64, u128, usize)) {
        let points = self.points.sorted();
        let mut last = points.last().map_or(0, |point| point.at);
        for point in points {
            each(point.at, arc(last, point.at, points.len()), point.peer as usize);
            last = point.at;
        }
    }
}

/// How many places lie after `last` up to and with `end`, when the circle has so many ends: with only one, all.
fn arc(last: u64, end: u64, ends: usize) -> u128 {
    if ends == 1 { 1 << 64 } else { end.wrapping_sub(last).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Hash, Replicas};

    const PEERS: [&str; 4] = ["10.0.0.1:1051", "10.0.0.2:1051", "10.0.0.3:1051", "10.0.0.4:1051"];

    fn ring(peers: &[&str]) -> Ring {
        Ring::new(peers.iter().copied(), Hash::Fnv1, Replicas::default())
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn shares_are_those_of_the_arcs() {
        assert!(ring(&[]).shares().is_empty());
        assert_eq!(*ring(&PEERS[..1]).shares(), [1.0]);
        let one_point = Ring::new(PEERS[..1].iter().copied(), Hash::Fnv1, Replicas(1));
        assert_eq!(*one_point.shares(), [1.0]);
        let ring = ring(&PEERS);
        let shares = ring.shares();
        assert!(near(shares.iter().sum(), 1.0), "{shares:?}");
        // Against places all around the circle.
        let mut counts = [0_u32; 4];
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        for place in (0..200_000_u64).map(|n| n.wrapping_mul(STEP)) {
            counts[ring.owner_at(place).unwrap()] += 1;
        }
        for (share, count) in shares.iter().zip(counts) {
            assert!((share - f64::from(count) / 200_000.0).abs() < 0.002, "{shares:?} {counts:?}");
        }
    }

    #[test]
    fn a_new_peer_takes_its_share_and_nothing_else_moves() {
        let (three, four) = (ring(&PEERS[..3]), ring(&PEERS));
        let moved = three.moved(&four);
        assert!(moved.iter().all(|moved| moved.to == 3) && moved.len() == 3, "{moved:?}");
        assert!(moved.is_sorted_by(|a, b| a.share >= b.share));
        assert!(near(moved.iter().map(|moved| moved.share).sum(), four.shares()[3]));
        for Moved { from, share, .. } in &moved {
            assert!(near(three.shares()[*from] - four.shares()[*from], *share), "{moved:?}");
        }
        // And gives back the same.
        let back = four.moved(&three);
        assert!(back.iter().all(|back| back.from == 3 && back.share == moved[back_of(&moved, back)].share));
        assert!(three.moved(&three).is_empty());
        assert!(three.moved(&ring(&[])).is_empty() && ring(&[]).moved(&three).is_empty());
    }

    fn back_of(moved: &[Moved], back: &Moved) -> usize {
        moved.iter().position(|moved| moved.from == back.to).unwrap()
    }

    #[test]
    fn between_two_peers_everything_moves() {
        let moved = ring(&PEERS[..1]).moved(&ring(&PEERS[1..2]));
        assert_eq!(moved, [Moved { from: 0, to: 0, share: 1.0 }]);
    }
}
