//! What may happen to etcd. No request fails meanwhile, the ring stays, and ten seconds after etcd is well again every
//! node knows who there is.

use std::time::{Duration, Instant};

use flyball_tests::etcd::Etcd;
use flyball_tests::wait::{poll, sleep_ms};

use crate::{RECOVERED, SOON, all_agree, is_failing, is_soon_failing, load, network, nothing_failed, plan};

/// A watch that cannot catch up, because what it has to read is gone, is begun anew.
#[test]
fn compaction_past_the_revision_that_is_watched() {
    let etcd = Etcd::prepare(network::COMPACTION, 1).unwrap().start().unwrap();
    let mut cluster = plan(network::COMPACTION, 3, &etcd).prepare().unwrap();
    cluster.start_again(0).unwrap();
    cluster.start_again(1).unwrap();
    cluster.all_know(&[0, 1], 2, Duration::from_secs(20));
    cluster.freeze(0).unwrap();
    // More than buffers hold, about a peer that exists already.
    let own = cluster.node(1).grpc();
    let padded = format!(r#"{{"grpc-address":"{own}","pad":"{}"}}"#, "x".repeat(3_500));
    let mut revision = 0;
    for _ in 0..3_000 {
        revision = etcd.put(&format!("/gubernator-peers{own}-again"), &padded).unwrap();
    }
    etcd.delete(&format!("/gubernator-peers{own}-again")).unwrap();
    etcd.compact(revision).unwrap();
    cluster.thaw(0).unwrap();
    cluster.start_again(2).unwrap();
    cluster.all_know(&[0, 1, 2], 3, RECOVERED);
    all_agree(&cluster, &[0, 1, 2]);
}

/// All leases are taken away, one after the other, and the keys with them. Every node writes its own again at once.
#[test]
fn all_leases_are_revoked() {
    let etcd = Etcd::prepare(network::REVOKED, 3).unwrap().start().unwrap();
    let mut cluster = plan(network::REVOKED, 4, &etcd).start().unwrap();
    let all = [0, 1, 2, 3];
    let loads = load(&cluster, &all);
    loads.iter().for_each(|load| load.let_pass(5));
    for _ in 0..3 {
        assert_eq!(etcd.revoke_all().unwrap(), 4);
        let revoked = Instant::now();
        let back = poll(RECOVERED, || (etcd.leases().unwrap() == 4).then_some(()));
        assert!(back.is_some(), "not all have come back\n{}", cluster.logs());
        println!("all keys were back after {:?}", revoked.elapsed());
        cluster.all_know(&all, 4, SOON);
        loads.iter().for_each(|load| load.let_pass(10));
    }
    nothing_failed(&cluster, loads);
}

/// Each member dies once, the leader among them, and comes back. Changes are heard all the same.
#[test]
fn each_member_dies_once() {
    let mut etcd = Etcd::prepare(network::MEMBERS, 3).unwrap().start().unwrap();
    let mut cluster = plan(network::MEMBERS, 4, &etcd).prepare().unwrap();
    for node in 0..3 {
        cluster.start_again(node).unwrap();
    }
    cluster.all_know(&[0, 1, 2], 3, Duration::from_secs(20));
    let loads = load(&cluster, &[0, 1, 2]);
    for member in 0..3 {
        etcd.kill(member).unwrap();
        cluster.start_again(3).unwrap();
        cluster.all_know(&[0, 1, 2, 3], 4, RECOVERED);
        etcd.start_all().unwrap();
        cluster.terminate(3).unwrap();
        cluster.ended(3).unwrap();
        cluster.all_know(&[0, 1, 2], 3, RECOVERED);
    }
    nothing_failed(&cluster, loads);
}

/// A member that is frozen answers nothing and closes nothing; whoever watches by it notices.
#[test]
fn a_frozen_member_is_noticed() {
    let etcd = Etcd::prepare(network::FROZEN, 3).unwrap().start().unwrap();
    let mut cluster = plan(network::FROZEN, 5, &etcd).prepare().unwrap();
    for node in 0..4 {
        cluster.start_again(node).unwrap();
    }
    cluster.all_know(&[0, 1, 2, 3], 4, Duration::from_secs(20));
    etcd.freeze(1).unwrap();
    cluster.start_again(4).unwrap();
    // A ping each six seconds, and three for its answer.
    cluster.all_know(&[0, 1, 2, 3, 4], 5, Duration::from_secs(15));
    etcd.thaw(1).unwrap();
}

/// Two of three members are away for forty seconds, which is longer than a lease lives. One more node comes up
/// meanwhile.
#[test]
fn forty_seconds_without_a_leader() {
    let mut etcd = Etcd::prepare(network::LEADERLESS, 3).unwrap().start().unwrap();
    let mut cluster = plan(network::LEADERLESS, 4, &etcd).prepare().unwrap();
    for node in 0..3 {
        cluster.start_again(node).unwrap();
    }
    cluster.all_know(&[0, 1, 2], 3, Duration::from_secs(20));
    let loads = load(&cluster, &[0, 1, 2]);
    etcd.kill(0).unwrap();
    etcd.kill(2).unwrap();
    let until = Instant::now() + Duration::from_secs(40);
    sleep_ms(5_000);
    cluster.start_again(3).unwrap();
    while Instant::now() < until {
        // The last good set serves.
        cluster.all_know(&[0, 1, 2], 3, Duration::from_secs(1));
        sleep_ms(500);
    }
    for node in 0..3 {
        assert!(is_failing(&cluster, node), "{}", cluster.logs());
        let told = cluster.node(node).log().matches("the peers stay as they were").count();
        assert!((1..=6).contains(&told), "{told} lines\n{}", cluster.node(node).log());
    }
    let (status, said) = cluster.node(3).said().unwrap();
    assert!(status == 503 && said.contains("no peers yet: etcd: "), "{said}");

    etcd.start_all().unwrap();
    let well = Instant::now();
    cluster.all_know(&[0, 1, 2, 3], 4, RECOVERED);
    println!("everybody knew everybody {:?} after etcd was well", well.elapsed());
    all_agree(&cluster, &[0, 1, 2, 3]);
    nothing_failed(&cluster, loads);
    is_soon_failing(&cluster, 0, false, SOON);
}

/// etcd comes back without its data. Every node writes its key again, and nobody was ever alone.
#[test]
fn etcd_loses_its_data() {
    let mut etcd = Etcd::prepare(network::WIPED, 1).unwrap().start().unwrap();
    let mut cluster = plan(network::WIPED, 4, &etcd).start().unwrap();
    let all = [0, 1, 2, 3];
    let loads = load(&cluster, &all);
    for _ in 0..3 {
        etcd.kill(0).unwrap();
        etcd.wipe(0).unwrap();
        sleep_ms(3_000);
        etcd.start_all().unwrap();
        let back = poll(RECOVERED, || (etcd.leases().unwrap() == 4).then_some(()));
        assert!(back.is_some(), "not all have come back\n{}", cluster.logs());
        cluster.all_know(&all, 4, SOON);
    }
    nothing_failed(&cluster, loads);
    for node in cluster.nodes() {
        // While they started there were up to four sets; since then there was one.
        let fewer = node.log().matches("before=4 now=").count();
        assert_eq!(fewer, 0, "{fewer} sets were believed\n{}", node.log());
    }
}

/// A node that starts before etcd does answers, says what is missing, and finds the others when etcd is there.
#[test]
fn nodes_start_before_etcd() {
    let etcd = Etcd::prepare(network::LATE, 1).unwrap();
    let mut cluster = plan(network::LATE, 2, &etcd).prepare().unwrap();
    cluster.start_again(0).unwrap();
    cluster.start_again(1).unwrap();
    let said = poll(Duration::from_secs(20), || {
        let (status, text) = cluster.node(0).said().ok()?;
        (status == 503 && text.contains("no peers yet: etcd: 127.40.68.1:2379: ")).then_some(text)
    });
    let said = said.unwrap_or_else(|| panic!("{}", cluster.logs()));
    assert!(said.contains("refused"), "{said}");
    // It answers all the same, by itself.
    let item = flyball_tests::cluster::Item::new("late", "k", 10);
    assert!(cluster.node(0).ask(&[item]).unwrap()[0].is_grant());
    sleep_ms(10_000);
    let _etcd = etcd.start().unwrap();
    cluster.all_know(&[0, 1], 2, RECOVERED);
    let lines = cluster.node(0).log().matches("no peers yet").count();
    assert!(lines <= 4, "{lines} lines\n{}", cluster.node(0).log());
}
