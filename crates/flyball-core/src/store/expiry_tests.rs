//! The wheel against a list of due times, and its own structure after every step.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::algorithm::{Bucket, State, TokenBucket};

use super::super::key::Split;
use super::super::packed::Policies;
use super::super::slab::{Slab, Slot};
use super::{LEVELS, NONE, PENDING, SLOTS, Wheel, tick_of};

/// An entry that keeps its name (in `hash`) and its due tick (in `expire_at`).
fn slot(name: u32, due: u64) -> Slot {
    let bucket = Bucket { expire_at: due as i64, state: State::Token(TokenBucket::default()) };
    Slot::new(Box::from(""), Split::JOINED, name, Policies::new(0).pack(&bucket), 0)
}

fn due(slab: &Slab, at: u32) -> u64 {
    slab[at].bucket.expire_at as u64
}

/// Every entry is in exactly one list, forth and back, and the bits tell which lists there are.
fn assert_sound(wheel: &Wheel, slab: &Slab) {
    let mut seen = BTreeSet::new();
    for (list, &head) in wheel.heads.iter().enumerate() {
        if list < LEVELS * SLOTS {
            let bit = wheel.occupied[list / SLOTS] >> (list % SLOTS) & 1;
            assert_eq!(bit == 1, head != NONE, "bit of list {list}");
        }
        if head == NONE {
            continue;
        }
        let mut at = head;
        loop {
            assert!(seen.insert(at), "entry {at} is in two places");
            assert_eq!(slab[slab[at].next].prev, at);
            assert!(list == usize::from(PENDING) || usize::from(slab[at].list()) == list);
            at = slab[at].next;
            if at == head {
                break;
            }
        }
    }
    assert_eq!(seen.len(), slab.len(), "all entries are linked");
}

#[derive(Clone, Debug)]
enum Op {
    Add(i64),
    Move(u8, i64),
    Remove(u8),
    Turn(i64),
    Pop(u8),
}

fn any_op() -> impl Strategy<Value = Op> {
    let far = prop_oneof![
        6 => -50_i64..200,
        3 => -5_000_i64..20_000,
        2 => 0_i64..2_000_000,
        1 => -(1_i64 << 33)..1 << 33,
        1 => -(1_i64 << 57)..1 << 57,
    ];
    prop_oneof![
        5 => far.clone().prop_map(Op::Add),
        2 => (any::<u8>(), far.clone()).prop_map(|(entry, by)| Op::Move(entry, by)),
        1 => any::<u8>().prop_map(Op::Remove),
        4 => far.prop_map(Op::Turn),
        4 => (1_u8..5).prop_map(Op::Pop),
    ]
}

/// A tick relative to another, anywhere in the range of ticks.
fn shift(tick: u64, by: i64) -> u64 {
    tick.saturating_add_signed(by).min(tick_of(i64::MAX))
}

/// Pops up to `limit` entries: the due ones leave, the others are linked again.
fn pop(wheel: &mut Wheel, slab: &mut Slab, limit: usize, fired: &mut Vec<u32>) {
    for _ in 0..limit {
        let Some(at) = wheel.pop(slab) else { return };
        let due = due(slab, at);
        if due >= wheel.now() {
            wheel.link(slab, at, due);
            continue;
        }
        fired.push(slab[at].hash);
        take(wheel, slab, at);
    }
}

fn take(wheel: &mut Wheel, slab: &mut Slab, at: u32) {
    slab.swap_remove(at);
    if slab.len() as u32 != at {
        wheel.relocate(slab, slab.len() as u32, at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn never_late_and_never_lost(start in any::<i64>(), ops in prop::collection::vec(any_op(), 1..120)) {
        let (mut wheel, mut slab) = (Wheel::new(), Slab::default());
        let mut names = 0;
        let mut now = tick_of(start);
        for op in ops {
            let pick = |entry: u8, slab: &Slab| Some(u32::from(entry) % slab.len().max(1) as u32).filter(|_| slab.len() > 0);
            match op {
                Op::Add(by) => {
                    let due = shift(now, by);
                    let at = slab.push(slot(names, due));
                    names += 1;
                    wheel.link(&mut slab, at, due);
                }
                Op::Move(entry, by) => if let Some(at) = pick(entry, &slab) {
                    let (old, new) = (due(&slab, at), shift(due(&slab, at), by));
                    slab[at].bucket.expire_at = new as i64;
                    // Later is left to the next look.
                    if new < old {
                        wheel.unlink(&mut slab, at);
                        wheel.link(&mut slab, at, new);
                    }
                },
                Op::Remove(entry) => if let Some(at) = pick(entry, &slab) {
                    wheel.unlink(&mut slab, at);
                    take(&mut wheel, &mut slab, at);
                },
                Op::Turn(by) => {
                    now = shift(now, by);
                    wheel.turn(&mut slab, now);
                    assert_sound(&wheel, &slab);
                    let expected: BTreeSet<u32> =
                        (0..slab.len() as u32).filter(|&at| due(&slab, at) < now).map(|at| slab[at].hash).collect();
                    // Half of the time the pending ones stay until later.
                    if by % 2 == 0 {
                        let mut fired = Vec::new();
                        pop(&mut wheel, &mut slab, usize::MAX, &mut fired);
                        prop_assert_eq!(fired.iter().copied().collect::<BTreeSet<_>>(), expected);
                        prop_assert!(wheel.is_idle());
                    }
                }
                Op::Pop(limit) => {
                    let mut fired = Vec::new();
                    pop(&mut wheel, &mut slab, limit.into(), &mut fired);
                }
            }
            assert_sound(&wheel, &slab);
        }
        // At the end of time all of them are due, except those that are due never.
        wheel.turn(&mut slab, tick_of(i64::MAX));
        pop(&mut wheel, &mut slab, usize::MAX, &mut Vec::new());
        assert_sound(&wheel, &slab);
        prop_assert!((0..slab.len() as u32).all(|at| due(&slab, at) == tick_of(i64::MAX)));
    }
}

#[test]
fn ticks_keep_the_order_of_milliseconds() {
    let moments =
        [i64::MIN, i64::MIN + 64, -65, -64, -1, 0, 63, 64, 1_800_000_000_000, i64::MAX - 64, i64::MAX];
    assert!(moments.is_sorted_by(|one, other| tick_of(*one) <= tick_of(*other)));
    assert_eq!(tick_of(64) - tick_of(0), 1);
    assert_eq!(tick_of(63), tick_of(0));
    assert_eq!(tick_of(0) - tick_of(-1), 1);
}

/// An entry is looked at a handful of times before it is due, however far away that is.
#[test]
fn looks_are_few() {
    for distance in [1_u64, 63, 64, 65, 4_095, 4_097, 300_000, 20_000_000, 1_000_000_000] {
        let (mut wheel, mut slab) = (Wheel::new(), Slab::default());
        let start = tick_of(1_800_000_000_000);
        wheel.turn(&mut slab, start);
        let due = start + distance;
        let at = slab.push(slot(0, due));
        wheel.link(&mut slab, at, due);
        let (mut now, mut looks) = (start, 0);
        while now <= due {
            // Small steps near the ends, larger ones in between: a sweep's rhythm would take all day here.
            now += ((due - now.min(due)) / 50).max(1);
            wheel.turn(&mut slab, now);
            while let Some(at) = wheel.pop(&mut slab) {
                looks += 1;
                if now <= due {
                    wheel.link(&mut slab, at, due);
                }
            }
        }
        assert!((1..=LEVELS + 1).contains(&looks), "{looks} looks over {distance} ticks");
    }
}
