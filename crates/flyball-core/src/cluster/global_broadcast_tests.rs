use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::*;
use crate::check::{Algorithm, Key};
use crate::cluster::{Seen, Senders, Stamp};

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn machine(peers: &[&str]) -> GlobalBroadcast {
    let settings = GlobalSettings { items_max: 3, keys_max: 8, ..GlobalSettings::default() };
    let mut machine = GlobalBroadcast::new(settings);
    machine.set_peers(peers.iter().copied());
    machine
}

fn mark_limit(machine: &mut GlobalBroadcast, key: &str, limit: i64, ms: u64) -> bool {
    let check = Check {
        key: Key { name: "n", unique_key: key },
        hits: 1,
        limit,
        duration: 60_000,
        algorithm: Algorithm::TokenBucket,
        behavior: Behavior::GLOBAL,
        burst: 0,
        created_at: Timestamp(ms as i64),
        max_wait: 0,
    };
    machine.mark(&check, at(ms))
}

fn mark(machine: &mut GlobalBroadcast, key: &str, ms: u64) -> bool {
    mark_limit(machine, key, 10, ms)
}

fn names(broadcast: &Broadcast) -> Vec<&str> {
    broadcast.keys.iter().map(|dirty| &*dirty.key.unique_key).collect()
}

fn addresses(broadcast: &Broadcast) -> Vec<&str> {
    broadcast.peers.iter().map(|(address, _)| &**address).collect()
}

fn succeed(machine: &mut GlobalBroadcast, broadcast: &Broadcast, ms: u64) {
    for (peer, sequence) in &broadcast.peers {
        machine.succeeded(peer, *sequence, at(ms));
    }
}

#[test]
fn a_peer_that_leaves_and_returns_takes_the_next_message_for_new() {
    let mut machine = machine(&["a"]);
    let mut peer = Senders::new(8);
    for round in 0..3 {
        mark(&mut machine, "k", round * 1_000);
        let broadcast = machine.due(at(round * 1_000 + 100), false).unwrap();
        let stamp = Stamp { session: 7, sequence: broadcast.peers[0].1 };
        assert_eq!(peer.begin("me:1", stamp), Seen::New, "round {round}");
        succeed(&mut machine, &broadcast, round * 1_000 + 101);
        machine.set_peers([]);
        machine.set_peers(["a"]);
    }
}

#[test]
fn the_latest_state_of_a_key_is_told_once_to_all() {
    let mut machine = machine(&["a", "b"]);
    assert!(mark_limit(&mut machine, "k", 10, 0));
    assert!(!mark_limit(&mut machine, "k", 20, 50));
    assert_eq!(machine.poll_timeout(), Some(at(100)));
    assert_eq!(machine.due(at(99), false), None);
    let broadcast = machine.due(at(100), false).unwrap();
    assert_eq!((names(&broadcast), addresses(&broadcast)), (vec!["k"], vec!["a", "b"]));
    assert_eq!(broadcast.keys[0].limit, 20);
    assert_eq!((machine.due(at(100), false), machine.poll_timeout()), (None, None));
    succeed(&mut machine, &broadcast, 120);
    assert!(machine.is_empty());
    assert_eq!(machine.poll_timeout(), None);
}

#[test]
fn a_mark_while_its_key_is_told_is_told_again() {
    let mut machine = machine(&["a"]);
    mark(&mut machine, "k", 0);
    let first = machine.due(at(100), false).unwrap();
    assert!(mark(&mut machine, "k", 110));
    succeed(&mut machine, &first, 120);
    assert_eq!(machine.len(), 1);
    assert_eq!(machine.poll_timeout(), Some(at(210)));
    assert_eq!(names(&machine.due(at(210), false).unwrap()), ["k"]);
}

#[test]
fn a_peer_that_fails_is_told_again_and_delays_nobody() {
    let mut machine = machine(&["a", "b"]);
    mark(&mut machine, "k", 0);
    let first = machine.due(at(100), false).unwrap();
    machine.succeeded("a", first.peers[0].1, at(101));
    machine.failed("b", first.peers[1].1, at(101));
    machine.failed("b", first.peers[1].1, at(102));
    assert_eq!(machine.poll_timeout(), Some(at(201)));
    mark(&mut machine, "l", 150);
    let second = machine.due(at(201), false).unwrap();
    assert_eq!((names(&second), addresses(&second)), (vec!["k"], vec!["b"]));
    let third = machine.due(at(250), false).unwrap();
    assert_eq!((names(&third), addresses(&third)), (vec!["l"], vec!["a"]));
    machine.failed("b", second.peers[0].1, at(250));
    assert_eq!(machine.poll_timeout(), Some(at(450)), "twice as long");
    let last = machine.due(at(450), false).unwrap();
    assert_eq!((names(&last), addresses(&last)), (vec!["k", "l"], vec!["b"]));
}

#[test]
fn a_full_message_leaves_at_once_and_the_rest_with_the_next() {
    let mut machine = machine(&["a"]);
    for (key, tells) in [("a", true), ("b", false), ("c", true), ("d", false)] {
        assert_eq!(mark(&mut machine, key, 0), tells, "{key}");
    }
    assert_eq!(machine.poll_timeout(), Some(at(0)));
    let first = machine.due(at(0), false).unwrap();
    assert_eq!(names(&first), ["a", "b", "c"]);
    succeed(&mut machine, &first, 5);
    assert_eq!(names(&machine.due(at(5), false).unwrap()), ["d"]);
}

#[test]
fn bytes_bound_a_message_too() {
    let settings = GlobalSettings { bytes_max: 1_000, ..GlobalSettings::default() };
    let mut machine = GlobalBroadcast::new(settings);
    machine.set_peers(["a"]);
    let long = "k".repeat(500);
    mark(&mut machine, &long, 0);
    mark(&mut machine, "l", 0);
    let first = machine.due(at(100), false).unwrap();
    assert_eq!(names(&first), [&*long], "one key always fits");
    succeed(&mut machine, &first, 101);
    assert_eq!(names(&machine.due(at(101), false).unwrap()), ["l"]);
}

#[test]
fn beyond_the_bound_the_oldest_marks_are_forgotten() {
    let mut machine = machine(&["a"]);
    for number in 0..10 {
        mark(&mut machine, &format!("{number}"), 0);
    }
    assert_eq!((machine.len(), machine.forgotten()), (8, 2));
    assert_eq!(names(&machine.due(at(0), false).unwrap()), ["2", "3", "4"]);
}

#[test]
fn nobody_to_tell_means_nothing_to_remember() {
    let mut machine = machine(&[]);
    assert!(!mark(&mut machine, "k", 0));
    assert!(machine.is_empty());
    machine.set_peers(["a"]);
    mark(&mut machine, "k", 0);
    machine.set_peers([]);
    assert!(machine.is_empty());
}

#[test]
fn a_deadline_of_who_left_does_not_swallow_the_next() {
    let mut machine = machine(&["a"]);
    mark(&mut machine, "k", 0);
    machine.set_peers([]);
    machine.set_peers(["b"]);
    assert_eq!(machine.poll_timeout(), None, "a new peer is told what comes from here on");
    assert!(mark(&mut machine, "l", 1_000), "nobody else will say when");
    assert_eq!(machine.poll_timeout(), Some(at(1_100)));
    assert_eq!(names(&machine.due(at(1_100), false).unwrap()), ["l"]);
}

#[test]
fn a_new_peer_hears_what_nobody_has_heard() {
    let mut machine = machine(&["a"]);
    mark(&mut machine, "k", 0);
    machine.set_peers(["a", "b"]);
    mark(&mut machine, "k", 50);
    assert_eq!(addresses(&machine.due(at(100), false).unwrap()), ["a", "b"]);
}

#[test]
fn a_stop_does_not_wait() {
    let mut machine = machine(&["a"]);
    mark(&mut machine, "k", 0);
    let first = machine.due(at(1), true).unwrap();
    machine.failed("a", first.peers[0].1, at(2));
    assert!(machine.due(at(2), true).is_some());
}

mod properties {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Event {
        Mark(u8),
        Wait(u64),
        Due,
        Answer { which: usize, well: bool },
        Peers(u8),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            6 => (0..12_u8).prop_map(Event::Mark),
            3 => (0..150_u64).prop_map(Event::Wait),
            3 => Just(Event::Due),
            4 => (any::<usize>(), any::<bool>()).prop_map(|(which, well)| Event::Answer { which, well }),
            1 => (0..8_u8).prop_map(Event::Peers),
        ]
    }

    fn run(events: &[Event], drain: bool) -> Vec<Broadcast> {
        const PEERS: [&str; 3] = ["a", "b", "c"];
        let mut machine = machine(&PEERS);
        let mut now = 0;
        // What each peer must still hear, and what is on its way to it.
        let mut owed: BTreeMap<&str, BTreeSet<String>> =
            PEERS.iter().map(|peer| (*peer, BTreeSet::new())).collect();
        let mut open: Vec<(String, u64)> = Vec::new();
        let mut trace = Vec::new();
        let mut events = events.to_vec();
        if drain {
            let ends = [Event::Wait(2_000), Event::Due, Event::Answer { which: 0, well: true }];
            events.extend(ends.iter().cycle().take(3 * 60).cloned());
        }
        for event in &events {
            match *event {
                Event::Mark(key) => {
                    let name = format!("{key}");
                    mark(&mut machine, &name, now);
                    for keys in owed.values_mut() {
                        keys.insert(name.clone());
                    }
                }
                Event::Wait(ms) => now += ms,
                Event::Due => {
                    let promised = machine.poll_timeout().is_some_and(|when| when <= at(now));
                    let mut any = false;
                    while let Some(broadcast) = machine.due(at(now), false) {
                        any = true;
                        assert!(broadcast.keys.len() <= 3 && !broadcast.peers.is_empty());
                        for (peer, sequence) in &broadcast.peers {
                            assert!(open.iter().all(|(other, _)| **other != **peer), "one at a time");
                            open.push((String::from(&**peer), *sequence));
                            // Read now: a later mark is owed anew.
                            let owed = owed.get_mut(&**peer).unwrap();
                            for dirty in &broadcast.keys {
                                owed.remove(&*dirty.key.unique_key);
                            }
                        }
                        trace.push(broadcast);
                    }
                    assert!(promised || !any, "it came without a promise");
                    assert!(machine.poll_timeout().is_none_or(|when| when > at(now)), "nothing is left");
                }
                Event::Answer { which, well } if !open.is_empty() => {
                    let (peer, sequence) = open.remove(which % open.len());
                    if well {
                        machine.succeeded(&peer, sequence, at(now));
                    } else {
                        machine.failed(&peer, sequence, at(now));
                        let told = trace.iter().rfind(|broadcast| {
                            broadcast
                                .peers
                                .iter()
                                .any(|(address, number)| (&**address, *number) == (&*peer, sequence))
                        });
                        if let (Some(owed), Some(told)) = (owed.get_mut(&*peer), told) {
                            owed.extend(told.keys.iter().map(|dirty| String::from(&*dirty.key.unique_key)));
                        }
                    }
                }
                Event::Answer { .. } => {}
                Event::Peers(set) => {
                    let here = |index: usize| set & (1 << index) != 0;
                    let names: Vec<&str> =
                        (0..3).filter(|index| here(*index)).map(|index| PEERS[index]).collect();
                    machine.set_peers(names.iter().copied());
                    open.retain(|(peer, _)| names.contains(&&**peer));
                    owed.retain(|peer, _| names.contains(peer));
                    for peer in names {
                        owed.entry(peer).or_default();
                    }
                }
            }
            assert!(machine.len() <= 8);
        }
        if drain && machine.forgotten() == 0 {
            assert!(owed.values().all(BTreeSet::is_empty), "{owed:?}");
            assert!(machine.is_empty() && machine.poll_timeout().is_none());
        }
        trace
    }

    proptest! {
        #[test]
        fn everybody_hears_of_everything(events in prop::collection::vec(event(), 1..80)) {
            let first = run(&events, true);
            prop_assert_eq!(first, run(&events, true), "the same events have the same effects");
        }
    }
}
