//! Originals beside: they read what ours write, and ours read what they write.

use flyball_tests::etcd::Etcd;

use crate::{RECOVERED, SOON, all_agree, network, plan};

#[test]
fn originals_and_ours_find_each_other() {
    let etcd = Etcd::prepare(network::MIXED, 3).unwrap().start().unwrap();
    let plan = plan(network::MIXED, 5, &etcd).originals(2).arguments(&["--semantics=gubernator"]);
    let mut cluster = plan.start().unwrap();
    let all = [0, 1, 2, 3, 4];
    all_agree(&cluster, &all);

    // One of ours leaves.
    cluster.terminate(2).unwrap();
    cluster.ended(2).unwrap();
    cluster.all_know(&[0, 1, 3, 4], 4, SOON);
    all_agree(&cluster, &[0, 1, 3, 4]);
    cluster.start_again(2).unwrap();
    cluster.all_know(&all, 5, SOON);

    // One of theirs does.
    cluster.terminate(4).unwrap();
    cluster.ended(4).unwrap();
    cluster.all_know(&[0, 1, 2, 3], 4, SOON);
    all_agree(&cluster, &[0, 1, 2, 3]);
    cluster.start_again(4).unwrap();
    cluster.all_know(&all, 5, RECOVERED);

    // All leases end. Theirs come back when they next look, ten seconds later at the latest.
    assert!(etcd.revoke_all().unwrap() >= 5);
    cluster.all_know(&all, 5, std::time::Duration::from_secs(20));
    all_agree(&cluster, &all);
}
