//! A running cluster of originals is replaced by ours node by node, under the steady load of an original client, in all
//! six orders, and back. Beside it, in the same run, originals are restarted one by one.
//!
//! After each step all nodes agree on the owners of 2 000 keys, keys whose owner stayed have their counts, and a GLOBAL
//! key that is used up is refused everywhere. No call fails by our fault: none that one of ours answered, and none
//! while one of ours stops.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod cluster;
mod load;

use std::sync::Mutex;
use std::time::Duration;

use cluster::{Cluster, Kind};
use flyball_tests::wait::{poll, sleep_ms};
use load::Load;
use serde_json::{Value, json};

const CALLS_PER_SECOND: u32 = 200;
/// Asked at the same time, each with a cluster of its own.
const LANES: usize = 2;
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
const KEYS: usize = 2000;
/// A GLOBAL key that is used up is refused by everybody by then.
const CONVERGED: Duration = Duration::from_secs(10);
/// Load before, between and after the steps, ms.
const STEADY: i64 = 500;
const HOUR: i64 = 3_600_000;

/// One step of a run.
#[derive(Clone, Debug)]
struct Step {
    stopped: Kind,
    started: Kind,
    calls: u64,
    failed: u64,
    degraded: u64,
    /// Of the failed, those that one of ours answered.
    by_ours: u64,
    kept: usize,
    texts: Vec<String>,
}

impl Step {
    /// Failures that are our fault.
    fn ours(&self) -> u64 {
        if self.stopped == Kind::Flyball { self.failed } else { self.by_ours }
    }
}

struct Run {
    cluster: Cluster,
    load: Load,
    keys: Vec<String>,
    /// So many are done.
    steps: usize,
}

impl Run {
    fn start(network: u8) -> Self {
        let cluster = Cluster::start(network);
        let load = Load::start(CALLS_PER_SECOND, &cluster.addresses());
        // The first bytes differ: the ring's hash hardly mixes the last ones.
        let keys = (0..KEYS).map(|number| format!("{number}-migration")).collect();
        Self { cluster, load, keys, steps: 0 }
    }

    /// Replaces one node and looks at everything that must hold.
    fn step(&mut self, place: usize, kind: Kind) -> Step {
        let stopped = self.cluster.nodes[place].kind;
        let leaving = self.cluster.nodes[place].address.clone();
        let before = self.cluster.owners(&self.keys, look);
        let staying: Vec<_> =
            self.keys.iter().filter(|key| before[*key] != leaving).step_by(20).cloned().collect();
        let asked = (place + 1) % 3;
        // Hits on keys that keep their owner; a GLOBAL key is used up at its owner, which stays too.
        let hits: Vec<_> = staying.iter().map(|key| with_hits(look(key), 1)).collect();
        self.cluster.nodes[asked].ask(&hits);
        let global = self.global_key(asked);
        self.refused_everywhere(&global);
        let counts = |run: &Self| -> Vec<Value> {
            let looks: Vec<_> = staying.iter().map(look).collect();
            run.cluster.nodes[asked].ask(&looks).iter().map(|answer| answer["remaining"].clone()).collect()
        };
        let counted = counts(self);

        sleep_ms(STEADY);
        let steady = self.load.report();
        assert_eq!(steady.failed, 0, "between the steps: {:?}", steady.texts());
        self.cluster.replace(place, kind);
        sleep_ms(STEADY);
        let tally = self.load.report();
        assert_eq!(tally.granted + tally.failed, tally.calls, "a call is granted or it failed");

        assert_eq!(self.cluster.owners(&self.keys, look), before, "an owner changed");
        assert_eq!(counts(self), counted, "counts of keys whose owner stayed");
        self.refused_everywhere(&global);
        self.steps += 1;
        let ours: Vec<_> = self.cluster.nodes.iter().filter(|node| node.kind == Kind::Flyball).collect();
        let ours: Vec<_> = ours.iter().map(|node| node.address.as_str()).collect();
        Step {
            stopped,
            started: kind,
            calls: tally.calls,
            failed: tally.failed,
            degraded: tally.degraded,
            by_ours: tally.failed_by(&ours),
            kept: counted.len(),
            texts: tally.texts().into_iter().map(|(text, count)| format!("{count} x {text}")).collect(),
        }
    }

    /// One hit on a fresh GLOBAL key that this node owns.
    fn global_key(&self, owner: usize) -> Value {
        let step = self.steps;
        let keys: Vec<_> = (0..100).map(|number| format!("{number}-global-{step}")).collect();
        let hit = |key: &String| {
            json!({ "name": "global", "unique_key": key, "hits": 1, "limit": 5, "duration": HOUR,
                    "behavior": "GLOBAL" })
        };
        // The shortest of lives, so that nothing is left of the question.
        let look = |key: &String| json!({ "name": "global", "unique_key": key, "limit": 5, "duration": 1 });
        let owners = self.cluster.owners(&keys, look);
        sleep_ms(5);
        let found = keys.iter().find(|key| owners[*key] == self.cluster.nodes[owner].address);
        hit(found.expect("of a hundred keys each node owns some"))
    }

    /// Every node refuses this key from some moment on, and none grants more than its limit until then.
    fn refused_everywhere(&self, global: &Value) {
        for node in &self.cluster.nodes {
            let mut granted = 0;
            let refused = poll(CONVERGED, || {
                let answer = node.ask(std::slice::from_ref(global)).remove(0);
                granted += i32::from(answer["status"] == "UNDER_LIMIT" && answer["error"] == "");
                (answer["status"] == "OVER_LIMIT").then_some(())
            });
            assert!(refused.is_some(), "{node} still grants {global}");
            assert!(granted <= 5, "{node} granted {granted} of {global}");
        }
    }
}

/// Looks at a key whose counts are compared.
fn look(key: &String) -> Value {
    json!({ "name": "kept", "unique_key": key, "hits": 0, "limit": 1000, "duration": HOUR })
}

fn with_hits(mut item: Value, hits: i64) -> Value {
    item["hits"] = hits.into();
    item
}

/// All steps of one order: there and back.
fn migrate(network: u8, order: [usize; 3]) -> Vec<Step> {
    let mut run = Run::start(network);
    let there = order.map(|place| (place, Kind::Flyball));
    let back = order.map(|place| (place, Kind::Original));
    there.into_iter().chain(back).map(|(place, kind)| run.step(place, kind)).collect()
}

/// Originals restarted one by one, twice.
fn restart(network: u8) -> Vec<Step> {
    let mut run = Run::start(network);
    [0, 1, 2, 0, 1, 2].map(|place| run.step(place, Kind::Original)).to_vec()
}

#[test]
fn originals_are_replaced_in_every_order_and_back() {
    let jobs: Vec<Option<[usize; 3]>> = std::iter::once(None).chain(ORDERS.map(Some)).collect();
    let next = Mutex::new(0);
    let done = Mutex::new(vec![Vec::new(); jobs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let job = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        *next - 1
                    };
                    let Some(&order) = jobs.get(job) else { return };
                    let network = u8::try_from(job + 1).unwrap();
                    let steps = order.map_or_else(|| restart(network), |order| migrate(network, order));
                    done.lock().unwrap()[job] = steps;
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    println!(
        "| run | step | calls | failed | by ours | from shares | counts kept |\n|---|---|---|---|---|---|---|"
    );
    for (order, steps) in jobs.iter().zip(&done) {
        let run = order.map_or_else(
            || "originals restarted".to_owned(),
            |order| order.map(|place| ["A", "B", "C"][place]).join(" "),
        );
        for step in steps {
            println!(
                "| {run} | {:?} → {:?} | {} | {} | {} | {} | {} |",
                step.stopped,
                step.started,
                step.calls,
                step.failed,
                step.ours(),
                step.degraded,
                step.kept
            );
            step.texts.iter().for_each(|text| println!("<!-- {text} -->"));
        }
    }
    let failed = |steps: &[Step]| steps.iter().map(|step| step.failed).sum::<u64>();
    let restarts = failed(&done[0]);
    for (order, steps) in jobs.iter().zip(&done).skip(1) {
        let ours: u64 = steps.iter().map(Step::ours).sum();
        assert_eq!(ours, 0, "{order:?}: {steps:#?}");
    }
    // Six orders there and back, against as many restarts of originals.
    let migrations: u64 = done[1..].iter().map(|steps| failed(steps)).sum();
    assert!(migrations <= restarts * 6, "{migrations} failures in six migrations, {restarts} in one restart");
}
