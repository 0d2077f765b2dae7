//! `cargo xtask bench-cluster`: what a cluster of three costs, beside one of three originals.
//!
//! CPU is summed over all nodes, since forwarding moves work around. Keys are chosen by asking who owns them, so that
//! both clusters do the same: a third of the keys is the asked node's own where all are mixed, none of them where
//! calls are to be forwarded. All figures of a table are of one run, in turns.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::http;
use super::load::{Kind, Load, Until, write_body};
use super::machine::{Machine, Meter};
use super::servers::pause;
use super::stats::Summary;
use super::{Scratch, build};
use crate::process::find_on_path;
use crate::tools::{Tool, Toolbox};
use crate::wire::{Item, grpc_frame, message};

const GLOBAL: i64 = 2;

/// What to measure.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Gubernator v2.21.0; without it the one on the PATH, else one that is installed by Go.
    #[arg(long, value_name = "PATH", conflicts_with = "no_gubernator")]
    gubernator: Option<PathBuf>,
    /// Measure flyball alone.
    #[arg(long)]
    no_gubernator: bool,
    /// Rounds, each visiting both clusters.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Cargo profile of flyball.
    #[arg(long, default_value = "release")]
    profile: String,
}

/// Some nodes that know each other. Dropping them ends them.
struct Cluster {
    name: &'static str,
    nodes: Vec<Node>,
}

struct Node {
    child: Child,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(group: u8, node: usize, port: u16) -> SocketAddr {
    let node = u8::try_from(node + 1).unwrap_or(u8::MAX);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 77, group, node)), port)
}

impl Cluster {
    fn flyball(program: &Path, group: u8, count: usize) -> Result<Self> {
        let peers: Vec<String> = (0..count).map(|node| address(group, node, 1051).to_string()).collect();
        let nodes = (0..count).map(|node| {
            let mut command = Command::new(program);
            command.args(["serve", "--peers", &peers.join(",")]);
            start(command, group, node)
        });
        Self { name: "flyball", nodes: nodes.collect::<Result<_>>()? }.when_ready()
    }

    fn gubernator(program: &Path, group: u8, count: usize) -> Result<Self> {
        let nodes = (0..count).map(|node| {
            let mut command = Command::new(program);
            let gossip = address(group, node, 7946).to_string();
            command
                .env("GUBER_ADVERTISE_ADDRESS", address(group, node, 1051).to_string())
                .env("GUBER_MEMBERLIST_ADDRESS", &gossip)
                .env("GUBER_MEMBERLIST_BIND_ADDRESS", &gossip)
                .env("GUBER_MEMBERLIST_KNOWN_NODES", address(group, 0, 7946).to_string())
                .env("GUBER_MEMBERLIST_NODE_NAME", format!("node-{node}"))
                .env("GUBER_PEER_DISCOVERY_TYPE", "member-list")
                .env("OTEL_TRACES_EXPORTER", "none")
                .env("GUBER_LOG_LEVEL", "error");
            start(command, group, node)
        });
        Self { name: "Gubernator", nodes: nodes.collect::<Result<_>>()? }.when_ready()
    }

    fn when_ready(self) -> Result<Self> {
        let began = Instant::now();
        let expected = format!("\"peer_count\":{}", self.nodes.len());
        for node in &self.nodes {
            while !http::call(node.http, "/v1/HealthCheck", None).is_ok_and(|body| body.contains(&expected)) {
                if began.elapsed() > Duration::from_secs(60) {
                    bail!("{} of {} nodes is not whole after a minute", self.name, self.nodes.len());
                }
                pause(Duration::from_millis(20));
            }
        }
        Ok(self)
    }

    fn cpu(&self, meter: Meter) -> Result<f64> {
        self.nodes.iter().map(|node| meter.cpu_seconds(node.child.id())).sum()
    }

    /// So many keys of which the first node owns all, or none.
    fn keys(&self, count: usize, own: bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for number in 0..100_000_u64 {
            let key = format!("{number:08}:account");
            let check = format!(
                "{{\"requests\":[{{\"name\":\"requests_per_sec\",\"unique_key\":\"{key}\",\"hits\":\"0\",\
                 \"limit\":\"10\",\"duration\":\"3600000\"}}]}}"
            );
            let answer = http::call(self.nodes[0].http, "/v1/GetRateLimits", Some(&check))?;
            if answer.contains("\"owner\"") != own {
                found.push(key);
            }
            if found.len() == count {
                return Ok(found);
            }
        }
        bail!("{} of {count} keys found", found.len())
    }

    /// Sum of a counter over all nodes.
    fn metric(&self, name: &str) -> Result<f64> {
        let mut sum = 0.0;
        for node in &self.nodes {
            let page = http::call(node.http, "/metrics", None)?;
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            sum += line.with_context(|| format!("no {name}"))?.parse::<f64>()?;
        }
        Ok(sum)
    }
}

fn start(mut command: Command, group: u8, node: usize) -> Result<Node> {
    let (grpc, http) = (address(group, node, 1051), address(group, node, 1050));
    command
        .env("GUBER_GRPC_ADDRESS", grpc.to_string())
        .env("GUBER_HTTP_ADDRESS", http.to_string())
        .env("GUBER_CACHE_SIZE", "1000000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    Ok(Node { child, grpc, http })
}

fn body(keys: &[String], behavior: i64) -> Vec<u8> {
    let item = |key: &String| Item {
        name: "requests_per_sec".to_owned(),
        unique_key: key.clone(),
        hits: 1,
        limit: 1_000_000_000,
        duration: 3_600_000,
        behavior,
        ..Item::default()
    };
    grpc_frame(&message(&keys.iter().map(item).collect::<Vec<_>>()))
}

/// What is measured in each round, on each cluster.
struct Probe {
    what: &'static str,
    items: u64,
    /// The asked node owns the keys: all, none, or as it comes.
    own: Option<bool>,
    behavior: i64,
    requests: u64,
}

const PROBES: [Probe; 5] = [
    Probe { what: "1000 items, mixed owners", items: 1_000, own: None, behavior: 0, requests: 400 },
    Probe { what: "1 item, forwarded", items: 1, own: Some(false), behavior: 0, requests: 60_000 },
    Probe { what: "1 item, own", items: 1, own: Some(true), behavior: 0, requests: 60_000 },
    Probe { what: "1000 items, own", items: 1_000, own: Some(true), behavior: 0, requests: 1_000 },
    Probe {
        what: "1000 items, GLOBAL copies",
        items: 1_000,
        own: Some(false),
        behavior: GLOBAL,
        requests: 1_000,
    },
];

/// Measures and prints the report.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut machine = Machine::look()?;
    let meter = Meter::new()?;
    let found = arguments.gubernator.clone().or_else(|| find_on_path("gubernator"));
    let mut wanted = vec![Tool::H2load];
    if found.is_none() && !arguments.no_gubernator {
        wanted.push(Tool::Gubernator);
    }
    let toolbox = Toolbox::start(wanted)?;
    let [flyball, _] = build(&arguments.profile)?;
    let h2load = toolbox.path(Tool::H2load, "H2LOAD")?;
    let folder = Scratch::new()?;

    let mut clusters = vec![Cluster::flyball(&flyball, 1, 3)?];
    if !arguments.no_gubernator {
        let program = match found {
            Some(path) => path,
            None => toolbox.path(Tool::Gubernator, "GUBERNATOR")?,
        };
        clusters.push(Cluster::gubernator(&program, 2, 3)?);
    }
    println!("{}, {} cores, load {} before\n", machine.processor, machine.cores, machine.load_before);
    println!(
        "| 3 nodes, asked through one | cluster | CPU of all nodes per decision | ± | of the asked node |
\
         |---|---|---|---|---|"
    );
    let (mut costs, mut asked_costs) = (Vec::new(), Vec::new());
    for probe in &PROBES {
        let mut bodies = Vec::new();
        for cluster in &clusters {
            bodies.push(probe.load(cluster, &h2load, &folder.0)?);
        }
        let mut samples = vec![(Vec::new(), Vec::new()); clusters.len()];
        for _ in 0..arguments.rounds {
            for ((cluster, load), samples) in clusters.iter().zip(&bodies).zip(&mut samples) {
                let requests = if cluster.name == "flyball" { probe.requests } else { probe.requests / 10 };
                load.drive(cluster.nodes[0].grpc, Until::Requests(requests.max(100) / 10))?;
                let asked = cluster.nodes[0].child.id();
                let before = (cluster.cpu(meter)?, meter.cpu_seconds(asked)?);
                load.drive(cluster.nodes[0].grpc, Until::Requests(requests.max(100)))?;
                let (all, asked) = (cluster.cpu(meter)? - before.0, meter.cpu_seconds(asked)? - before.1);
                let each = |used: f64| used * 1e6 / requests.max(100) as f64 / probe.items as f64;
                samples.0.push(each(all));
                samples.1.push(each(asked));
            }
        }
        for (cluster, (all, asked)) in clusters.iter().zip(&samples) {
            let cost = Summary::of(all).context("no round")?;
            let asked = Summary::of(asked).context("no round")?;
            println!(
                "| {} | {} | {:.3} us | {:.0} % | {:.3} us |",
                probe.what,
                cluster.name,
                cost.median,
                cost.spread_percent(),
                asked.median
            );
            asked_costs.push((probe.what, cluster.name, asked.median));
            costs.push((probe.what, cluster.name, cost.median));
        }
    }

    println!("\n| one call at a time | cluster | mean latency |\n|---|---|---|");
    for own in [true, false] {
        let what = if own { "own key" } else { "forwarded" };
        for cluster in &clusters {
            let probe = Probe { what, items: 1, own: Some(own), behavior: 0, requests: 0 };
            let load = probe.load(cluster, &h2load, &folder.0)?;
            load.latency(cluster.nodes[0].grpc, 500)?;
            let times = (0..arguments.rounds).map(|_| load.latency(cluster.nodes[0].grpc, 4_000));
            let time = Summary::of(&times.collect::<Result<Vec<_>>>()?).context("no round")?;
            println!("| {what} | {} | {:.0} us |", cluster.name, time.median);
            costs.push((what, cluster.name, time.median));
        }
    }
    goals(&costs, &asked_costs);
    drop(clusters);
    broadcasts(&flyball, &h2load, &folder.0, meter)?;
    machine.finish()?;
    println!("\nLoad {} after.", machine.load_after);
    Ok(())
}

impl Probe {
    fn load(&self, cluster: &Cluster, h2load: &Path, folder: &Path) -> Result<Load> {
        let keys = match self.own {
            Some(own) => cluster.keys(self.items as usize, own)?,
            None => (0..self.items).map(|number| format!("{number:08}:account")).collect(),
        };
        let name = format!("{}-{}-{:?}-{}", cluster.name, self.items, self.own, self.behavior);
        let body = write_body(folder, &name, &body(&keys, self.behavior))?;
        Ok(Load { h2load: h2load.to_owned(), kind: Kind::Grpc { items: self.items }, body })
    }
}

/// The ratios that are promised.
fn goals(costs: &[(&str, &str, f64)], asked: &[(&str, &str, f64)]) {
    let find = |costs: &[(&str, &str, f64)], what: &str, name: &str| {
        costs.iter().find(|(w, n, _)| *w == what && *n == name).map(|(_, _, cost)| *cost)
    };
    let of = |what: &str, name: &str| find(costs, what, name);
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    println!("\n| goal | | measured | |\n|---|---|---|---|");
    let goal = |what: &str, most: f64, measured: Option<f64>| match measured {
        Some(measured) => {
            let verdict = if measured <= most { "met" } else { "**missed**" };
            println!("| {what} | at most {most:.3} | {measured:.3} | {verdict} |");
        }
        None => println!("| {what} | at most {most:.3} | not measured | |"),
    };
    for (what, most) in [("1000 items, mixed owners", 1.0 / 40.0), ("1 item, forwarded", 1.0 / 5.0)] {
        goal(
            &format!("{what}: CPU of flyball / Gubernator"),
            most,
            ratio(of(what, "flyball"), of(what, "Gubernator")),
        );
    }
    goal(
        "answers from GLOBAL copies / from own keys, CPU of the asked node",
        1.3,
        ratio(find(asked, "1000 items, GLOBAL copies", "flyball"), find(asked, "1000 items, own", "flyball")),
    );
    goal(
        "latency of a forwarded call: flyball / Gubernator",
        0.25,
        ratio(of("forwarded", "flyball"), of("forwarded", "Gubernator")),
    );
    goal("latency: forwarded / own", 3.0, ratio(of("forwarded", "flyball"), of("own key", "flyball")));
}

/// What it costs to tell everybody of a key, by the number of nodes.
fn broadcasts(flyball: &Path, h2load: &Path, folder: &Path, meter: Meter) -> Result<()> {
    println!(
        "\n| nodes | keys told | bytes per key and node | CPU of all nodes per key and node |\n|---|---|---|---|"
    );
    for (group, count) in [(3, 3), (4, 10), (5, 30)] {
        let cluster = Cluster::flyball(flyball, group, count)?;
        let keys: Vec<String> = (0..1_000).map(|number| format!("{number:08}:account")).collect();
        let body = write_body(folder, &format!("broadcast-{count}"), &body(&keys, GLOBAL))?;
        let load = Load { h2load: h2load.to_owned(), kind: Kind::Grpc { items: 1_000 }, body };
        let told = || cluster.metric("flyball_global_told_keys_total");
        let bytes = || cluster.metric("flyball_global_told_bytes_total");
        load.drive(cluster.nodes[0].grpc, Until::Requests(20))?;
        pause(Duration::from_millis(500));
        let (cpu_before, told_before, bytes_before) = (cluster.cpu(meter)?, told()?, bytes()?);
        // One call per sync wait, so that every key is told of once for each.
        for _ in 0..20 {
            load.drive(cluster.nodes[0].grpc, Until::Requests(1))?;
            pause(Duration::from_millis(250));
        }
        let used = cluster.cpu(meter)? - cpu_before;
        let (told, bytes) = (told()? - told_before, bytes()? - bytes_before);
        println!("| {count} | {told:.0} | {:.0} | {:.2} us |", bytes / told, used * 1e6 / told);
    }
    Ok(())
}
