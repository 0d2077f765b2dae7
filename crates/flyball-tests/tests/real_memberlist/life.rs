//! Six nodes from their start to their end, three of each kind.

use std::time::{Duration, Instant};

use super::nodes::{Cluster, FORMED, Kind, Plan, SIX};

const S: fn(u64) -> Duration = Duration::from_secs;

/// A leave is heard within this time.
const LEAVE: Duration = Duration::from_secs(1);

/// What asking five nodes over HTTP may take, beside the time that is measured.
const ASKING: Duration = Duration::from_millis(500);

/// More than death takes with the timing of wide networks: finding out, which takes the longer the more are dead, and
/// half a minute to defend oneself.
const DEATH: Duration = Duration::from_secs(150);

#[test]
fn without_encryption() {
    life(Plan { network: 1, ..Plan::default() });
}

#[test]
fn with_encryption() {
    // The second key is one that is to replace the first.
    let keys = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=,MDEyMzQ1Njc4OWFiY2RlZg==";
    life(Plan { network: 2, keys: Some(keys), ..Plan::default() });
}

fn life(plan: Plan) {
    let mut cluster = plan.start(&SIX);
    cluster.agree(&cluster.all());
    for gone in [5, 4] {
        leave(&mut cluster, gone);
    }
    for back in [4, 5] {
        cluster.nodes[back].start_again();
    }
    cluster.wait(FORMED, &cluster.all());
    cluster.agree(&cluster.all());
    kill(&mut cluster, &[2, 3]);
    for back in [2, 3] {
        cluster.nodes[back].start_again();
    }
    cluster.wait(FORMED, &cluster.all());
    cluster.agree(&cluster.all());
    killed_and_back_at_once(&mut cluster, &[4, 5]);
}

/// P22, P21: who is asked to end says so, and that is taken up at once, any number of times.
fn leave(cluster: &mut Cluster, gone: usize) {
    cluster.nodes[gone].end();
    let begun = Instant::now();
    let left = cluster.without(&if gone == 5 { vec![5] } else { vec![4, 5] });
    let took = cluster.wait(S(10), &left);
    println!("{} has left: {took:?}", cluster.nodes[gone].name);
    // The original tells in its next rounds of gossip; ours at once.
    assert!(took.values().all(|took| *took <= LEAVE + ASKING), "{took:?}, {:?}", begun.elapsed());
    cluster.nodes[gone].ended();
    cluster.agree(&left);
}

/// One of each kind at once: ours find out no later than the originals do.
fn kill(cluster: &mut Cluster, gone: &[usize]) {
    for place in gone {
        cluster.nodes[*place].kill();
    }
    let left = cluster.without(gone);
    let took = cluster.wait(DEATH, &left);
    let (originals, ours) = cluster.slowest(&took);
    println!("two were killed: originals {originals:?}, ours {ours:?}");
    assert!(ours >= S(25), "nobody is dead before the time to defend itself is over: {took:?}");
    assert!(ours <= originals + S(2), "originals {originals:?}, ours {ours:?}");
    cluster.agree(&left);
}

/// Back under the same name before anybody has found out: it is never missed for long, and stays.
fn killed_and_back_at_once(cluster: &mut Cluster, places: &[usize]) {
    for place in places {
        cluster.nodes[*place].kill();
        cluster.nodes[*place].start_again();
    }
    cluster.wait(S(20), &cluster.all());
    cluster.agree(&cluster.all());
    assert!(places.iter().any(|place| cluster.nodes[*place].kind == Kind::Ours));
}
