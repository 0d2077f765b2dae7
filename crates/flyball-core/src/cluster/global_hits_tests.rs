use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::check::Behavior;
use crate::cluster::{PeerInfo, RingSettings, Seen, Senders, Stamp};

const SYNC: Duration = Duration::from_millis(100);

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn settings() -> HitsSettings {
    HitsSettings { items_max: 3, keys_max: 8, ..HitsSettings::default() }
}

fn view(peers: &[&str]) -> View {
    View::new(1, "me:1", "", peers.iter().map(|peer| PeerInfo::new(*peer)), RingSettings::default())
}

/// Notes hits on a key whose window is a minute from `wall` on.
fn record_at(machine: &mut GlobalHits, owner: &str, key: &str, hits: i64, behavior: Behavior, ms: u64) -> bool {
    let request = Request {
        key: Key { name: "n", unique_key: key },
        hits,
        limit: 100,
        duration: 60_000,
        algorithm: 0,
        behavior: behavior.with(Behavior::GLOBAL),
        burst: 0,
        created_at: None,
        max_wait: 0,
    };
    let created_at = Timestamp(ms as i64);
    machine.record(owner, &request, created_at, created_at.saturating_add(60_000), at(ms))
}

fn record(machine: &mut GlobalHits, owner: &str, key: &str, hits: i64, ms: u64) -> bool {
    record_at(machine, owner, key, hits, Behavior::default(), ms)
}

fn due(machine: &mut GlobalHits, ms: u64) -> Option<HitsBatch> {
    machine.due(at(ms), Timestamp(ms as i64), false)
}

fn sums(batch: &HitsBatch) -> Vec<(&str, i64)> {
    batch.items.iter().map(|(key, sum)| (&*key.unique_key, sum.hits)).collect()
}

fn unconfirmed(machine: &GlobalHits, key: &str, applied: Option<u64>) -> Unconfirmed {
    machine.unconfirmed("a:1", Key { name: "n", unique_key: key }, applied)
}

#[test]
fn an_owner_that_leaves_and_returns_takes_the_next_batch_for_new() {
    let mut machine = GlobalHits::new(settings());
    let mut owner = Senders::new(8);
    for round in 0..3 {
        record(&mut machine, "a:1", "k", 1, round * 1_000);
        let batch = due(&mut machine, round * 1_000 + 100).unwrap();
        let stamp = Stamp { session: 7, sequence: batch.sequence };
        assert_eq!(owner.begin("me:1", stamp), Seen::New, "round {round}");
        owner.applied("me:1", stamp);
        machine.succeeded("a:1", batch.sequence, true, at(round * 1_000 + 101));
        machine.rehome(&view(&["me:1"]), at(round * 1_000 + 200));
        assert_eq!(machine.waiting_for("a:1"), (0, 0));
    }
}
