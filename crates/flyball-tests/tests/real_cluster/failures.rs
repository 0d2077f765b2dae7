//! Owners that die, freeze and leave while clients ask through other nodes. A ledger of what clients were granted
//! holds the cluster to its limits.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use flyball_tests::cluster::{Cluster, Item, Load, Plan, Record, granted};
use flyball_tests::node::flag;
use flyball_tests::wait::poll;

use crate::network;

/// Asked through A and C, B is the one that fails.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
pub(crate) const C: usize = 2;
/// Of each key; used up while the owner is away.
pub(crate) const LIMIT: i64 = 60;
/// What each node may grant in the owner's stead: the limit divided by three nodes.
const SHARE: i64 = 20;
/// Promised: from a failure to the last thing a client notices.
pub(crate) const BYPASSED: Duration = Duration::from_secs(2);
/// Promised: from a return until everything is as before.
pub(crate) const HEALED: Duration = Duration::from_secs(10);
/// A call to healthy owners, while another is frozen.
pub(crate) const HEALTHY: Duration = Duration::from_millis(600);
/// A GLOBAL answer, while a peer is frozen.
const GLOBAL: Duration = Duration::from_millis(200);

/// Four keys of each node, in one call.
pub(crate) fn mixed(keys: &[Vec<String>]) -> Vec<Item> {
    keys.iter().flatten().map(|key| Item::new("failures", key, LIMIT)).collect()
}

pub(crate) fn load(cluster: &Cluster, items: &[Item]) -> [Load; 2] {
    [A, C].map(|node| Load::on(cluster.node(node).http(), items.to_vec(), 10))
}

/// The keys of those who stayed never notice.
pub(crate) fn assert_untouched(records: &[Record], keys: &[String]) {
    let answers = records.iter().flat_map(Record::answers);
    for (item, answer, call) in answers.filter(|(item, ..)| keys.contains(&item.key)) {
        let untouched = !answer.degraded && answer.error.is_empty();
        assert!(untouched, "{} after {:?}: {answer:?}", item.key, call.took);
    }
    for key in keys {
        assert_eq!(granted(records, key, None), LIMIT, "{key}");
    }
}

/// How often the owner itself granted a key.
fn granted_by_owner(records: &[Record], key: &str) -> i64 {
    let answers = records.iter().flat_map(Record::answers);
    let own = answers.filter(|(item, answer, _)| item.key == key && answer.is_grant() && !answer.degraded);
    i64::try_from(own.count()).unwrap()
}

/// The last answer that was not the owner's.
pub(crate) fn last_degraded(records: &[Record]) -> Option<Instant> {
    let degraded = records.iter().flat_map(Record::answers).filter(|(_, answer, _)| answer.degraded);
    degraded.map(|(.., call)| call.sent).max()
}

/// P30: an owner is killed under load. With the default policy clients see no error at all, keys of other owners in
/// the same calls do not notice, together the nodes grant no more than the limit and their shares, and when the owner
/// is back everything is as before.
#[test]
fn p30_a_killed_owner_costs_no_client_an_error() {
    let mut cluster = Plan::new(network::KILLED, 3).start().unwrap();
    let keys = cluster.keys_by_owner("failures", 4).unwrap();
    let load = load(&cluster, &mixed(&keys));
    load.iter().for_each(|load| load.let_pass(10));

    cluster.kill(B).unwrap();
    let noticed = poll(BYPASSED, || cluster.node(A).health().err());
    let said = noticed.expect("nobody says that a peer is gone").to_string();
    assert!(said.contains(&cluster.node(B).grpc().to_string()), "{said}");
    // Enough to use up every share, and for the peers to ask less and less often whether it is back.
    load.iter().for_each(|load| load.let_pass(200));

    let returning = Instant::now();
    let returned = cluster.returns(B, HEALED);
    load.iter().for_each(|load| load.let_pass(100));
    let records = load.map(Load::stop);

    for record in &records {
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
    }
    for key in &keys[B] {
        let before = granted(&records, key, Some(returning));
        assert!((SHARE..=LIMIT + 2 * SHARE).contains(&before), "{key}: {before}");
        // It has forgotten what it counted, as a new start does.
        let all = granted(&records, key, None);
        assert!(all <= 2 * LIMIT + 2 * SHARE, "{key}: {all}");
    }
    assert_untouched(&records, &[keys[A].as_slice(), &keys[C]].concat());
    let last = last_degraded(&records).expect("nobody answered in its stead");
    assert!(last < returned + HEALED, "still degraded {:?} after the return", last - returned);
    let end = records.iter().flat_map(|record| &record.calls).map(|call| call.sent).max().unwrap();
    assert!(last < end, "the last answer was still degraded");
}

/// P30: in a cluster of five one owner is killed and another one frozen in the same moment. Clients see no error, keys of
/// the three others do not notice, and the nodes that are asked grant their shares of a fifth.
#[test]
fn p30_of_five_one_is_killed_and_one_is_frozen() {
    const FROZEN: usize = 3;
    const SHARE: i64 = LIMIT / 5;
    let mut cluster = Plan::new(network::TWO_OF_FIVE, 5).start().unwrap();
    let keys = cluster.keys_by_owner("failures", 3).unwrap();
    let load = load(&cluster, &mixed(&keys));
    load.iter().for_each(|load| load.let_pass(10));

    cluster.kill(B).unwrap();
    cluster.freeze(FROZEN).unwrap();
    let failed = Instant::now();
    load.iter().for_each(|load| load.let_pass(150));
    let returning = Instant::now();
    cluster.thaw(FROZEN).unwrap();
    let returned = cluster.returns(B, HEALED);
    load.iter().for_each(|load| load.let_pass(50));
    let records = load.map(Load::stop);

    for record in &records {
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
        let slowest = record.slowest(failed + BYPASSED);
        assert!(slowest <= HEALTHY, "{slowest:?}, though both were known to be gone");
    }
    for key in keys[B].iter().chain(&keys[FROZEN]) {
        let before = granted(&records, key, Some(returning));
        assert!((SHARE..=LIMIT + 2 * SHARE).contains(&before), "{key}: {before}");
    }
    for key in &keys[B] {
        let all = granted(&records, key, None);
        assert!(all <= 2 * LIMIT + 2 * SHARE, "{key}: {all}");
    }
    for key in &keys[FROZEN] {
        let all = granted(&records, key, None);
        assert!(all <= LIMIT + 2 * SHARE, "{key}: {all}");
    }
    assert_untouched(&records, &[keys[A].as_slice(), &keys[C], &keys[4]].concat());
    let last = last_degraded(&records).expect("nobody answered in their stead");
    assert!(last < returned + HEALED, "still degraded {:?} after the return", last - returned);
}

/// P30: who wants errors instead gets errors that no client can take for a grant, only for the keys of the owner that
/// is gone, and at once.
#[test]
fn p30_errors_are_no_grants_and_end_with_the_return() {
    let plan = Plan::new(network::KILLED_WITH_ERRORS, 3).arguments(&["--owner-unreachable=error"]);
    let mut cluster = plan.start().unwrap();
    let keys = cluster.keys_by_owner("failures", 4).unwrap();
    let load = load(&cluster, &mixed(&keys));
    load.iter().for_each(|load| load.let_pass(10));
    cluster.kill(B).unwrap();
    let killed = Instant::now();
    load.iter().for_each(|load| load.let_pass(150));
    let returned = cluster.returns(B, HEALED);
    load.iter().for_each(|load| load.let_pass(50));
    let records = load.map(Load::stop);

    assert_untouched(&records, &[keys[A].as_slice(), &keys[C]].concat());
    let failed: Vec<_> =
        records.iter().flat_map(Record::answers).filter(|(_, answer, _)| !answer.error.is_empty()).collect();
    assert!(!failed.is_empty());
    for (item, answer, call) in &failed {
        assert!(answer.over_limit, "{}: an error that looks like a grant: {answer:?}", item.key);
        assert!(call.sent < returned + HEALED, "{}: {answer:?}", item.key);
    }
    for record in &records {
        let slowest = record.slowest(killed + BYPASSED);
        assert!(slowest < HEALTHY, "a call took {slowest:?} long after the peer was known to be gone");
        assert!(record.calls.iter().all(|call| call.outcome.is_ok()), "{:?}", record.errors());
        let last = record.calls.last().and_then(|call| call.outcome.as_ref().ok()).unwrap();
        assert!(last.iter().all(|answer| answer.error.is_empty()), "{last:?}");
    }
}

/// C12 and P30: an owner is frozen under load, its connections stay open. Its keys are answered by shares, calls to
/// others take no longer than ever, GLOBAL answers stay quick and the others go on telling each other.
#[test]
fn c12_a_frozen_owner_delays_nobody_else() {
    let mut cluster = Plan::new(network::FROZEN, 3).start().unwrap();
    let keys = cluster.keys_by_owner("failures", 8).unwrap();
    let part = |from: usize, to: usize| keys.iter().map(|keys| keys[from..to].to_vec()).collect::<Vec<_>>();
    let (plain, global, others) = (part(0, 4), part(4, 6), &keys[C][6..]);
    let mixed_load = load(&cluster, &mixed(&plain));
    let unbounded = |key: &String| Item::new("failures", key, 1_000_000);
    let healthy_load = Load::on(cluster.node(A).http(), others.iter().map(unbounded).collect(), 10);
    let global: Vec<Vec<Item>> = global
        .iter()
        .map(|keys| keys.iter().map(|key| unbounded(key).behavior(flag::GLOBAL)).collect())
        .collect();
    let global_load = Load::on(cluster.node(A).http(), global.concat(), 10);
    mixed_load.iter().for_each(|load| load.let_pass(10));

    cluster.freeze(B).unwrap();
    let frozen = Instant::now();
    mixed_load.iter().for_each(|load| load.let_pass(100));
    // What A counts on its own keys reaches C while B takes nothing.
    let look: Vec<Item> = global[A].iter().map(|item| item.clone().hits(0)).collect();
    let seen = |node: usize| cluster.node(node).ask(&look).unwrap()[0].remaining;
    let goal = seen(A);
    let told = poll(BYPASSED, || (seen(C) <= goal).then_some(()));
    assert!(told.is_some(), "{} on C, {goal} on A", seen(C));
    // What A grants on keys of C reaches their owner.
    let look: Vec<Item> = global[C].iter().map(|item| item.clone().hits(0)).collect();
    let seen = |node: usize| cluster.node(node).ask(&look).unwrap()[0].remaining;
    let goal = seen(A);
    let counted = poll(BYPASSED, || (seen(C) <= goal).then_some(()));
    assert!(counted.is_some(), "{} on C, {goal} on A", seen(C));
    mixed_load.iter().for_each(|load| load.let_pass(100));

    cluster.thaw(B).unwrap();
    let thawed = Instant::now();
    cluster.all_know(&[A, B, C], 3, HEALED);
    mixed_load.iter().for_each(|load| load.let_pass(100));
    let mixed_records = mixed_load.map(Load::stop);
    let (healthy, global) = (healthy_load.stop(), global_load.stop());

    for record in mixed_records.iter().chain([&healthy, &global]) {
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
    }
    for key in &plain[B] {
        let before = granted(&mixed_records, key, Some(thawed));
        assert!((SHARE..=LIMIT + 2 * SHARE).contains(&before), "{key}: {before}");
        // A frozen node forgets nothing.
        let by_owner = granted_by_owner(&mixed_records, key);
        assert!(by_owner <= LIMIT, "{key}: {by_owner}");
        // Nor is a share given twice, whatever a call met at the thaw.
        let all = granted(&mixed_records, key, None);
        assert!(all <= LIMIT + 2 * SHARE, "{key}: {all}");
    }
    assert_untouched(&mixed_records, &[plain[A].as_slice(), &plain[C]].concat());
    assert!(healthy.answers().all(|(_, answer, _)| !answer.degraded));
    let last = last_degraded(&mixed_records).expect("nobody answered in its stead");
    assert!(last < thawed + HEALED, "still degraded {:?} after the thaw", last - thawed);
    for record in &mixed_records {
        let slowest = record.slowest(frozen + BYPASSED);
        assert!(slowest <= HEALTHY, "{slowest:?}, though the owner was known to be frozen");
    }
    let slowest = healthy.slowest(frozen);
    assert!(slowest <= HEALTHY, "a call to healthy owners took {slowest:?}");
    let slowest = global.slowest(frozen);
    assert!(slowest <= GLOBAL, "a GLOBAL answer took {slowest:?}");
}

/// P22: a node is asked to end under load. Clients of the others see no error, what clients of its own were granted of
/// GLOBAL limits still reaches the owners, and nobody dials it once it is off the list.
#[test]
fn p22_a_graceful_stop_costs_nothing_and_is_not_dialled_again() {
    // Nothing but the flush at the stop delivers within the test's time.
    let plan = Plan::new(network::STOPPED, 3).watched().arguments(&["--global-sync-wait=60s"]);
    let mut cluster = plan.start().unwrap();
    let keys = cluster.keys_by_owner("failures", 8).unwrap();
    let plain = keys.iter().flat_map(|keys| &keys[..7]);
    let items: Vec<Item> = plain.map(|key| Item::new("failures", key, 1_000_000)).collect();
    let load = load(&cluster, &items);
    load.iter().for_each(|load| load.let_pass(20));
    let global = [A, C].map(|owner| Item::new("failures", &keys[owner][7], 1_000).behavior(flag::GLOBAL));
    let hits: Vec<Item> = global.iter().map(|item| item.clone().hits(7)).collect();
    for answer in cluster.node(B).ask(&hits).unwrap() {
        assert!(answer.is_grant(), "{answer:?}");
    }

    let asked = Instant::now();
    cluster.terminate(B).unwrap();
    let status = cluster.ended(B).unwrap();
    assert!(status.success(), "{status}\n{}", cluster.node(B).log());
    // `shutdown.timeout`.
    assert!(asked.elapsed() < Duration::from_secs(10), "the stop took {:?}", asked.elapsed());
    for (item, owner) in global.iter().zip([A, C]) {
        let answers = cluster.node(owner).ask(&[item.clone().hits(0)]).unwrap();
        assert_eq!(answers[0].remaining, 993, "of {} on node {owner}\n{}", item.key, cluster.logs());
    }
    load.iter().for_each(|load| load.let_pass(20));
    cluster.write_peers(&[A, C]).unwrap();
    for node in [A, C] {
        cluster.wait_until_healthy(node, 2, HEALED).unwrap();
    }
    // Whoever dials the old address now is heard.
    let listener = TcpListener::bind(cluster.node(B).grpc()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + HEALED;
    let dialled = poll(HEALED, || listener.accept().ok());
    assert!(Instant::now() >= end && dialled.is_none(), "somebody dialled: {dialled:?}\n{}", cluster.logs());
    for node in [A, C] {
        assert_eq!(cluster.node(node).connections_to(cluster.node(B).grpc()).unwrap(), 0);
    }
    for record in load.map(Load::stop) {
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
        assert!(record.calls.len() > 100, "{} calls", record.calls.len());
    }
}

/// Each node in turn is stopped and started again while clients ask through the two others: no error, and keys of the
/// nodes that stay keep their counts.
#[test]
fn a_rolling_restart_costs_no_client_an_error() {
    let mut cluster = Plan::new(network::ROLLING, 3).patient().start().unwrap();
    let keys = cluster.keys_by_owner("failures", 12).unwrap();
    for leaving in [A, B, C] {
        // Fresh ones for each round.
        let keys: Vec<Vec<String>> =
            keys.iter().map(|keys| keys[4 * leaving..4 * leaving + 4].to_vec()).collect();
        let items = mixed(&keys);
        let staying: Vec<usize> = [A, B, C].into_iter().filter(|node| *node != leaving).collect();
        let load: Vec<Load> =
            staying.iter().map(|&node| Load::on(cluster.node(node).http(), items.clone(), 5)).collect();
        load.iter().for_each(|load| load.let_pass(10));
        cluster.terminate(leaving).unwrap();
        let status = cluster.ended(leaving).unwrap();
        assert!(status.success(), "{status}\n{}", cluster.node(leaving).log());
        load.iter().for_each(|load| load.let_pass(50));
        cluster.returns(leaving, HEALED);
        load.iter().for_each(|load| load.let_pass(50));
        let records: Vec<Record> = load.into_iter().map(Load::stop).collect();
        for record in &records {
            assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
        }
        for &node in &staying {
            assert_untouched(&records, &keys[node]);
        }
        for key in &keys[leaving] {
            let all = granted(&records, key, None);
            assert!((LIMIT..=2 * LIMIT + 2 * SHARE).contains(&all), "{key}: {all}");
        }
    }
}
