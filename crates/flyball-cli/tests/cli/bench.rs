//! `flyball bench` against a real node. What it measures is not tested, only that it measures.

use rustix::process::Signal;
use serde_json::Value;

use super::support::{Node, Running, deserted, flyball, run};

/// A short run: 300 calls that ask for each of 5 keys in turn, one unit an hour for each.
const SHORT: &str = "bench --json --requests 300 --warmup 0s --concurrency 4 --keys 5 --sequential --limit 1 \
                     --duration 1h --timeout 30s";

fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"))
}

fn assert_short(report: &Value, batch: u64) {
    assert_eq!(number(report, "calls"), 300, "{report}");
    assert_eq!(number(report, "decisions"), 300 * batch, "{report}");
    assert_eq!(number(report, "over_limit"), 300 * batch - 5, "{report}");
    assert_eq!((number(report, "failed_calls"), number(report, "failed_items")), (0, 0), "{report}");
    assert_eq!((&report["errors"], number(report, "unsent")), (&serde_json::json!({}), 0), "{report}");
    let latency = ["p50", "p90", "p99", "p99.9", "max"].map(|name| number(&report["latency_us"], name));
    assert!(latency.is_sorted() && latency[0] > 0, "{report}");
    assert!(report["calls_per_s"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn every_protocol_and_loop_asks_what_it_was_told_to() {
    for (address, args, batch) in [
        ("grpc", "", 1),
        ("grpc", "--batch 100 --connections 2", 100),
        ("grpc", "--rate 3000", 1),
        ("http", "--protocol http", 1),
        ("http", "--protocol http --batch 10 --rate 3000", 10),
    ] {
        let node = Node::start();
        let address = if address == "grpc" { &node.grpc } else { &node.http };
        let ended =
            run(flyball(SHORT.split_whitespace()).args(args.split_whitespace()).args(["--address", address]));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args}: {ended:?}");
        let report = ended.json();
        assert_short(&report, batch);
        assert_eq!(report["lag_us"].is_null(), !args.contains("--rate"), "{report}");
        assert_eq!(node.stop().code, Some(0));
    }
}

#[test]
fn people_get_a_table_and_no_bar_in_a_pipe() {
    let node = Node::start();
    let ended = run(flyball(["bench", "--time", "100ms", "--warmup", "50ms", "--skew", "1.2", "--address"])
        .arg(&node.grpc));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for word in ["calls ", "decisions ", "over limit ", "latency ", "p99.9 "] {
        assert!(ended.out.contains(word), "{ended:?}");
    }
}

#[test]
fn items_without_a_decision_are_counted_by_reason() {
    let node = Node::start();
    let line = "bench --json --requests 10 --warmup 0s --concurrency 1 --batch 3 --limit -1 --address";
    let ended = run(flyball(line.split(' ')).arg(&node.grpc));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    assert_eq!((number(&report, "decisions"), number(&report, "failed_items")), (0, 30));
    assert_eq!(report["errors"]["item: field 'limit' cannot be negative"], 30);
}

#[test]
fn ctrl_c_reports_what_was_measured_so_far() {
    let node = Node::start();
    // Calls go on at their rate when the node is gone, and the end does not depend on anybody's speed.
    let line =
        "bench --json --rate 200 --time 3s --warmup 0s --keys 1 --limit 1000000000 --duration 1h --address";
    let bench = Running::start(flyball(line.split(' ')).arg(&node.grpc));
    let look = "bench 0000000000000000 --hits 0 --limit 1000000000 --duration 1h --json";
    while node.check(look).json()["remaining"] == 1_000_000_000 {}
    bench.signal(Signal::INT);
    let ended = bench.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    assert_eq!(report["interrupted"], true);
    assert!(number(&report, "calls") > 0);
}

#[test]
fn ctrl_c_does_not_wait_for_a_node_that_hangs() {
    let node = Node::start();
    let line = "bench --json --time 10m --timeout 10m --warmup 0s --keys 1 --limit 1000000000 --duration 1h --address";
    let bench = Running::start(flyball(line.split(' ')).arg(&node.grpc));
    let look = "bench 0000000000000000 --hits 0 --limit 1000000000 --duration 1h --json";
    while node.check(look).json()["remaining"] == 1_000_000_000 {}
    node.signal(Signal::STOP);
    bench.signal(Signal::INT);
    // Without the grace of its own it would wait as long as for an answer, which is longer than this test does.
    let ended = bench.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.json()["interrupted"], true);
}

#[test]
fn the_other_port_is_one_line_that_asks_for_it() {
    let node = Node::start();
    for (protocol, address, question) in
        [("grpc", &node.http, "is this the HTTP port?"), ("http", &node.grpc, "is this the gRPC port?")]
    {
        let ended = run(&mut flyball(["bench", "--protocol", protocol, "--address", address]));
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        let line = ended.error_line();
        assert!(line.contains(address.as_str()) && line.contains(question), "{line}");
    }
}

#[test]
fn a_node_that_is_not_there_is_one_line() {
    for protocol in ["grpc", "http"] {
        let address = deserted();
        let ended = run(&mut flyball(["bench", "--protocol", protocol, "--address", &address]));
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        let line = ended.error_line();
        assert!(line.contains(&address) && line.contains("connection refused"), "{line}");
    }
}

#[test]
fn a_node_that_goes_away_does_not_stop_the_report() {
    let node = Node::start();
    // Calls go on at their rate when the node is gone, and the end does not depend on anybody's speed.
    let line =
        "bench --json --rate 200 --time 3s --warmup 0s --keys 1 --limit 1000000000 --duration 1h --address";
    let bench = Running::start(flyball(line.split(' ')).arg(&node.grpc));
    let look = "bench 0000000000000000 --hits 0 --limit 1000000000 --duration 1h --json";
    while node.check(look).json()["remaining"] == 1_000_000_000 {}
    drop(node);
    let ended = bench.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    assert!(number(&report, "calls") > 0 && number(&report, "failed_calls") > 0, "{report}");
    assert_eq!(report["interrupted"], false);
}
