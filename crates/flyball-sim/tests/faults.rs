//! A simulator that finds nothing proves nothing. Each of these faults is put back, and found within 200 seeds, by the
//! invariant that is there for it.

use flyball_sim::fault::Fault;
use flyball_sim::run;

const SEEDS: u64 = 200;

/// Others may see it too, and sooner; what counts is that one of these does.
fn found_by(fault: Fault, invariants: &[&str]) {
    let seen = |seed| {
        run(seed, Some(fault), 0).is_err_and(|failed| invariants.contains(&failed.violation.invariant))
    };
    assert!((0..SEEDS).any(seen), "{fault:?} was not found by {invariants:?} in {SEEDS} seeds");
}

#[test]
fn hits_lost_on_a_failed_send() {
    found_by(Fault::LostHits, &["hits_conserved", "reset_monotonic", "admission_bound"]);
}

#[test]
fn hits_counted_twice_by_a_retry() {
    found_by(Fault::Renumbered, &["hits_conserved"]);
}

#[test]
fn a_stale_broadcast_that_wins() {
    found_by(Fault::StaleBroadcast, &["reset_monotonic", "admission_bound"]);
}

#[test]
fn a_routing_loop() {
    found_by(Fault::RoutingLoop, &["one_hop"]);
}

#[test]
fn a_queue_without_a_bound() {
    found_by(Fault::Unbounded, &["bounded_memory"]);
}

#[test]
fn a_reset_in_the_broadcast_read() {
    found_by(Fault::ResetInRead, &["one_owner"]);
}

#[test]
fn an_owner_overwritten_by_a_broadcast() {
    found_by(Fault::OwnOverwritten, &["one_owner"]);
}

#[test]
fn unconfirmed_hits_given_back() {
    found_by(Fault::NotSubtracted, &["reset_monotonic", "admission_bound"]);
}

#[test]
fn a_forward_sent_again() {
    found_by(Fault::ForwardRepeated, &["one_answer"]);
}

#[test]
fn a_new_share_with_every_outage() {
    found_by(Fault::ShareForgotten, &["share_bound"]);
}

#[test]
fn a_stop_that_owes() {
    found_by(Fault::NotFlushed, &["flushed"]);
}
