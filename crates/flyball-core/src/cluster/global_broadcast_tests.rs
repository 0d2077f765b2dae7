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
    let settings = BroadcastSettings { items_max: 3, keys_max: 8, ..BroadcastSettings::default() };
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
