//! Scheduled admission through nodes that do not own the key: a booking is made once, and by the owner only.

use std::time::Duration;

use flyball_tests::wait::poll;
use serde_json::{Value, json};

use crate::nodes::Kind::{self, Exact, Like, Original};
use crate::nodes::{Answer, Cluster, SOON, item, with};

/// Ten in ten minutes: a unit a minute.
const UNIT_MS: i64 = 60_000;
/// However slow the machine, the test is through with a key by then.
const SLACK_MS: i64 = 20_000;

#[test]
fn scheduled_with_gubernator_semantics() {
    scheduled(5, Like);
}

#[test]
fn scheduled_with_exact_semantics() {
    scheduled(6, Exact);
}

fn scheduled(network: u8, ours: Kind) {
    let mut cluster = Cluster::start(network, &[Original, ours, Original, ours]);
    for owner in [Original, ours] {
        bookings_follow_each_other(&cluster, owner);
        verdicts_come_through(&cluster, owner);
    }
    for (owner, asked) in [(Original, ours), (ours, Original)] {
        a_late_answer_is_not_booked_twice(&cluster, owner, asked);
    }
    // Each kill leaves the other kind's second node to be asked.
    for (owner, asked) in [(Original, ours), (ours, Original)] {
        a_dead_owner_is_an_error(&mut cluster, owner, asked);
    }
}

fn emptied(cluster: &Cluster, owner: usize, word: &str) -> Value {
    let key = cluster.key(owner, word);
    let leaky = with(&item(&key), &json!({ "algorithm": 1 }));
    let drained = cluster.nodes[owner].ask(&with(&leaky, &json!({ "hits": 10 })));
    assert_eq!(drained.verdict(), ("UNDER_LIMIT", 0));
    leaky
}

/// It waits for so many units.
#[track_caller]
fn assert_waits(answer: &Answer, status: &str, units: i64, who: &dyn std::fmt::Display) {
    assert_eq!((answer.status.as_str(), answer.error.as_str()), (status, ""), "{who}: {answer:?}");
    let wait = units * UNIT_MS;
    assert!((wait - SLACK_MS..=wait).contains(&answer.retry_after), "{who}: {units} units in {answer:?}");
}

fn bookings_follow_each_other(cluster: &Cluster, owner: Kind) {
    let at = cluster.place(owner);
    for behavior in [0, 1] {
        let leaky = emptied(cluster, at, &format!("booked-{behavior}"));
        let booking = with(&leaky, &json!({ "max_wait": 290_000, "behavior": behavior }));
        for (place, node) in cluster.nodes.iter().enumerate() {
            let answer = node.ask(&booking);
            assert_waits(&answer, "SCHEDULED", place as i64 + 1, node);
            assert_eq!(cluster.owner_of(place, &answer), at, "{node}");
        }
        // Looks show the debt and do not add to it.
        for node in &cluster.nodes {
            let look = node.ask(&with(&booking, &json!({ "hits": 0 })));
            assert_eq!((look.remaining, look.error.as_str()), (0, ""), "{node}: {look:?}");
            let plain = node.ask(&leaky);
            assert_eq!((plain.verdict(), plain.retry_after), (("OVER_LIMIT", 0), 0), "{node}");
        }
        assert_waits(&cluster.nodes[at].ask(&booking), "OVER_LIMIT", 5, &"the fifth has to wait too long");
    }
}

fn verdicts_come_through(cluster: &Cluster, owner: Kind) {
    let at = cluster.place(owner);
    let leaky = emptied(cluster, at, "verdicts");
    for node in &cluster.nodes {
        assert_waits(&node.ask(&with(&leaky, &json!({ "max_wait": 1_000 }))), "OVER_LIMIT", 1, node);
        let huge = node.ask(&with(&leaky, &json!({ "max_wait": 1_000, "hits": 11 })));
        assert_eq!(
            (huge.status.as_str(), huge.retry_after, huge.error.as_str()),
            ("NEVER_FITS", 0, ""),
            "{node}"
        );
    }
}

/// The forward is given up while the owner is frozen. Whether the owner then books it is its affair; it must not be
/// asked again, and nobody else may answer.
fn a_late_answer_is_not_booked_twice(cluster: &Cluster, owner: Kind, asked: Kind) {
    let (at, asked) = (cluster.second(owner), cluster.second(asked));
    let (owner, node) = (&cluster.nodes[at], &cluster.nodes[asked]);
    let leaky = emptied(cluster, at, "frozen");
    let booking = with(&leaky, &json!({ "max_wait": 290_000 }));
    assert_waits(&node.ask(&booking), "SCHEDULED", 1, node);
    owner.freeze();
    let answer = node.ask(&booking);
    owner.thaw();
    let key = leaky["unique_key"].as_str().unwrap();
    let expected = format!(
        "while fetching rate limit 'mixed_{key}' from peer: Error in getPeerRateLimitSingle: Request error: \
         Error in client.GetPeerRateLimits: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    );
    assert_eq!((answer.error.as_str(), &answer.metadata), (expected.as_str(), &json!({})), "{node}");
    assert_no_grant(node.kind, &answer);
    // Time for a second call that must not come; the first lies at the owner already.
    let back = poll(SOON, || (node.ask(&with(&leaky, &json!({ "hits": 0 }))).error.is_empty()).then_some(()));
    assert!(back.is_some(), "{owner} does not answer {node}");
    flyball_tests::wait::sleep_ms(Duration::from_millis(300).as_millis() as i64);
    let next = owner.ask(&booking);
    assert_eq!((next.status.as_str(), next.error.as_str()), ("SCHEDULED", ""), "{next:?}");
    assert!(next.retry_after <= 3 * UNIT_MS, "the frozen booking was made more than once: {next:?}");
}

fn a_dead_owner_is_an_error(cluster: &mut Cluster, owner: Kind, asked: Kind) {
    let at = cluster.place(owner);
    let leaky = emptied(cluster, at, "dead");
    cluster.nodes[at].kill();
    let (node, dead) = (&cluster.nodes[cluster.second(asked)], &cluster.nodes[at].address);
    let key = leaky["unique_key"].as_str().unwrap();
    let expected = format!(
        "while fetching rate limit 'mixed_{key}' from peer: Error in getPeerRateLimitSingle: Request error: \
         Error in client.GetPeerRateLimits: rpc error: code = Unavailable desc = connection error: desc = \
         \"transport: Error while dialing: dial tcp {dead}: connect: connection refused\""
    );
    let booking = with(&leaky, &json!({ "max_wait": 290_000 }));
    // The first call may meet the end of the connection itself.
    let refused = poll(SOON, || {
        let answer = node.ask(&booking);
        assert_ne!(answer.error, "", "decided without its owner: {answer:?}");
        assert_no_grant(node.kind, &answer);
        (answer.error == expected).then_some(answer)
    });
    let answer = refused.unwrap_or_else(|| panic!("not {expected:?} but {:?}", node.ask(&booking)));
    assert_eq!(answer.metadata, json!({}));
}

/// With exact semantics an error is not taken for a grant; the original's status is its zero.
#[track_caller]
fn assert_no_grant(kind: Kind, answer: &Answer) {
    let expected = if kind == Exact { "OVER_LIMIT" } else { "UNDER_LIMIT" };
    assert_eq!((answer.status.as_str(), answer.retry_after), (expected, 0), "{answer:?}");
}
