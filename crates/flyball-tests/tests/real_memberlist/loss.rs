//! A fifth of all packets lost.

use std::time::{Duration, Instant};

use flyball_tests::wait::sleep_ms;

use super::nodes::{Plan, SIX, at};
use super::relay::Relays;

/// How long nobody may be missed.
const WATCHED: Duration = Duration::from_secs(45);

#[test]
fn a_fifth_of_all_packets_lost() {
    let network = 3;
    // Each relay has an address of its own, since originals go by that.
    let relays: Vec<_> = (0..SIX.len()).map(|place| at(network, place + 100, 7946)).collect();
    let pairs: Vec<_> = (0..SIX.len()).map(|place| (relays[place], at(network, place, 7946))).collect();
    let relay = Relays::start(&pairs, 20);
    let mut cluster = Plan { network, relays, ..Plan::default() }.start(&SIX);
    cluster.agree(&cluster.all());
    let begun = Instant::now();
    while begun.elapsed() < WATCHED {
        for node in &cluster.nodes {
            assert_eq!(node.peers(), Some(6), "{} ({:?}) misses one:\n{}", node.name, node.kind, node.log());
        }
        sleep_ms(500);
    }
    let (came, dropped) = relay.counts();
    println!("{dropped} of {came} packets were dropped");
    assert!(came > 100 && (15..=25).contains(&(dropped * 100 / came)), "{dropped} of {came}");
    // A leave is said several times, and passed on.
    cluster.nodes[5].end();
    let left = cluster.without(&[5]);
    let took = cluster.wait(Duration::from_secs(10), &left);
    println!("it has left: {took:?}");
    assert!(took.values().all(|took| *took <= Duration::from_millis(1_500)), "{took:?}");
    cluster.nodes[5].ended();
    // The dead are found, too.
    cluster.nodes[3].kill();
    let left = cluster.without(&[3, 5]);
    let took = cluster.wait(Duration::from_secs(120), &left);
    let (originals, ours) = cluster.slowest(&took);
    println!("one was killed: originals {originals:?}, ours {ours:?}");
    cluster.nodes[3].start_again();
    let left = cluster.without(&[5]);
    cluster.wait(Duration::from_secs(180), &left);
    cluster.agree(&left);
}
