//! Lists of peers that are written again and again: what did not change is not touched, what is gone is let go, and
//! nothing piles up.

use std::time::Duration;

use flyball_tests::cluster::{Cluster, Item, Load, Plan, Record, ask, granted, sample_keys};
use flyball_tests::http::{Connection, Request};
use flyball_tests::node::flag;
use flyball_tests::wait::poll;

use crate::network;

/// Promised: a change of the list is everywhere by then.
const APPLIED: Duration = Duration::from_secs(5);

/// What must not grow: connections to peers, threads, KiB of memory, for each node.
#[derive(Clone, Copy, Debug)]
struct Holds {
    connections: usize,
    threads: u64,
    resident_kib: u64,
}

fn holds(cluster: &Cluster, node: usize) -> Holds {
    let member = cluster.node(node);
    let others = cluster.nodes().iter().filter(|other| other.grpc() != member.grpc());
    Holds {
        connections: others.map(|other| member.connections_to(other.grpc()).unwrap()).sum(),
        threads: member.threads().unwrap(),
        resident_kib: member.resident_kib().unwrap(),
    }
}

/// Memory that a busy node may gain without a leak: the allocator keeps what was used. A leaked client is about
/// 100 KiB, so 200 of them would be seen.
const SLACK_KIB: u64 = 10_000;

/// Polls, since what was let go takes a moment to end.
fn assert_flat(cluster: &Cluster, before: &[Holds]) {
    for (node, before) in before.iter().enumerate() {
        let flat = poll(APPLIED, || {
            let now = holds(cluster, node);
            let flat = now.connections <= before.connections
                && now.threads <= before.threads
                && now.resident_kib <= before.resident_kib + SLACK_KIB;
            flat.then_some(())
        });
        assert!(flat.is_some(), "node {node} held {before:?}, and now {:?}", holds(cluster, node));
    }
}

/// Every hit that clients saw granted is counted once, and nothing else is.
fn assert_counts(cluster: &Cluster, records: &[Record], limit: i64) {
    let items = &records[0].items;
    let looks: Vec<Item> = items.iter().map(|item| item.clone().hits(0)).collect();
    let answers = cluster.node(0).ask(&looks).unwrap();
    for (item, answer) in items.iter().zip(answers) {
        assert_eq!(limit - answer.remaining, granted(records, &item.key, None), "{}: {answer:?}", item.key);
    }
}

/// P23: the same list a thousand times, as new files, touches nothing: connections stay the very same, views too.
#[test]
fn p23_the_same_list_a_thousand_times_changes_nothing() {
    const LIMIT: i64 = 1_000_000;
    let cluster = Plan::new(network::SAME_LIST, 3).watched().patient().start().unwrap();
    let keys = cluster.keys_by_owner("churn", 5).unwrap();
    let items: Vec<Item> = keys.iter().flatten().map(|key| Item::new("churn", key, LIMIT)).collect();
    let loads: Vec<Load> = (0..3).map(|node| Load::on(cluster.node(node).http(), items.clone(), 5)).collect();
    loads.iter().for_each(|load| load.let_pass(50));
    let epochs = || -> Vec<f64> {
        cluster.nodes().iter().map(|node| node.metric("flyball_view_epoch").unwrap()).collect()
    };
    let before: Vec<Holds> = (0..3).map(|node| holds(&cluster, node)).collect();
    let views = epochs();
    for round in 0..1_000_usize {
        // In another order each time: the same set.
        let first = round % 3;
        cluster.write_peers(&[first, (first + 1) % 3, (first + 2) % 3]).unwrap();
        loads[round % 3].let_pass(1);
    }
    assert_flat(&cluster, &before);
    assert_eq!(epochs(), views);
    let records: Vec<Record> = loads.into_iter().map(Load::stop).collect();
    for record in &records {
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
    }
    assert_counts(&cluster, &records, LIMIT);
}

/// P23 and P25: one peer leaves and joins the list, a hundred times each, while calls to it are in flight. Every call
/// ends well, keys of the others keep their counts, and connections, threads and memory stay where they were.
#[test]
fn p23_p25_two_hundred_changes_leave_nothing_behind() {
    const LIMIT: i64 = 1_000_000;
    /// Comes and goes.
    const GUEST: usize = 2;
    let cluster = Plan::new(network::TOGGLED, 3).watched().patient().start().unwrap();
    let keys = cluster.keys_by_owner("churn", 5).unwrap();
    let item = |key: &String| Item::new("churn", key, LIMIT);
    let stay: Vec<Item> = keys[..GUEST].iter().flatten().map(item).collect();
    let moves: Vec<Item> = keys[GUEST].iter().map(item).collect();
    let stay_loads: Vec<Load> =
        (0..2).map(|node| Load::on(cluster.node(node).http(), stay.clone(), 10)).collect();
    let move_loads: Vec<Load> = (0..8)
        .map(|n| {
            let behavior = if n % 4 == 3 { flag::NO_BATCHING } else { 0 };
            let items = moves.iter().map(|item| item.clone().behavior(behavior)).collect();
            Load::on(cluster.node(n % 2).http(), items, 10)
        })
        .collect();
    let toggle = |times: usize| {
        for round in 0..times {
            let (list, count): (&[usize], _) =
                if round % 2 == 0 { (&[0, 1], 2) } else { (&[0, 1, GUEST], 3) };
            cluster.write_peers(list).unwrap();
            let applied = poll(APPLIED, || {
                let all = (0..2).all(|node| {
                    cluster.node(node).health().is_ok_and(|health| health["peer_count"] == count)
                });
                all.then_some(())
            });
            assert!(applied.is_some(), "change {round}: not {count} peers\n{}", cluster.logs());
        }
    };
    toggle(20);
    stay_loads.iter().for_each(|load| load.let_pass(10));
    let before: Vec<Holds> = (0..3).map(|node| holds(&cluster, node)).collect();
    toggle(180);
    move_loads.iter().for_each(|load| load.let_pass(10));
    assert_flat(&cluster, &before);
    let records: Vec<Record> = stay_loads.into_iter().map(Load::stop).collect();
    let moved: Vec<Record> = move_loads.into_iter().map(Load::stop).collect();
    for record in records.iter().chain(&moved) {
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
    }
    for (item, answer, call) in records.iter().flat_map(Record::answers) {
        assert!(!answer.degraded, "{} after {:?}: {answer:?}\n{}", item.key, call.took, cluster.logs());
    }
    assert_counts(&cluster, &records, LIMIT);
}

/// P25: a peer is taken off the list while two hundred calls wait for it, which it takes in and does not answer. Every one
/// of them ends, none with an error, and each hit is counted once, by the owner there was or by the one there is.
#[test]
fn p25_a_peer_is_removed_with_two_hundred_calls_in_flight() {
    const CALLS: usize = 200;
    const LIMIT: i64 = 1_000_000;
    const GUEST: usize = 2;
    let mut cluster = Plan::new(network::IN_FLIGHT, 3).watched().patient().start().unwrap();
    let keys = cluster.keys_by_owner("churn", 10).unwrap();
    let items: Vec<Item> = keys[GUEST].iter().map(|key| Item::new("churn", key, LIMIT)).collect();
    // There is a connection to the owner.
    cluster.node(0).ask(&items).unwrap();
    cluster.freeze(GUEST).unwrap();
    let guest = cluster.node(GUEST).grpc().to_string();
    let in_flight = |cluster: &Cluster| {
        let peers = cluster.node(0).connect().send(&Request::get("/v1/admin/peers")).unwrap().json().unwrap();
        let peers = peers["peers"].as_array().unwrap().clone();
        let guest = peers.into_iter().find(|peer| peer["grpc_address"] == guest);
        guest.map_or(0, |peer| peer["in_flight"].as_u64().unwrap())
    };
    let asked = cluster.node(0).http();
    let calls: Vec<_> = (0..CALLS)
        .map(|n| {
            let behavior = if n % 2 == 0 { flag::NO_BATCHING } else { 0 };
            let item = items[n % items.len()].clone().behavior(behavior);
            std::thread::spawn(move || ask(&mut Connection::new(asked), &[item]))
        })
        .collect();
    let all = poll(APPLIED, || (in_flight(&cluster) == CALLS as u64).then_some(()));
    assert!(all.is_some(), "{} in flight\n{}", in_flight(&cluster), cluster.logs());
    cluster.write_peers(&[0, 1]).unwrap();
    cluster.wait_until_healthy(0, 2, APPLIED).unwrap();
    cluster.thaw(GUEST).unwrap();
    for call in calls {
        let answer = call.join().unwrap().unwrap().remove(0);
        assert!(answer.is_grant() && !answer.degraded, "{answer:?}\n{}", cluster.logs());
    }
    // The guest has heard that it is no member, and still knows what it counted.
    let look: Vec<Item> = items.iter().map(|item| item.clone().hits(0)).collect();
    cluster.write_peers(&[GUEST]).unwrap();
    cluster.wait_until_healthy(GUEST, 1, APPLIED).unwrap();
    let counted = cluster.node(GUEST).ask(&look).unwrap();
    let counted: i64 = counted.iter().map(|answer| LIMIT - answer.remaining).sum();
    assert_eq!(counted, CALLS as i64 + items.len() as i64);
}

/// P21: of five nodes two at a time are stopped and come back, ten times. Within five seconds of each change every
/// node counts the right peers, and all name the same owner for each of a thousand keys.
#[test]
fn p21_two_nodes_at_a_time_restart_ten_times() {
    const NODES: usize = 5;
    let mut cluster = Plan::new(network::TWO_AT_A_TIME, 5).watched().patient().start().unwrap();
    let keys = sample_keys(1_000);
    let all: Vec<usize> = (0..NODES).collect();
    let agree = |cluster: &mut Cluster, on: &[usize]| {
        for &node in on {
            cluster.wait_until_healthy(node, on.len(), APPLIED).unwrap();
        }
        let owners: Vec<Vec<usize>> =
            on.iter().map(|&node| cluster.owners_by(node, "churn", &keys).unwrap()).collect();
        assert!(owners.windows(2).all(|pair| pair[0] == pair[1]), "{on:?} disagree");
        assert!(on.iter().all(|node| owners[0].contains(node)), "of {on:?} some own nothing");
    };
    for round in 0..10 {
        let leaving = [round % NODES, (round + 2) % NODES];
        let staying: Vec<usize> = all.iter().copied().filter(|node| !leaving.contains(node)).collect();
        for node in leaving {
            cluster.terminate(node).unwrap();
        }
        cluster.write_peers(&staying).unwrap();
        for node in leaving {
            let status = cluster.ended(node).unwrap();
            assert!(status.success(), "{status}\n{}", cluster.node(node).log());
        }
        agree(&mut cluster, &staying);
        for node in leaving {
            cluster.start_again(node).unwrap();
        }
        cluster.write_peers(&all).unwrap();
        agree(&mut cluster, &all);
    }
}

/// P24: a node whose peer is taken off the list in the very moment in which it stops itself ends as it should,
/// under load, every one of twenty times (the report asks for a hundred: each is a stop and a start of half a second).
#[test]
fn p24_a_peer_removed_while_the_node_stops() {
    const ROUNDS: usize = 20;
    let mut cluster = Plan::new(network::GONE_AT_ONCE, 3).watched().patient().start().unwrap();
    let keys = cluster.keys_by_owner("churn", 5).unwrap();
    let items: Vec<Item> = keys.iter().flatten().map(|key| Item::new("churn", key, 1_000_000)).collect();
    let load = Load::on(cluster.node(0).http(), items.clone(), 5);
    for round in 0..ROUNDS {
        let own = Load::on(cluster.node(1).http(), items.clone(), 1);
        own.let_pass(5);
        cluster.write_peers(&[0, 1]).unwrap();
        // The file is read four times a second: the stop falls before, into and after the change.
        for _ in 0..round * 2 {
            load.let_pass(1);
        }
        cluster.terminate(1).unwrap();
        let status = cluster.ended(1).unwrap();
        drop(own);
        assert!(status.success(), "round {round}: {status}\n{}", cluster.node(1).log());
        assert!(!cluster.node(1).log().contains("panicked"), "{}", cluster.node(1).log());
        cluster.write_peers(&[0, 1, 2]).unwrap();
        cluster.start_again(1).unwrap();
        for node in 0..3 {
            cluster.wait_until_healthy(node, 3, Duration::from_secs(10)).unwrap();
        }
    }
    assert_eq!(load.stop().errors(), Vec::<String>::new(), "{}", cluster.logs());
}
