//! The points of a ring, found by their leading bits.
//!
//! A lookup wants the first point at or after a place, and every check of a cluster does one. A binary search over
//! 51 200 points (100 peers) is sixteen steps whose outcome no processor can guess. But the places are values of a
//! hash, spread evenly, so their leading bits say nearly where a point stands: the circle is cut into equal arcs,
//! one or two for each point, and for each arc we keep how many points lie before it. A lookup reads that number
//! and walks the points from there, on average not two of them: two or three cache lines, whatever the number of
//! peers, and a quarter of the search's time.
//!
//! The number is a hint, never the truth: any that is not too large leads to the right answer, and after [`STEPS`]
//! points the walk goes on as a binary search. So addresses whose points crowd together cost a little time, not
//! more. Rejected: a guess by interpolation (a division, and no bound where points crowd); comparing a fixed number
//! of points without a branch (measured: the same); arcs half as long (measured: slower, the table falls out of the
//! cache).

use alloc::boxed::Box;
use alloc::vec::Vec;

/// One of a peer's places on the circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) at: u64,
    /// Index into the peers.
    pub(super) peer: u32,
}

/// How many points a lookup walks before it searches. Places that spread evenly need as many once in a million.
const STEPS: usize = 8;

/// The most leading bits that are looked at: 64 MiB of table, for 16 million points and more.
const BITS_MAX: u32 = 24;

/// See [the module](self).
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Points {
    /// Sorted by place, each place once.
    sorted: Box<[Point]>,
    /// For each arc, how many points lie before it.
    before: Box<[u32]>,
    /// What is left of a place when all but its leading bits are shifted away: 64 less the number of those bits.
    shift: u32,
}

impl Points {
    /// Of several points at one place the one whose peer comes first has it.
    pub(super) fn new(mut points: Vec<Point>) -> Self {
        points.sort_unstable();
        points.dedup_by_key(|point| point.at);
        let bits = points.len().next_power_of_two().ilog2().clamp(1, BITS_MAX);
        let shift = u64::BITS - bits;
        let mut before = Vec::with_capacity(1 << bits);
        for (index, point) in points.iter().enumerate() {
            // Beyond four billion points, which no memory holds, the hint would come early, and still be right.
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            // This point's arc, and the empty ones between it and the point before.
            before.resize(before.len().max((point.at >> shift) as usize + 1), index);
        }
        before.resize(1 << bits, u32::try_from(points.len()).unwrap_or(u32::MAX));
        Self { sorted: points.into_boxed_slice(), before: before.into_boxed_slice(), shift }
    }

    /// The peer of the first point at or after `place`, around the end if need be; `None` without points.
    #[inline]
    pub(super) fn peer_at(&self, place: u64) -> Option<usize> {
        let start = self.before.get((place >> self.shift) as usize).map_or(0, |&before| before as usize);
        let ahead = self.sorted.get(start..).unwrap_or_default();
        let next = match ahead.iter().take(STEPS).find(|point| point.at >= place) {
            Some(point) => Some(point),
            None => ahead.get(ahead.partition_point(|point| point.at < place)),
        };
        next.or(self.sorted.first()).map(|point| point.peer as usize)
    }

    /// All points, in order.
    pub(super) fn sorted(&self) -> &[Point] {
        &self.sorted
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    /// The definition, by trying all points.
    fn naive(points: &[Point], place: u64) -> Option<usize> {
        // How far the place has to go to meet the point; of two at one place the first peer's.
        points
            .iter()
            .min_by_key(|point| (point.at.wrapping_sub(place), point.peer))
            .map(|point| point.peer as usize)
    }

    /// Places anywhere, at both ends, and crowded together.
    fn place() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            0..4_u64,
            (u64::MAX - 3)..=u64::MAX,
            (0..40_u64).prop_map(|n| (7 << 60) + n),
            (0..64_u32, 0..3_u64).prop_map(|(bit, n)| (1_u64 << bit).wrapping_sub(1).wrapping_add(n)),
        ]
    }

    proptest! {
        #[test]
        fn the_first_point_at_or_after_a_place_is_found(
            points in prop::collection::vec((place(), 0..5_u32), 0..200),
            places in prop::collection::vec(place(), 1..20),
        ) {
            let points: Vec<Point> = points.into_iter().map(|(at, peer)| Point { at, peer }).collect();
            let found = Points::new(points.clone());
            let around = points.iter().flat_map(|point| [-1, 0, 1].map(|by| point.at.wrapping_add_signed(by)));
            for place in places.into_iter().chain(around).chain([0, u64::MAX]) {
                prop_assert_eq!(found.peer_at(place), naive(&points, place), "of {:#x}", place);
            }
        }
    }

    /// A hint that comes too early still leads to the answer: what is promised for more points than it can count.
    #[test]
    fn a_hint_is_only_a_hint() {
        let points: Vec<Point> = (0..1_000).map(|n| Point { at: u64::from(n) << 54, peer: n }).collect();
        let exact = Points::new(points);
        let useless = Points { before: vec![0; exact.before.len()].into_boxed_slice(), ..exact.clone() };
        for place in (0..2_000_u64).map(|n| n << 53) {
            assert_eq!(useless.peer_at(place), exact.peer_at(place));
        }
    }

    /// The table has one to two arcs for each point, so the memory of a ring is known from its points.
    #[test]
    fn the_table_is_as_long_as_the_points() {
        for count in [0, 1, 2, 3, 512, 513, 51_200] {
            let points =
                (0..count).map(|n: u64| Point { at: n.wrapping_mul(0x9e37_79b9_7f4a_7c15), peer: 0 });
            let arcs = Points::new(points.collect()).before.len();
            assert!((count.max(2)..2 * count.max(2)).contains(&(arcs as u64)), "{count}: {arcs}");
        }
    }
}
