//! GLOBAL limits over real nodes: refused everywhere, refilled everywhere, at a cost that hits do not raise, and gone
//! from every memory.

use std::time::{Duration, Instant};

use flyball_tests::cluster::{Answer, Cluster, Item, Load, Plan, ask};
use flyball_tests::node::flag;
use flyball_tests::wait::{poll, sleep_ms, sleep_until_ms};

use crate::network;

const NODES: usize = 3;

fn global(key: &str, limit: i64) -> Item {
    Item::new("global", key, limit).behavior(flag::GLOBAL)
}

/// P18: whoever is asked, an exhausted key is refused once its news has gone round: of 30 requests that alternate
/// between two nodes no more than one for each node is let through, and none after the first second.
#[test]
fn p18_an_exhausted_key_is_refused_by_every_node() {
    let cluster = Plan::new(network::REFUSED_EVERYWHERE, 3).start().unwrap();
    let keys = cluster.keys_by_owner("global", 2).unwrap();
    // Of each owner, so that the nodes that are asked are owner and copy, copy and owner, and two copies.
    let items: Vec<Item> = keys
        .iter()
        .flat_map(|keys| [global(&keys[0], 1), global(&keys[1], 1).leaky()])
        .map(|item| item.duration(30_000))
        .collect();
    let mut connections = [cluster.node(0).connect(), cluster.node(1).connect()];
    let mut granted = vec![0; items.len()];
    let start = Instant::now();
    for round in 0..30 {
        let sent = start.elapsed();
        let answers = ask(&mut connections[round % 2], &items).unwrap();
        for (index, answer) in answers.iter().enumerate() {
            assert_eq!(answer.error, "");
            if answer.is_grant() {
                assert!(sent < Duration::from_secs(1), "{:?} granted after {sent:?}", items[index]);
                granted[index] += 1;
            }
        }
        // The report's own pace.
        sleep_ms(100);
    }
    for (item, granted) in items.iter().zip(granted) {
        assert!((1..=NODES).contains(&granted), "{item:?}: {granted}");
    }
}

/// P19: after the window every node has the full limit again, and within one window all of them say the same reset
/// time, to the millisecond.
#[test]
fn p19_a_window_ends_on_all_nodes_and_refills() {
    let cluster = Plan::new(network::REFILLED, 3).start().unwrap();
    let keys = cluster.keys_by_owner("global", 1).unwrap();
    for key in keys.iter().flatten() {
        let item = global(key, 5).duration(2_000);
        let look = item.clone().hits(0);
        let everywhere = |item: &Item| {
            let answers =
                cluster.nodes().iter().map(|node| node.ask(std::slice::from_ref(item)).unwrap().remove(0));
            answers.collect::<Vec<_>>()
        };
        for window in 0..2 {
            let first = cluster.node(0).ask(&vec![item.clone(); 5]).unwrap();
            assert!(first.iter().all(|answer| answer.is_grant()), "{key}, window {window}: {first:?}");
            // Before its first news a node counts by itself, so it is looked at, not asked.
            let agreed = |answers: &[Answer]| {
                let times = answers.iter().map(|answer| answer.reset_time);
                let apart = times.clone().max().unwrap() - times.min().unwrap();
                apart <= 1 && answers.iter().all(|answer| answer.remaining == 0)
            };
            let told = poll(Duration::from_secs(1), || agreed(&everywhere(&look)).then_some(()));
            assert!(told.is_some(), "{key}, window {window}: {:?}", everywhere(&look));
            let refused = everywhere(&item);
            assert!(refused.iter().all(|it| it.over_limit) && agreed(&refused), "{key}: {refused:?}");
            let reset = refused[0].reset_time;
            sleep_until_ms(reset + 200);
            let answers = everywhere(&look);
            for answer in &answers {
                assert!(
                    !answer.over_limit && answer.remaining == 5,
                    "{key} after window {window}: {answers:?}"
                );
            }
        }
    }
}

/// Lines and bytes of broadcasts that all nodes have sent.
fn told(cluster: &Cluster) -> (f64, f64) {
    let sum = |name: &str| cluster.nodes().iter().map(|node| node.metric(name).unwrap()).sum();
    (sum("flyball_global_told_keys_total"), sum("flyball_global_told_bytes_total"))
}

/// P20: broadcasts cost one line for each key, receiver and sync wait: the number of hits does not show.
#[test]
fn p20_broadcasts_do_not_grow_with_the_hits() {
    const KEYS: usize = 30;
    const WAIT: Duration = Duration::from_millis(100);
    let cluster = Plan::new(network::BROADCASTS, 3).start().unwrap();
    let measure = |name: &str, pause_ms: i64, seconds: u64| {
        let items: Vec<Item> = (0..KEYS).map(|n| global(&format!("{name}:{n}"), 1_000_000_000)).collect();
        let (start, before) = (Instant::now(), told(&cluster));
        let loads: Vec<Load> =
            cluster.nodes().iter().map(|node| Load::on(node.http(), items.clone(), pause_ms)).collect();
        let end = start + Duration::from_secs(seconds);
        while Instant::now() < end {
            loads[0].let_pass(1);
        }
        let hits: usize = loads.into_iter().map(|load| load.stop().calls.len() * KEYS).sum();
        // What is still under way.
        let mut after = told(&cluster);
        let calm = poll(Duration::from_secs(5), || {
            let last = std::mem::replace(&mut after, told(&cluster));
            sleep_ms(300);
            (told(&cluster) == last).then_some(())
        });
        assert!(calm.is_some(), "nobody asks, and they still talk");
        let waits = start.elapsed().as_secs_f64() / WAIT.as_secs_f64();
        (hits as f64, (after.0 - before.0) / waits, (after.1 - before.1) / waits)
    };
    let (few, few_lines, few_bytes) = measure("few", 50, 4);
    let (many, many_lines, many_bytes) = measure("many", 1, 4);
    assert!(many > 4.0 * few, "{few} and {many} hits: the load did not grow");
    let most = (KEYS * (NODES - 1)) as f64;
    // An owner is told of a key's hits by two nodes at two moments of a wait, and may tell of each.
    for lines in [few_lines, many_lines] {
        assert!(lines > 0.0 && lines <= 2.0 * most, "{lines} lines a wait, {most} were enough");
    }
    assert!(many_lines < 2.0 * few_lines, "{few} hits: {few_lines} lines a wait; {many} hits: {many_lines}");
    assert!(many_bytes < 2.0 * few_bytes, "{few} hits: {few_bytes} bytes a wait; {many} hits: {many_bytes}");
}

/// P20: of twenty nodes each hears of each key once a wait, however often that is hit, and all agree in the end.
#[test]
fn p20_twenty_nodes_hear_of_a_key_once_a_wait() {
    const MANY: u8 = 20;
    const KEYS: usize = 5;
    const LIMIT: i64 = 1_000_000_000;
    const WAIT: Duration = Duration::from_millis(500);
    let cluster =
        Plan::new(network::TWENTY, MANY).patient().arguments(&["--global-sync-wait=500ms"]).start().unwrap();
    let items: Vec<Item> = (0..KEYS).map(|n| global(&format!("{n}-twenty"), LIMIT)).collect();
    let (start, before) = (Instant::now(), told(&cluster));
    let loads: Vec<Load> =
        cluster.nodes()[..2].iter().map(|node| Load::on(node.http(), items.clone(), 2)).collect();
    while start.elapsed() < 6 * WAIT {
        loads[0].let_pass(1);
    }
    let hits: usize = loads.into_iter().map(|load| load.stop().calls.len()).sum();
    let look: Vec<Item> = items.iter().map(|item| item.clone().hits(0)).collect();
    let left = LIMIT - i64::try_from(hits).unwrap();
    let agreed = |node: &flyball_tests::cluster::Member| {
        let answers = node.ask(&look).unwrap();
        answers.iter().all(|answer| answer.remaining == left)
    };
    let all = poll(Duration::from_secs(10), || cluster.nodes().iter().all(agreed).then_some(()));
    assert!(all.is_some(), "{hits} hits a key are not known everywhere");
    let waits = start.elapsed().as_secs_f64() / WAIT.as_secs_f64();
    let lines = (told(&cluster).0 - before.0) / waits;
    let most = (KEYS * usize::from(MANY - 1)) as f64;
    // As above: two nodes tell the owner of hits, each at its own moment.
    assert!(lines > 0.0 && lines <= 2.0 * most, "{lines} lines a wait, {most} were enough");
}

/// P40: 5000 keys of a second, plain and GLOBAL, asked on every node, leave the memory of owners and copies.
#[test]
fn p40_expired_keys_leave_the_memory_of_every_node() {
    const KEYS: usize = 5_000;
    let cluster = Plan::new(network::EXPIRED, 3).start().unwrap();
    let size = || -> Vec<f64> {
        cluster.nodes().iter().map(|node| node.metric("gubernator_cache_size").unwrap()).collect()
    };
    let mut most = [0.0_f64; NODES];
    for first in (0..KEYS).step_by(500) {
        for behavior in [0, flag::GLOBAL] {
            let items: Vec<Item> = (first..first + 500)
                .map(|n| {
                    Item::new("global", &format!("{behavior}:{n}"), 10).duration(1_000).behavior(behavior)
                })
                .collect();
            for node in cluster.nodes() {
                assert!(node.ask(&items).unwrap().iter().all(|answer| answer.is_grant()));
            }
        }
        for (most, size) in most.iter_mut().zip(size()) {
            *most = most.max(size);
        }
    }
    assert!(most.iter().all(|most| *most > 500.0), "{most:?}");
    // Dead at once, out of memory by the tolerance for clocks and a second, and a sweep.
    let gone = poll(Duration::from_secs(10), || size().iter().all(|size| *size < 50.0).then_some(()));
    assert!(gone.is_some(), "{:?} of {most:?}", size());
}
