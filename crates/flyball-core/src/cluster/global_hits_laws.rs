//! Laws that hold whatever happens: nothing is lost uncounted, nothing waits for ever, the same events are the same run.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Record { key: u8, hits: i64 },
    Wait(u64),
    Due { all: bool },
    Answer { batch: usize, how: u8 },
    Peers(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..12_u8, 1..5_i64).prop_map(|(key, hits)| Event::Record { key, hits }),
        3 => prop_oneof![0..150_u64, 0..20_000_u64].prop_map(Event::Wait),
        4 => prop::bool::weighted(0.1).prop_map(|all| Event::Due { all }),
        4 => (any::<usize>(), 0..5_u8).prop_map(|(batch, how)| Event::Answer { batch, how }),
        1 => (0..8_u8).prop_map(Event::Peers),
    ]
}

/// Runs events, checks the laws after each, and writes down every effect.
fn run(events: &[Event]) -> Vec<HitsBatch> {
    const PEERS: [&str; 3] = ["a:1", "b:1", "c:1"];
    let mut machine = GlobalHits::new(GlobalSettings { keys_max: 6, ..settings() });
    let mut around = view(&["me:1", "a:1", "b:1", "c:1"]);
    let mut now = 1_000;
    let mut open: Vec<HitsBatch> = Vec::new();
    let (mut recorded, mut delivered) = (BTreeMap::<String, i64>::new(), BTreeMap::<String, i64>::new());
    let mut gone: BTreeMap<String, i64> = BTreeMap::new();
    let mut given_up = 0;
    let mut trace = Vec::new();
    for event in events {
        match *event {
            Event::Record { key, hits } => {
                let name = format!("{key}-key");
                if let Member::Peer(index) = around.owner(Key { name: "n", unique_key: &name }) {
                    let owner = around.local()[index].grpc_address.clone();
                    record(&mut machine, &owner, &name, hits, now);
                    *recorded.entry(name).or_default() += hits;
                }
            }
            Event::Wait(ms) => now += ms,
            Event::Due { all } => {
                let promised = machine.poll_timeout().is_some_and(|when| when <= at(now));
                let mut any = false;
                let ended = machine.stats().ended + machine.stats().lost;
                while let Some(batch) = machine.due(at(now), Timestamp(now as i64), all) {
                    any = true;
                    assert!(batch.items.len() <= 3, "{batch:?}");
                    open.retain(|other| (&other.owner, other.sequence) != (&batch.owner, batch.sequence));
                    open.push(batch.clone());
                    trace.push(batch);
                }
                let gave_up = machine.stats().ended + machine.stats().lost > ended;
                assert!(all || any == promised || gave_up, "promised {promised}, came {any}");
                assert!(machine.poll_timeout().is_none_or(|when| when > at(now)), "nothing is left");
            }
            Event::Answer { batch, how } if !open.is_empty() => {
                let batch = open.remove(batch % open.len());
                let failure = match how {
                    0 | 1 => None,
                    2 => Some(Failure::NotSent),
                    3 => Some(Failure::Answered),
                    _ => Some(Failure::Unanswered),
                };
                match failure {
                    None => {
                        machine.succeeded(&batch.owner, batch.sequence, (how == 0).then_some(7), at(now));
                        for (key, sum) in &batch.items {
                            *delivered.entry(key.unique_key.to_string()).or_default() += sum.hits;
                        }
                    }
                    Some(failure) => {
                        if machine.failed(&batch.owner, batch.sequence, failure, at(now)) {
                            for (key, sum) in machine.rehome(&around, at(now)) {
                                *delivered.entry(key.unique_key.to_string()).or_default() += sum.hits;
                            }
                        }
                    }
                }
            }
            Event::Answer { .. } => {}
            Event::Peers(set) => {
                let names = PEERS.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0);
                let names: Vec<&str> = names.map(|(_, name)| *name).chain(["me:1"]).collect();
                around = view(&names);
                for (key, sum) in machine.rehome(&around, at(now)) {
                    *delivered.entry(key.unique_key.to_string()).or_default() += sum.hits;
                }
                // Who is sent a repeat that was then given up does not answer it any more.
                open.retain(|batch| machine.waiting_for(&batch.owner).1 > 0);
            }
        }
        let stats = machine.stats();
        assert!(stats.pending <= 6, "{stats:?}");
        let mut losses = 0;
        for (key, sum) in &recorded {
            let waiting: i64 = PEERS
                .iter()
                .map(|owner| {
                    match machine.unconfirmed(
                        owner,
                        Key { name: "n", unique_key: key },
                        None,
                        Timestamp(i64::MIN),
                    ) {
                        Unconfirmed::Hits(hits) => hits,
                        Unconfirmed::Reset => unreachable!("nobody resets"),
                    }
                })
                .sum();
            let missing = sum - waiting - delivered.get(key).copied().unwrap_or(0);
            let before = gone.insert(key.clone(), missing).unwrap_or(0);
            assert!(missing >= before, "{key} was delivered twice: {missing} after {before}, {event:?}");
            losses += u64::from(missing > before);
        }
        let now_given_up = stats.lost + stats.ended + stats.dropped;
        assert!(losses <= now_given_up - given_up, "{losses} keys lost hits without a count, {event:?}");
        given_up = now_given_up;
    }
    trace
}

proptest! {
    #[test]
    fn hits_are_delivered_waiting_or_counted_as_given_up(events in prop::collection::vec(event(), 1..120)) {
        let first = run(&events);
        prop_assert_eq!(first, run(&events), "the same events have the same effects");
    }
}
