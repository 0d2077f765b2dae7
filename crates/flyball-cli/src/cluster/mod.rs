//! `flyball cluster`: several nodes on this machine, for trying things.
//!
//! Each node is a process of its own, this same program as `serve`. Threads of one process would be simpler, but
//! then nobody could see what a cluster is for: that one of them is killed or stopped and the others go on.
//!
//! Nobody is left behind. A node's standard input is a pipe of which this process alone holds the other end, and
//! a node ends gracefully when it closes (`serve --until-input-ends`). So a stop is the closing of the pipes, and
//! when this process is killed, the operating system closes them. Nodes are in process groups of their own: a
//! Ctrl-C in a terminal reaches this process only, else it would be the first of two signals for each node.
//!
//! A node that ends by itself is told and not started again: whoever killed it wants to see what happens then.

mod node;

use std::net::TcpListener;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_server::daemon;
use flyball_server::shutdown::Signals;
use tokio::time::{Instant, sleep, timeout_at};

use crate::exit::{self, Exit};
use crate::fetch;
use crate::output;
use node::{Node, Place};

/// Start a cluster on this machine, for trying things
///
/// Node number i, from 0, serves HTTP on 127.0.0.1 port 1050 + 10 i and gRPC on the port after it. Each node is a
/// process of its own, so that one can be killed or stopped to see what the others do. Nothing is kept.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How many nodes, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    nodes: u16,
    /// The first node's HTTP port
    #[arg(long, value_name = "PORT", default_value_t = 1050, value_parser = clap::value_parser!(u16).range(1..))]
    base_port: u16,
    /// More flags for every node, as `serve` takes them
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

const HELP: &str = "\
Examples:
  flyball cluster
  flyball cluster --nodes 5 --base-port 9000 -- --log-level warn --semantics gubernator
  flyball peers --watch                                      in another terminal
  kill -9 PID                                                the number is on the node's line

Ctrl-C ends all nodes gracefully, within their bound (--shutdown-timeout) and 5 seconds more; a second one
ends them at once. When this command is killed, the nodes end too. Nodes read the environment as `serve` does.

Standard output: a line for each node when it is ready. Standard error: the nodes' logs.

Exit codes:
  0  ended because it was asked to
  1  a node did not start, for example because a port is in use; or all have ended by themselves
  2  the command line makes no sense
  128 + the signal's number  ended at once by a second signal";

/// How long nodes may take to answer after their start: far longer than they need on a busy machine.
const START_BOUND: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How long a stop may take, beyond what the nodes allow themselves, before they are killed.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let places = places(args.base_port, args.nodes)?;
    free(&places)?;
    let program = std::env::current_exe().context("cannot find the own program to start nodes with")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signals = Signals::of_process().context("cannot wait for signals")?;
        let peers: Vec<String> = places.iter().map(|place| place.grpc.clone()).collect();
        // Dropping them kills them, whatever ends this.
        let mut nodes = Vec::new();
        for place in places {
            nodes.push(Node::start(&program, place, &peers.join(","), &args.flags)?);
        }
        Cluster { nodes, signals }.run(&args.flags).await
    })
}

/// Where the nodes are.
fn places(base_port: u16, nodes: u16) -> anyhow::Result<Vec<Place>> {
    (0..nodes)
        .map(|index| {
            let http = base_port.checked_add(index * 10);
            let Some((http, grpc)) = http.and_then(|http| Some((http, http.checked_add(1)?))) else {
                let message =
                    format!("--base-port {base_port}: there are not enough ports above for {nodes} nodes");
                return Err(exit::usage("cluster", message));
            };
            Ok(Place {
                name: format!("node {index}"),
                grpc: format!("127.0.0.1:{grpc}"),
                http: format!("127.0.0.1:{http}"),
            })
        })
        .collect()
}

/// All ports are tried before anything starts: one line says more than the logs of half a cluster. And it must not
/// be somebody else who answers for a node.
fn free(places: &[Place]) -> anyhow::Result<()> {
    for place in places {
        for (what, address) in [("HTTP", &place.http), ("gRPC", &place.grpc)] {
            TcpListener::bind(address).with_context(|| {
                format!(
                    "cannot listen on {address} for {what} of {}; --base-port chooses other ports",
                    place.name
                )
            })?;
        }
    }
    Ok(())
}

struct Cluster {
    nodes: Vec<Node>,
    signals: Signals,
}

impl Cluster {
    async fn run(mut self, flags: &[String]) -> anyhow::Result<Exit> {
        let outcome = tokio::select! {
            biased;
            _ = self.signals.next() => return Ok(self.stop(flags).await),
            ready = ready(&mut self.nodes) => ready,
        };
        if let Err(error) = outcome {
            self.stop(flags).await;
            return Err(error);
        }
        output::note(&format!("{} nodes are ready; Ctrl-C ends them", self.nodes.len()));
        tokio::select! {
            biased;
            _ = self.signals.next() => Ok(self.stop(flags).await),
            () = all_end(&mut self.nodes) => bail!("all nodes have ended by themselves"),
        }
    }

    /// Ends what still runs: gracefully, within a bound, or at once after a second signal.
    async fn stop(mut self, flags: &[String]) -> Exit {
        self.nodes.iter_mut().for_each(Node::ask_to_end);
        let bound = Instant::now() + shutdown_timeout(flags) + STOP_GRACE;
        tokio::select! {
            biased;
            signal = self.signals.next() => {
                self.kill().await;
                Exit::Stopped(daemon::Exit::Forced(signal))
            }
            ended = timeout_at(bound, all_end(&mut self.nodes)) => {
                if ended.is_err() {
                    output::warning("some nodes did not end in time; killed");
                    self.kill().await;
                }
                Exit::Success
            }
        }
    }

    async fn kill(&mut self) {
        for node in &mut self.nodes {
            node.kill().await;
        }
    }
}

/// Waits until every node answers, and tells each.
async fn ready(nodes: &mut [Node]) -> anyhow::Result<()> {
    let bound = Instant::now() + START_BOUND;
    for node in nodes {
        let answers = async {
            // One that speaks TLS is there too.
            while let Err(error) = fetch::get(&node.place.http, None, "/v1/HealthCheck").await {
                if error.is::<fetch::SpeaksTls>() {
                    break;
                }
                sleep(ASK_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            status = node.child.wait() => {
                node.drain().await;
                let status = status.context("cannot wait for a node")?;
                bail!("{} did not start ({status}); its log says why", node.place.name);
            }
            answered = timeout_at(bound, answers) => {
                if answered.is_err() {
                    bail!("{} does not answer at {} within {START_BOUND:?}", node.place.name, node.place.http);
                }
            }
        }
        output::line(&node.line())?;
    }
    Ok(())
}

/// Waits until no node runs any more. Each that ends by itself is told when it does.
async fn all_end(nodes: &mut [Node]) {
    let mut ends: Vec<_> = nodes.iter_mut().map(|node| Box::pin(node.end())).collect();
    std::future::poll_fn(|context| {
        ends.retain_mut(|end| end.as_mut().poll(context).is_pending());
        if ends.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// What the nodes allow themselves for a stop: the flag, else the default. Who changes it elsewhere has the grace.
fn shutdown_timeout(flags: &[String]) -> Duration {
    const FLAG: &str = "--shutdown-timeout";
    const DEFAULT: Duration = Duration::from_secs(10);
    let given = flags.iter().enumerate().find_map(|(at, flag)| match flag.strip_prefix(FLAG)? {
        "" => flags.get(at + 1).map(String::as_str),
        value => value.strip_prefix('='),
    });
    given.and_then(|text| crate::limit::length(text).ok()).unwrap_or(DEFAULT)
}
