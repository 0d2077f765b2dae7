//! Nodes that come, go and die.

use std::time::{Duration, Instant};

use flyball_tests::etcd::Etcd;
use flyball_tests::tools::Tool;
use flyball_tests::wait::sleep_ms;

use crate::{SOON, all_agree, load, network, nothing_failed, plan};

/// A lease lives 30 s, and etcd looks for dead ones now and then.
const DEAD_IS_GONE: Duration = Duration::from_secs(45);

/// A node that joins is known at once, one that stops is gone before it closes its port, and one that is killed is gone
/// when its lease ends.
#[test]
fn joins_leaves_and_deaths() {
    let etcd = Etcd::prepare(network::CHANGES, 3).unwrap().start().unwrap();
    let mut cluster = plan(network::CHANGES, 4, &etcd).prepare().unwrap();
    for node in 0..3 {
        cluster.start_again(node).unwrap();
    }
    cluster.all_know(&[0, 1, 2], 3, Duration::from_secs(20));
    all_agree(&cluster, &[0, 1, 2]);

    let loads = load(&cluster, &[0, 1, 2]);
    cluster.start_again(3).unwrap();
    cluster.all_know(&[0, 1, 2, 3], 4, SOON);
    all_agree(&cluster, &[0, 1, 2, 3]);
    let asked = Instant::now();
    cluster.terminate(3).unwrap();
    assert!(cluster.ended(3).unwrap().success(), "{}", cluster.node(3).log());
    println!("a leave took {:?}", asked.elapsed());
    cluster.all_know(&[0, 1, 2], 3, SOON);
    loads.iter().for_each(|load| load.let_pass(10));
    nothing_failed(&cluster, loads);

    let killed = Instant::now();
    cluster.kill(2).unwrap();
    // Until the lease ends it is a peer that is down.
    cluster.all_know(&[0, 1], 2, DEAD_IS_GONE);
    println!("a death was known after {:?}", killed.elapsed());
}

/// A node that is restarted under its address keeps its key, although its first life's lease ends later; and a node that
/// stops late does not take the key of its successor with it.
#[test]
fn a_successor_keeps_the_key() {
    let etcd = Etcd::prepare(network::SUCCESSOR, 1).unwrap().start().unwrap();
    let mut cluster = plan(network::SUCCESSOR, 2, &etcd).start().unwrap();
    cluster.kill(1).unwrap();
    cluster.start_again(1).unwrap();
    cluster.all_know(&[0, 1], 2, Duration::from_secs(20));
    let until = Instant::now() + Duration::from_secs(36);
    while Instant::now() < until {
        // The lease of the first life ends somewhere in here.
        cluster.all_know(&[0, 1], 2, Duration::from_secs(2));
        sleep_ms(200);
    }
}

/// The etcd that distributions have does it too.
#[test]
fn an_old_etcd_will_do() {
    let etcd = Etcd::prepare(network::OLD, 1).unwrap().program(Tool::EtcdOld).start().unwrap();
    let mut cluster = plan(network::OLD, 2, &etcd).start().unwrap();
    cluster.terminate(1).unwrap();
    cluster.ended(1).unwrap();
    cluster.all_know(&[0], 1, SOON);
}
