//! `flyball cluster`: nodes that start together, die alone, and never stay behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::support::{flyball, run};

/// Fifty ports for each test of this process, where the system hands none out by itself.
fn base_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = (std::process::id() % 200) as u16 * 100;
    (0..50)
        .map(|_| 10_000 + (process + NEXT.fetch_add(1, Ordering::Relaxed) * 50) % 20_000)
        .find(|base| (0..50).all(|port| TcpListener::bind(("127.0.0.1", base + port)).is_ok()))
        .unwrap()
}

fn command(base: u16, args: &str) -> Command {
    let mut command = flyball(["cluster", "--base-port", &base.to_string()]);
    command.args(args.split_whitespace());
    command
}

struct Cluster {
    child: std::process::Child,
    out: BufReader<ChildStdout>,
}

impl Cluster {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next node's line, and the number of its process.
    fn node(&mut self) -> (String, Pid) {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).unwrap() > 0, "no more nodes");
        let pid = line.trim_end().rsplit_once("pid ").unwrap().1.parse().unwrap();
        (line, Pid::from_raw(pid).unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits, within a bound far above what it takes, until `done`.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let bound = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < bound, "not in time: {what}");
        std::thread::yield_now();
    }
}

fn serves(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
fn nodes_know_each_other_and_one_may_die() {
    let base = base_port();
    let mut cluster = Cluster::start(command(base, "--nodes 3 -- --log-level warn"));
    let nodes: Vec<(String, Pid)> = (0..3).map(|_| cluster.node()).collect();
    let mut grpc = Vec::new();
    for (index, (line, _)) in (0..).zip(&nodes) {
        let http = base + 10 * index;
        grpc.push(format!("127.0.0.1:{}", http + 1));
        for part in [
            format!("node {index}"),
            format!("gRPC {}", grpc[grpc.len() - 1]),
            format!("http://127.0.0.1:{http}/"),
        ] {
            assert!(line.contains(&part), "{part}: {line}");
        }
    }
    for index in 0..3 {
        let http = format!("127.0.0.1:{}", base + 10 * index);
        let json = run(&mut flyball(["peers", "--json", "--http", &http])).json();
        assert_eq!(json["self"], grpc[usize::from(index)].as_str());
        let peers: Vec<&str> = json["peers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|peer| peer["grpc_address"].as_str().unwrap())
            .collect();
        assert_eq!(peers, grpc, "{json}");
    }
    kill_process(nodes[1].1, Signal::KILL).unwrap();
    eventually("the killed node is gone", || !serves(base + 11));
    assert!(serves(base) && serves(base + 1) && serves(base + 21), "the others go on");
    cluster.signal(Signal::INT);
    assert_eq!(cluster.child.wait().unwrap().code(), Some(0));
    assert!(!serves(base + 1) && !serves(base + 21));
}

#[test]
fn no_node_outlives_a_killed_cluster() {
    let base = base_port();
    let mut cluster = Cluster::start(command(base, "--nodes 2"));
    let nodes = [cluster.node().1, cluster.node().1];
    cluster.signal(Signal::KILL);
    cluster.child.wait().unwrap();
    for pid in nodes {
        // A zombie still has its number until whoever inherited it looks; it serves nothing.
        let zombie = || {
            let status = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            status.is_ok_and(|status| status.contains(") Z "))
        };
        eventually("the node is gone", || test_kill_process(pid).is_err() || zombie());
    }
    assert!(!serves(base + 1) && !serves(base + 11));
}

#[test]
fn a_second_signal_ends_a_frozen_node_at_once() {
    let base = base_port();
    let mut cluster = Cluster::start(command(base, "--nodes 2"));
    let nodes = [cluster.node().1, cluster.node().1];
    kill_process(nodes[0], Signal::STOP).unwrap();
    cluster.signal(Signal::TERM);
    eventually("the other node ends by the first signal", || !serves(base + 11));
    cluster.signal(Signal::TERM);
    assert_eq!(cluster.child.wait().unwrap().code(), Some(143));
    assert!(!serves(base + 1));
}

#[test]
fn a_port_in_use_is_one_line_and_nothing_starts() {
    let base = base_port();
    let _taken = TcpListener::bind(("127.0.0.1", base + 11)).unwrap();
    let ended = run(&mut command(base, "--nodes 2"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    let expected = format!("error: cannot listen on 127.0.0.1:{} for gRPC of node 1; --base-port", base + 11);
    assert!(ended.error_line().starts_with(&expected) && ended.err.contains("in use"), "{ended:?}");
    assert!(!serves(base) && !serves(base + 1) && !serves(base + 10));
}

#[test]
fn a_node_that_does_not_start_ends_all_and_its_log_is_shown() {
    let base = base_port();
    let ended = run(&mut command(base, "--nodes 2 -- --time-zone Mars/Olympus"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.lines().any(|line| line.starts_with("node 0  | ") && line.contains("Mars/Olympus")));
    assert!(
        ended.err.ends_with("error: node 0 did not start (exit status: 2); its log says why\n"),
        "{ended:?}"
    );
    assert!(!serves(base + 11));
}

#[test]
fn impossible_clusters_are_usage_errors() {
    for (line, names) in [
        ("--nodes 0", "--nodes"),
        ("--nodes 17", "--nodes"),
        ("--base-port 0", "--base-port"),
        ("--base-port 65500 --nodes 5", "--base-port 65500"),
        ("--nodes 2 --log-level warn", "--log-level"),
    ] {
        let ended = run(flyball(["cluster"]).args(line.split(' ')));
        assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
        assert!(ended.err.contains(names), "{line}: {ended:?}");
    }
}
