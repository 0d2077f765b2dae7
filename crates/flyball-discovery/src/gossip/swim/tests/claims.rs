//! Whose word counts.

use std::net::SocketAddr;

use super::net::{Net, S, address, identity, name, peer};
use crate::gossip::codec::message::{Alive, Claim, IndirectPing, Message, Ping, Record, State, Versions};
use crate::gossip::codec::packet::PACKET_MAX;
use crate::gossip::swim::timing::Timing;
use crate::gossip::swim::{Event, MEMBERS_MAX, Output, Swim};

fn alive(number: usize, incarnation: u32) -> Alive {
    let me = identity(number);
    Alive { incarnation, node: me.name, address: me.address, meta: me.meta, versions: Versions::OURS }
}

fn claim(number: usize, incarnation: u32, from: usize) -> Claim {
    Claim { incarnation, node: name(number), from: name(from) }
}

/// Two nodes that know each other, and the log.
fn pair() -> Net {
    Net::joined(2, 1)
}

fn incarnation(net: &mut Net, at: usize, of: usize) -> u32 {
    let of = name(of);
    net.swim(at).state().into_iter().find(|record| record.name == of).unwrap().incarnation
}

#[test]
fn who_is_called_dead_says_that_it_is_not() {
    for message in [
        Message::Suspect(claim(0, 1, 9)),
        Message::Dead(claim(0, 41, 9)),
        Message::Dead(claim(0, 1, 0)),
        Message::Alive(Alive { meta: Vec::new(), ..alive(0, 1) }),
        Message::Alive(alive(0, 7)),
    ] {
        let mut net = pair();
        let wrong = match &message {
            Message::Alive(alive) => alive.incarnation,
            Message::Dead(claim) | Message::Suspect(claim) => claim.incarnation,
            _ => 0,
        };
        net.tell(0, message.clone());
        assert_eq!(net.count(|_, event| *event == Event::Refuted), 1, "{message:?}");
        assert_eq!(incarnation(&mut net, 0, 0), wrong + 1);
        net.run(S(2));
        assert_eq!(incarnation(&mut net, 1, 0), wrong + 1, "{message:?}");
        assert!(net.agree(&[0, 1]));
    }
    // What is said of an earlier life, and what is true, needs no answer.
    let mut net = pair();
    net.tell(0, Message::Dead(claim(0, 0, 9)));
    net.tell(0, Message::Alive(alive(0, 1)));
    assert_eq!(net.count(|_, event| *event == Event::Refuted), 0);
    // Nor does one who leaves.
    let now = net.now;
    net.swim(0).leave(now);
    net.tell(0, Message::Dead(claim(0, 1, 0)));
    net.tell(0, Message::Suspect(claim(0, 5, 1)));
    assert_eq!(net.count(|_, event| *event == Event::Refuted), 0);
}

#[test]
fn the_highest_incarnation_does_not_wrap() {
    let mut net = pair();
    net.tell(0, Message::Dead(claim(0, u32::MAX, 9)));
    assert_eq!(incarnation(&mut net, 0, 0), u32::MAX);
}

/// The original announces itself before it has its metadata.
#[test]
fn an_announcement_without_metadata_is_made_good_by_whoever_knows_them() {
    let mut net = Net::new(1, 1);
    let own = net.swim(0).peers();
    net.tell(0, Message::Alive(Alive { meta: Vec::new(), ..alive(7, 1) }));
    assert_eq!(net.swim(0).peers(), own);
    assert_eq!(net.count(|_, event| matches!(event, Event::BadMeta { .. })), 1);
    // Nor does what it was before say what it is now, or nonsense say anything.
    net.tell(0, Message::Alive(alive(7, 0)));
    net.tell(0, Message::Alive(Alive { meta: b"{".to_vec(), ..alive(7, 1) }));
    assert_eq!(net.swim(0).peers(), own);
    // The same incarnation with them does: the next exchange of states with anybody brings it.
    net.tell(0, Message::Alive(alive(7, 1)));
    let both = [own[0].clone(), peer(7)];
    assert_eq!(net.swim(0).peers(), both);
    // And then nothing of that incarnation changes it any more.
    let other = crate::gossip::meta::write(&peer(77)).unwrap();
    for meta in [Vec::new(), other] {
        net.tell(0, Message::Alive(Alive { meta, ..alive(7, 1) }));
        assert_eq!(net.swim(0).peers(), both);
    }
    // It says nothing of whether the node is well: a suspect stays one.
    net.tell(0, Message::Alive(Alive { meta: Vec::new(), ..alive(9, 1) }));
    net.tell(0, Message::Suspect(claim(9, 1, 7)));
    net.tell(0, Message::Alive(alive(9, 1)));
    assert!(net.swim(0).peers().contains(&peer(9)));
    let state = net.swim(0).state().into_iter().find(|record| record.name == name(9)).unwrap().state;
    assert_eq!(state, State::Suspect);
    // In the usual order it changes nothing.
    net.tell(0, Message::Alive(alive(8, 1)));
    net.tell(0, Message::Alive(Alive { meta: Vec::new(), ..alive(8, 1) }));
    assert!(net.swim(0).peers().contains(&peer(8)));
}

#[test]
fn d12_metadata_that_become_unreadable_leave_the_peer_as_it_was() {
    let mut net = pair();
    net.tell(0, Message::Alive(Alive { meta: b"{".to_vec(), ..alive(1, 2) }));
    assert!(net.agree(&[0]) || net.sees(0) == [0, 1]);
    assert_eq!(net.sees(0), [0, 1]);
    assert_eq!(net.count(|_, event| matches!(event, Event::BadMeta { .. })), 1);
    let moved = crate::gossip::meta::write(&peer(77)).unwrap();
    net.tell(0, Message::Alive(Alive { meta: moved, ..alive(1, 3) }));
    assert!(net.swim(0).peers().contains(&peer(77)));
    assert_eq!(net.sees(0), [0]);
}

#[test]
fn d1_several_nodes_on_one_address_are_as_many_peers() {
    let mut net = Net::new(1, 1);
    for number in 1..4_u16 {
        let at = SocketAddr::new(address(9).ip(), 7_000 + number);
        net.tell(0, Message::Alive(Alive { address: at, ..alive(number.into(), 1) }));
    }
    assert_eq!(net.swim(0).peers(), [peer(0), peer(1), peer(2), peer(3)]);
    // Two names for one peer are one.
    net.tell(0, Message::Alive(Alive { node: "other".to_owned(), ..alive(1, 1) }));
    net.tell(0, Message::Alive(Alive { node: "myself".to_owned(), ..alive(0, 1) }));
    assert_eq!(net.swim(0).peers().len(), 4);
}

#[test]
fn d3_a_name_moves_only_from_who_has_left() {
    let elsewhere = Alive { address: address(99), ..alive(1, 9) };
    let conflicts = |net: &Net| net.count(|_, event| matches!(event, Event::Conflict { .. }));
    let mut net = pair();
    net.tell(0, Message::Alive(elsewhere.clone()));
    assert_eq!(conflicts(&net), 1);
    net.tell(0, Message::Dead(claim(1, 1, 5)));
    net.tell(0, Message::Alive(elsewhere.clone()));
    assert_eq!(conflicts(&net), 2);
    assert_eq!(net.sees(0), [0]);
    // Somebody else with this node's own name is no reason to quarrel.
    net.tell(0, Message::Alive(Alive { address: address(99), ..alive(0, 9) }));
    assert_eq!((conflicts(&net), net.count(|_, event| *event == Event::Refuted)), (3, 0));
    let mut net = pair();
    net.tell(0, Message::Dead(claim(1, 1, 1)));
    net.tell(0, Message::Alive(Alive { incarnation: 1, ..elsewhere }));
    assert_eq!((conflicts(&net), net.sees(0).len()), (0, 2));
}

#[test]
fn older_news_does_not_count() {
    let mut net = pair();
    net.tell(0, Message::Alive(alive(1, 5)));
    net.tell(0, Message::Suspect(claim(1, 4, 9)));
    net.tell(0, Message::Dead(claim(1, 4, 9)));
    assert_eq!(net.count(|_, event| matches!(event, Event::Suspected { .. } | Event::Died { .. })), 0);
    net.tell(0, Message::Dead(claim(1, 5, 9)));
    assert_eq!(net.sees(0), [0]);
    net.tell(0, Message::Alive(alive(1, 5)));
    net.tell(0, Message::Suspect(claim(1, 6, 9)));
    assert_eq!(net.sees(0), [0]);
    net.tell(0, Message::Alive(alive(1, 6)));
    assert_eq!(net.sees(0), [0, 1]);
    // Of nobody anything is known but that it is there.
    net.tell(0, Message::Dead(claim(7, 1, 9)));
    net.tell(0, Message::Suspect(claim(7, 1, 9)));
    net.tell(0, Message::Alive(Alive { versions: Versions([0, 5, 2, 0, 0, 0]), ..alive(8, 1) }));
    assert_eq!(net.swim(0).state().len(), 2);
}

#[test]
fn what_an_exchange_calls_dead_is_only_suspected() {
    let mut net = pair();
    let record = |state| Record {
        name: name(1),
        address: address(1),
        meta: identity(1).meta,
        incarnation: 1,
        state,
        versions: Versions::OURS,
    };
    let now = net.now;
    net.swim(0).handle_state(vec![record(State::Dead)], now).unwrap();
    net.act(0);
    assert_eq!(net.sees(0), [0, 1]);
    assert_eq!(net.count(|_, event| matches!(event, Event::Suspected { .. })), 1);
    // It is there and says so.
    net.run(S(40));
    assert_eq!(net.count(|_, event| matches!(event, Event::Died { .. })), 0);
    let now = net.now;
    net.swim(0).handle_state(vec![Record { incarnation: 9, ..record(State::Left) }], now).unwrap();
    assert_eq!(net.sees(0), [0]);
}

#[test]
fn an_exchange_with_versions_that_not_all_speak_counts_for_nothing() {
    for versions in [[3, 5, 3, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 5, 2, 1, 1, 1]] {
        let mut net = pair();
        let mut records = vec![];
        for number in [5, 6] {
            let versions = if number == 6 { Versions(versions) } else { Versions::OURS };
            let Alive { incarnation, node: name, address, meta, .. } = alive(number, 1);
            records.push(Record { name, address, meta, incarnation, state: State::Alive, versions });
        }
        let now = net.now;
        let error = net.swim(0).handle_state(records.clone(), now).unwrap_err();
        assert!(error.contains("version"), "{error}");
        assert_eq!(net.sees(0), [0, 1]);
        // The dead speak no version.
        records[1].state = State::Dead;
        net.swim(0).handle_state(records, now).unwrap();
        assert!(net.swim(0).peers().contains(&peer(5)));
    }
}

#[test]
fn members_are_bounded_and_the_dead_make_room() {
    let mut swim = Swim::new(identity(0), Timing::default(), PACKET_MAX, 1, Default::default());
    let one = |number: usize| {
        let node = format!("n{number}");
        Message::Alive(Alive { node, ..alive(1, 1) })
    };
    for number in 0..=MEMBERS_MAX {
        swim.handle_message(one(number), address(1), Default::default());
    }
    assert_eq!(swim.state().len(), MEMBERS_MAX + 1);
    let full = std::iter::from_fn(|| swim.poll_output())
        .filter(|output| matches!(output, Output::Event(Event::Full { .. })));
    assert_eq!(full.count(), 1);
}

#[test]
fn questions_for_others_are_asked_and_bounded() {
    let mut net = Net::joined(3, 1);
    let sent = |net: &mut Net| -> Vec<(SocketAddr, Message)> {
        let mut sent = Vec::new();
        while let Some(output) = net.swim(0).poll_output() {
            if let Output::Packet { to, parts, .. } = output {
                sent.push((to, Message::decode(&parts[0]).unwrap().unwrap()));
            }
        }
        sent
    };
    let ask = |seq| {
        Message::IndirectPing(IndirectPing {
            seq,
            target: address(2).ip(),
            port: 0,
            node: name(2),
            nack: true,
            source: Some(address(1)),
            source_node: name(1),
        })
    };
    let now = net.now;
    net.swim(0).handle_message(ask(77), address(200), now);
    let [(to, Message::Ping(ping))] = &sent(&mut net)[..] else { panic!() };
    assert_eq!((*to, ping.node.as_str()), (address(2), "node-2"));
    // The answer, and the one there is when none comes.
    let seq = ping.seq;
    net.swim(0).handle_message(Message::Ack { seq }, address(2), now);
    assert_eq!(sent(&mut net), [(address(1), Message::Ack { seq: 77 })]);
    net.swim(0).handle_message(ask(78), address(200), now);
    sent(&mut net);
    // Timers come one after the other, as they are due.
    while net.swim(0).poll_timeout() <= now.saturating_add(S(3)) {
        let at = net.swim(0).poll_timeout();
        net.swim(0).handle_timeout(at);
    }
    assert!(sent(&mut net).contains(&(address(1), Message::Nack { seq: 78 })));
    let now = net.swim(0).poll_timeout();
    (0..5_000).for_each(|seq| net.swim(0).handle_message(ask(seq), address(200), now));
    assert_eq!(sent(&mut net).len(), 1_024);
}

#[test]
fn only_who_is_meant_answers() {
    let mut net = pair();
    let ping = |node: &str, source| {
        Message::Ping(Ping { seq: 5, node: node.to_owned(), source, source_node: String::new() })
    };
    let now = net.now;
    let mut answer = |ping| {
        net.swim(0).handle_message(ping, address(200), now);
        match net.swim(0).poll_output() {
            Some(Output::Packet { to, parts, .. }) => {
                Some((to, Message::decode(&parts[0]).unwrap().unwrap()))
            }
            _ => None,
        }
    };
    let ack = Message::Ack { seq: 5 };
    assert_eq!(answer(ping("node-0", None)), Some((address(200), ack.clone())));
    assert_eq!(answer(ping("", Some(address(7)))), Some((address(7), ack)));
    assert_eq!(answer(ping("node-1", None)), None);
}
