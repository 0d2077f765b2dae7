use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::check::Behavior;
use crate::cluster::{PeerInfo, RingSettings, Seen, Senders, Stamp};

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn settings() -> GlobalSettings {
    GlobalSettings { items_max: 3, keys_max: 8, ..GlobalSettings::default() }
}

fn view(peers: &[&str]) -> View {
    View::new(1, "me:1", "", peers.iter().map(|peer| PeerInfo::new(*peer)), RingSettings::default())
}

/// Notes hits on a key whose window is a minute from `wall` on.
fn record_at(
    machine: &mut GlobalHits,
    owner: &str,
    key: &str,
    hits: i64,
    behavior: Behavior,
    ms: u64,
) -> bool {
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
    machine.unconfirmed("a:1", Key { name: "n", unique_key: key }, applied, Timestamp(0))
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
        machine.succeeded("a:1", batch.sequence, Some(7), at(round * 1_000 + 101));
        machine.rehome(&view(&["me:1"]), at(round * 1_000 + 200));
        assert_eq!(machine.waiting_for("a:1"), (0, 0));
    }
}

#[test]
fn hits_are_summed_and_one_batch_is_under_way() {
    let mut machine = GlobalHits::new(settings());
    assert!(record(&mut machine, "a:1", "k", 1, 0), "the first sets the time");
    assert!(!record(&mut machine, "a:1", "k", 2, 10));
    assert_eq!(machine.poll_timeout(), Some(at(100)));
    assert_eq!(due(&mut machine, 99), None);
    let first = due(&mut machine, 100).unwrap();
    assert_eq!((sums(&first), &*first.owner), (vec![("k", 3)], "a:1"));
    record(&mut machine, "a:1", "k", 4, 110);
    assert_eq!((due(&mut machine, 1_000), machine.poll_timeout()), (None, None), "one at a time");
    assert_eq!(machine.waiting_for("a:1"), (1, 1));
    machine.succeeded("a:1", first.sequence, Some(7), at(300));
    assert_eq!(machine.poll_timeout(), Some(at(300)));
    assert_eq!(sums(&due(&mut machine, 300).unwrap()), [("k", 4)]);
}

#[test]
fn the_newest_of_everything_else_travels_with_the_time_of_the_first() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 5);
    let request = Request {
        key: Key { name: "n", unique_key: "k" },
        hits: 2,
        limit: 7,
        duration: 60_000,
        algorithm: 0,
        behavior: Behavior::GLOBAL,
        burst: 9,
        created_at: None,
        max_wait: 0,
    };
    machine.record("a:1", &request, Timestamp(50), Timestamp(70_000), at(50));
    let sum = due(&mut machine, 105).unwrap().items[0].1;
    assert_eq!((sum.hits, sum.limit, sum.burst, sum.created_at.ms()), (3, 7, 9, 5));
    assert_eq!(sum.ends_at.ms(), 70_000);
}

#[test]
fn a_full_outbox_leaves_at_once() {
    let mut machine = GlobalHits::new(settings());
    for (key, tells) in [("a", true), ("b", false), ("c", true), ("d", false)] {
        assert_eq!(record(&mut machine, "a:1", key, 1, 0), tells, "{key}");
    }
    assert_eq!(machine.poll_timeout(), Some(at(0)));
    let batch = due(&mut machine, 0).unwrap();
    assert_eq!(sums(&batch), [("a", 1), ("b", 1), ("c", 1)]);
    for key in ["e", "f"] {
        record(&mut machine, "a:1", key, 1, 1);
    }
    machine.succeeded("a:1", batch.sequence, Some(7), at(2));
    assert_eq!(machine.poll_timeout(), Some(at(2)), "full again while the last was under way");
    assert_eq!(sums(&due(&mut machine, 2).unwrap()), [("d", 1), ("e", 1), ("f", 1)]);
}

#[test]
fn bytes_bound_a_message_too_and_the_rest_follows() {
    let mut machine = GlobalHits::new(GlobalSettings { bytes_max: 1_000, ..settings() });
    let long = "k".repeat(600);
    record(&mut machine, "a:1", &long, 1, 0);
    record(&mut machine, "a:1", "k", 1, 0);
    let first = due(&mut machine, 100).unwrap();
    assert_eq!(first.items.len(), 2);
    machine.succeeded("a:1", first.sequence, Some(7), at(100));
    record(&mut machine, "a:1", &long, 1, 100);
    record(&mut machine, "a:1", &format!("{long}2"), 1, 100);
    let second = due(&mut machine, 200).unwrap();
    assert_eq!(second.items.len(), 1);
    machine.succeeded("a:1", second.sequence, Some(7), at(201));
    assert_eq!(due(&mut machine, 201).unwrap().items.len(), 1, "the rest does not wait again");
}

#[test]
fn what_was_not_sent_is_poured_back_and_tried_less_and_less_often() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    let mut now = 100;
    let mut last = 0;
    for (round, wait) in [100, 200, 400, 800, 1_600, 1_600].into_iter().enumerate() {
        let batch = due(&mut machine, now).unwrap();
        assert_eq!(sums(&batch), [("k", 1 + round as i64)]);
        assert!(batch.sequence > last, "a batch that never left is another one when it does");
        last = batch.sequence;
        record(&mut machine, "a:1", "k", 1, now);
        let failure = if round % 2 == 0 { Failure::NotSent } else { Failure::Answered };
        assert!(!machine.failed("a:1", batch.sequence, failure, at(now)));
        assert_eq!(machine.poll_timeout(), Some(at(now + wait)));
        assert_eq!(due(&mut machine, now + wait - 1), None);
        now += wait;
    }
    let batch = due(&mut machine, now).unwrap();
    machine.succeeded("a:1", batch.sequence, None, at(now));
    assert!(machine.is_idle());
    assert_eq!(machine.stats(), HitsStats::default());
}

#[test]
fn silence_loses_what_an_owner_would_not_know_again() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 5, 0);
    record(&mut machine, "a:1", "l", 5, 0);
    let batch = due(&mut machine, 100).unwrap();
    assert!(!machine.failed("a:1", batch.sequence, Failure::Unanswered, at(600)));
    assert_eq!(machine.stats(), HitsStats { lost: 2, ..HitsStats::default() });
    assert!(machine.is_idle());
}

#[test]
fn silence_of_an_owner_that_knows_numbers_repeats_the_batch() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    let first = due(&mut machine, 100).unwrap();
    machine.succeeded("a:1", first.sequence, Some(7), at(101));
    record(&mut machine, "a:1", "k", 2, 200);
    let second = due(&mut machine, 300).unwrap();
    record(&mut machine, "a:1", "k", 4, 310);
    assert!(!machine.failed("a:1", second.sequence, Failure::Unanswered, at(800)));
    assert!(machine.is_under_way());
    assert_eq!(machine.poll_timeout(), Some(at(900)));
    assert_eq!(due(&mut machine, 899), None);
    assert_eq!(due(&mut machine, 900), Some(second.clone()), "as it was, whatever came meanwhile");
    // An answer to the first attempt that comes now counts as well.
    machine.succeeded("a:1", second.sequence, Some(7), at(901));
    assert_eq!(sums(&due(&mut machine, 901).unwrap()), [("k", 4)]);
    assert_eq!(machine.stats().lost, 0);
}

#[test]
fn what_may_have_been_counted_keeps_its_number_whatever_later_attempts_say() {
    for failure in [Failure::NotSent, Failure::NotTaken, Failure::Answered] {
        let mut machine = GlobalHits::new(settings());
        record(&mut machine, "a:1", "k", 1, 0);
        let first = due(&mut machine, 100).unwrap();
        machine.succeeded("a:1", first.sequence, Some(7), at(101));
        record(&mut machine, "a:1", "k", 2, 200);
        let second = due(&mut machine, 300).unwrap();
        assert!(!machine.failed("a:1", second.sequence, Failure::Unanswered, at(800)));
        assert_eq!(due(&mut machine, 900), Some(second.clone()));
        assert!(!machine.failed("a:1", second.sequence, failure, at(901)));
        assert_eq!(due(&mut machine, 1_101), Some(second), "{failure:?} speaks of the second attempt only");
    }
}

#[test]
fn a_repeat_whose_windows_are_over_is_lost_and_the_next_goes_on() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    let first = due(&mut machine, 100).unwrap();
    machine.succeeded("a:1", first.sequence, Some(7), at(101));
    record(&mut machine, "a:1", "k", 1, 200);
    let second = due(&mut machine, 300).unwrap();
    assert!(!machine.failed("a:1", second.sequence, Failure::Unanswered, at(800)));
    record(&mut machine, "a:1", "l", 1, 60_000);
    let third = due(&mut machine, 60_201).unwrap();
    assert_eq!(sums(&third), [("l", 1)]);
    assert!(third.sequence > second.sequence);
    assert_eq!(machine.stats().lost, 1);
}

#[test]
fn a_reset_wipes_what_was_before_and_precedes_what_is_after() {
    let mut machine = GlobalHits::new(settings());
    let batch = |machine: &mut GlobalHits, ms: u64| {
        record(machine, "a:1", "k", 9, ms);
        record_at(machine, "a:1", "k", 1, Behavior::RESET_REMAINING, ms);
        record(machine, "a:1", "k", 2, ms);
        record(machine, "a:1", "k", 3, ms);
        due(machine, ms + 100).unwrap()
    };
    // It is not known yet whether the owner is an original, which would mix them up.
    let first = batch(&mut machine, 0);
    assert_eq!(sums(&first), [("k", 1)]);
    machine.succeeded("a:1", first.sequence, Some(7), at(101));
    let second = due(&mut machine, 101).unwrap();
    assert_eq!(sums(&second), [("k", 5)]);
    machine.succeeded("a:1", second.sequence, Some(7), at(102));
    let third = batch(&mut machine, 200);
    assert_eq!(sums(&third), [("k", 1), ("k", 5)]);
    assert!(third.items[0].1.behavior.has(Behavior::RESET_REMAINING));
    assert_eq!(unconfirmed(&machine, "k", Some(third.sequence - 1)), Unconfirmed::Reset);
}

#[test]
fn a_copy_subtracts_what_the_owner_did_not_know_when_it_spoke() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    let first = due(&mut machine, 100).unwrap().sequence;
    machine.succeeded("a:1", first, Some(7), at(101));
    record(&mut machine, "a:1", "k", 2, 110);
    let second = due(&mut machine, 210).unwrap().sequence;
    record(&mut machine, "a:1", "k", 4, 220);
    for (applied, hits) in [(None, 6), (Some(first - 1), 7), (Some(first), 6), (Some(second), 4)] {
        assert_eq!(unconfirmed(&machine, "k", applied), Unconfirmed::Hits(hits), "{applied:?}");
    }
    machine.confirmed("a:1", second);
    assert_eq!(unconfirmed(&machine, "k", Some(0)), Unconfirmed::Hits(6), "the second is not answered yet");
    machine.succeeded("a:1", second, Some(7), at(230));
    assert_eq!(unconfirmed(&machine, "k", None), Unconfirmed::Hits(4));
    machine.confirmed("a:1", second);
    assert_eq!(unconfirmed(&machine, "k", Some(0)), Unconfirmed::Hits(4));
    assert_eq!(unconfirmed(&machine, "other", Some(0)), Unconfirmed::Hits(0));
}

#[test]
fn many_answered_batches_are_remembered_together() {
    let mut machine = GlobalHits::new(settings());
    for round in 0..40 {
        record(&mut machine, "a:1", "k", 1, round * 100);
        let batch = due(&mut machine, round * 100 + 100).unwrap();
        machine.succeeded("a:1", batch.sequence, Some(7), at(round * 100 + 100));
    }
    assert_eq!(unconfirmed(&machine, "k", Some(0)), Unconfirmed::Hits(40));
    machine.confirmed("a:1", 40);
    assert_eq!(unconfirmed(&machine, "k", Some(0)), Unconfirmed::Hits(0));
}

#[test]
fn an_owner_that_started_anew_misses_only_what_it_has_not_answered() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    let first = due(&mut machine, 100).unwrap().sequence;
    machine.succeeded("a:1", first, Some(7), at(101));
    record(&mut machine, "a:1", "k", 2, 110);
    due(&mut machine, 210).unwrap();
    assert_eq!(unconfirmed(&machine, "k", Some(0)), Unconfirmed::Hits(3));
    machine.spoke("a:1", 7);
    assert_eq!(
        unconfirmed(&machine, "k", Some(0)),
        Unconfirmed::Hits(3),
        "it may have said so before it counted"
    );
    machine.spoke("a:1", 8);
    assert_eq!(unconfirmed(&machine, "k", Some(0)), Unconfirmed::Hits(2));
}

#[test]
fn hits_of_a_window_that_is_over_are_given_up() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    record(&mut machine, "a:1", "l", 1, 0);
    assert_eq!(due(&mut machine, 60_001), None);
    assert_eq!(machine.stats(), HitsStats { ended: 2, ..HitsStats::default() });
    assert_eq!(machine.poll_timeout(), None);
}

#[test]
fn hits_of_two_windows_are_not_summed() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    record(&mut machine, "a:1", "k", 2, 60_001);
    let sum = due(&mut machine, 60_101).unwrap().items[0].1;
    assert_eq!((sum.hits, sum.created_at.ms()), (2, 60_001), "the first window's time would bury them in it");
    assert_eq!(machine.stats().ended, 1);
}

#[test]
fn beyond_the_bound_the_newest_of_the_fullest_gives_way() {
    let mut machine = GlobalHits::new(GlobalSettings { keys_max: 4, items_max: 10, ..settings() });
    for key in ["a", "b", "c"] {
        record(&mut machine, "a:1", key, 1, 0);
    }
    for key in ["d", "e", "f"] {
        record(&mut machine, "b:1", key, 1, 0);
    }
    assert_eq!((machine.stats().pending, machine.stats().dropped), (4, 2));
    assert_eq!(sums(&due(&mut machine, 100).unwrap()), [("a", 1), ("b", 1)]);
    assert_eq!(sums(&due(&mut machine, 100).unwrap()), [("d", 1), ("e", 1)]);
}

#[test]
fn the_bound_holds_for_what_comes_back_too() {
    let mut machine = GlobalHits::new(GlobalSettings { keys_max: 3, items_max: 10, ..settings() });
    for key in ["a", "b", "c"] {
        record(&mut machine, "a:1", key, 1, 0);
    }
    let batch = due(&mut machine, 100).unwrap();
    for key in ["d", "e", "f"] {
        record(&mut machine, "a:1", key, 1, 100);
    }
    assert!(!machine.failed("a:1", batch.sequence, Failure::NotSent, at(101)));
    assert_eq!((machine.stats().pending, machine.stats().dropped), (3, 3));
}

#[test]
fn a_stop_does_not_wait() {
    let mut machine = GlobalHits::new(settings());
    record(&mut machine, "a:1", "k", 1, 0);
    let batch = machine.due(at(1), Timestamp(1), true).unwrap();
    assert!(!machine.failed("a:1", batch.sequence, Failure::NotSent, at(2)));
    assert!(machine.due(at(2), Timestamp(2), true).is_some());
    assert_eq!(machine.due(at(2), Timestamp(2), true), None, "but for an answer");
}

#[test]
fn keys_follow_their_owners() {
    let mut machine = GlobalHits::new(settings());
    let three = view(&["a:1", "b:1", "me:1"]);
    let keys: Vec<String> = (0..8).map(|number| format!("{number}-key")).collect();
    for key in &keys {
        record(&mut machine, "gone:1", key, 1, 0);
    }
    let own = machine.rehome(&three, at(1));
    let mut delivered: Vec<String> = own.iter().map(|(key, _)| key.unique_key.to_string()).collect();
    while let Some(batch) = due(&mut machine, 500) {
        for (key, _) in &batch.items {
            let Member::Peer(index) = three.owner(key.as_key()) else { panic!("{key:?} is ours") };
            assert_eq!(three.local()[index].grpc_address, *batch.owner);
            delivered.push(key.unique_key.to_string());
        }
        machine.succeeded(&batch.owner, batch.sequence, Some(7), at(500));
    }
    delivered.sort();
    assert_eq!(delivered, keys);
    record(&mut machine, "a:1", "k", 1, 600);
    assert!(machine.rehome(&view(&[]), at(600)).is_empty());
    assert_eq!(machine.stats().dropped, 1, "there is nobody");
}

#[test]
fn an_outbox_whose_keys_have_gone_wakes_nobody() {
    let mut machine = GlobalHits::new(settings());
    let all = view(&["a:1", "b:1", "me:1"]);
    // Whoever owns it, it waits at the other.
    let owned_by_b = matches!(all.owner(Key { name: "n", unique_key: "k" }), Member::Peer(1));
    let other = if owned_by_b { "a:1" } else { "b:1" };
    record(&mut machine, other, "k", 1, 0);
    machine.rehome(&all, at(1));
    while let Some(batch) = due(&mut machine, 200) {
        machine.succeeded(&batch.owner, batch.sequence, Some(7), at(200));
    }
    assert_eq!(machine.poll_timeout(), None);
}

#[test]
fn what_comes_back_from_who_left_is_rehomed_and_what_does_not_is_lost() {
    let alone = view(&["me:1"]);
    for failure in [Failure::NotSent, Failure::NotTaken, Failure::Answered, Failure::Unanswered] {
        let mut machine = GlobalHits::new(settings());
        record(&mut machine, "a:1", "k", 1, 0);
        let batch = due(&mut machine, 100).unwrap();
        machine.succeeded("a:1", batch.sequence, Some(7), at(101));
        record(&mut machine, "a:1", "k", 1, 101);
        let batch = due(&mut machine, 201).unwrap();
        assert!(machine.rehome(&alone, at(202)).is_empty(), "it is under way");
        let moved = machine.failed("a:1", batch.sequence, failure, at(203));
        assert_eq!(moved, failure != Failure::Unanswered);
        assert_eq!(machine.rehome(&alone, at(203)).len(), usize::from(moved));
        assert_eq!(machine.stats().lost, u64::from(!moved));
        assert!(machine.is_idle() && machine.poll_timeout().is_none());
    }
}

#[path = "global_hits_laws.rs"]
mod laws;
