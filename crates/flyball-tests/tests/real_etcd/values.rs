//! Keys that are nobody's.

use std::time::Duration;

use flyball_tests::etcd::Etcd;
use flyball_tests::wait::poll;

use crate::{SOON, is_soon_failing, load, network, nothing_failed, plan};

/// Half-written values, jokes, repetitions and a thousand strangers: each is named or ignored, the good ones count, and
/// the ring of those who are there works on.
#[test]
fn whatever_is_written_under_the_prefix() {
    let etcd = Etcd::prepare(network::VALUES, 1).unwrap().start().unwrap();
    let mut cluster = plan(network::VALUES, 3, &etcd).start().unwrap();
    let all = [0, 1, 2];
    let loads = load(&cluster, &all);
    let prefix = "/gubernator-peers";
    for (key, value) in [
        ("-half", r#"{"data-center":"","http-addr"#),
        ("-joke", "what a lovely day"),
        ("-anybody", "0.0.0.0:1051"),
        ("-empty", ""),
        ("-long", &"x".repeat(100_000)),
        // Known already, under another key and in the old form.
        ("-again", &cluster.node(1).grpc().to_string()),
    ] {
        etcd.put(&format!("{prefix}{key}"), value).unwrap();
    }
    is_soon_failing(&cluster, 0, true, SOON);
    cluster.all_know(&all, 3, SOON);
    let log = cluster.node(0).log();
    assert!(log.contains("left out: key '/gubernator-peers-anybody' names the peer '0.0.0.0:1051'"), "{log}");
    loads.iter().for_each(|load| load.let_pass(20));
    nothing_failed(&cluster, loads);
    for key in ["-half", "-joke", "-anybody", "-empty", "-long", "-again"] {
        etcd.delete(&format!("{prefix}{key}")).unwrap();
    }
    is_soon_failing(&cluster, 0, false, SOON);

    // A thousand peers that nobody can reach are taken, and taken away again.
    let stranger = |n: usize| format!("10.{}.{}.1:1051", n / 200, n % 200);
    for n in 0..1_000 {
        etcd.put(&format!("{prefix}{}", stranger(n)), &stranger(n)).unwrap();
    }
    let count = |count: f64| {
        poll(Duration::from_secs(20), || {
            let peers = cluster.node(0).metric("flyball_discovery_peers{source=\"etcd\"}").ok()?;
            ((peers - count).abs() < 0.5).then_some(())
        })
    };
    assert!(count(1_003.0).is_some(), "{}", cluster.node(0).log().len());
    for n in 0..1_000 {
        etcd.delete(&format!("{prefix}{}", stranger(n))).unwrap();
    }
    assert!(count(3.0).is_some());
    cluster.all_know(&all, 3, Duration::from_secs(20));
}
