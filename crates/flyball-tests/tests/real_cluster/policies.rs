//! What else a check can be told whose owner is gone: refused, or decided by the full limit. (`local-share` and `error` are
//! in `failures.rs`.)

use std::time::Instant;

use flyball_tests::cluster::{Load, Plan, Record};

use crate::failures::{A, B, C, HEALED, HEALTHY, LIMIT, assert_untouched, load, mixed};
use crate::network;

/// An owner is killed under load and comes back. Whatever the policy, no call fails, no item is an error, the others'
/// keys do not notice, and in the end its own are answered by it again. Gives its keys and what clients heard.
fn killed(network: u8, policy: &str) -> (Vec<String>, [Record; 2]) {
    let argument = format!("--owner-unreachable={policy}");
    let mut cluster = Plan::new(network, 3).arguments(&[&argument]).start().unwrap();
    let keys = cluster.keys_by_owner("failures", 4).unwrap();
    let load = load(&cluster, &mixed(&keys));
    load.iter().for_each(|load| load.let_pass(5));
    cluster.kill(B).unwrap();
    let killed = Instant::now();
    load.iter().for_each(|load| load.let_pass(150));
    cluster.returns(B, HEALED);
    load.iter().for_each(|load| load.let_pass(50));
    let records = load.map(Load::stop);
    for record in &records {
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
        assert!(record.slowest(killed) < HEALTHY, "{:?}", record.slowest(killed));
        let last = record.calls.last().and_then(|call| call.outcome.as_ref().ok()).unwrap();
        assert!(last.iter().all(|answer| !answer.degraded), "{last:?}");
    }
    assert_untouched(&records, &[keys[A].as_slice(), &keys[C]].concat());
    (keys[B].clone(), records)
}

/// Hits on a key that this node granted in the owner's stead.
fn granted_without_owner(record: &Record, key: &str) -> i64 {
    let answers = record.answers().filter(|(item, answer, _)| item.key == key && answer.degraded);
    i64::try_from(answers.filter(|(_, answer, _)| answer.is_grant()).count()).unwrap()
}

/// P30: `deny` grants nothing without the owner.
#[test]
fn p30_deny_refuses_while_the_owner_is_gone() {
    let (keys, records) = killed(network::DENIED, "deny");
    for record in &records {
        let degraded: Vec<_> = record.answers().filter(|(_, answer, _)| answer.degraded).collect();
        assert!(degraded.len() > 100, "{}", degraded.len());
        for (item, answer, _) in degraded {
            assert!(answer.over_limit && answer.remaining == 0, "{}: {answer:?}", item.key);
        }
        assert!(keys.iter().all(|key| granted_without_owner(record, key) == 0));
    }
}

/// P30: `local` grants the full limit on each node, and no more.
#[test]
fn p30_local_grants_the_full_limit_on_each_node() {
    let (keys, records) = killed(network::LOCAL, "local");
    for record in &records {
        for key in &keys {
            assert_eq!(granted_without_owner(record, key), LIMIT, "{key}");
        }
    }
}
