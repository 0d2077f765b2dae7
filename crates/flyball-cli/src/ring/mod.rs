//! `flyball ring`: who owns what, worked out here from the peers' addresses as every node works it out. This file
//! is the table of its commands and what they share: the peers, and how a ring is made of them.

mod diff;
mod owner;
mod share;

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Subcommand, ValueEnum};
use flyball_core::ring::{Hash, Replicas, Ring};
use flyball_server::tls::Alpn;
use http::StatusCode;
use serde::Deserialize;

use crate::address;
use crate::exit::{self, Exit};
use crate::fetch;
use crate::output;
use crate::tls;

/// Show who owns a key, how even the shares are, and what moves when peers come and go
///
/// Nothing is asked but, with --http, a node for its peers: every node works out owners from addresses alone, and so
/// does this command. Addresses are compared as written, as on the nodes.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
Examples:
  flyball ring owner --peers a:1051,b:1051 requests_per_minute alice
  flyball ring share --http 127.0.0.1:1050
  flyball ring diff --peers a:1051,b:1051 --to a:1051,b:1051,c:1051";

#[derive(Subcommand, Debug)]
enum Command {
    Owner(owner::Args),
    Share(share::Args),
    Diff(diff::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Owner(args) => owner::run(args),
        Command::Share(args) => share::run(args),
        Command::Diff(args) => diff::run(args),
    }
}

/// How long a node may take to name its peers.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most points on a ring: a gigabyte of memory. No command line names so many peers by accident.
const POINTS_MAX: u64 = 1 << 26;

/// Where the peers come from.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct From {
    /// The peers' gRPC addresses, as the nodes write them
    #[arg(long, value_name = "HOST:PORT,…", value_parser = addresses)]
    peers: Option<Addresses>,
    /// Ask this node, by its HTTP address, for the peers of its data center; over TLS where the environment has
    /// GUBER_TLS_ variables
    #[arg(long, value_name = "URL", value_parser = address::callable)]
    http: Option<String>,
}

/// How the ring is made. The same on every node, or they would not agree.
#[derive(clap::Args, Clone, Copy, Debug)]
#[group(skip)]
struct Picker {
    /// The hash of the ring, the nodes' peer_picker.hash
    #[arg(long, value_enum, visible_alias = "peer-picker-hash", default_value_t = PickerHash::Fnv1)]
    picker_hash: PickerHash,
    /// Points of each peer, the nodes' peer_picker.replicas
    #[arg(long, value_name = "N", visible_alias = "replicated-hash-replicas", default_value_t = Replicas::default().get(),
        value_parser = clap::value_parser!(u32).range(1..=i64::from(Replicas::MAX)))]
    replicas: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PickerHash {
    Fnv1,
    Fnv1a,
}

/// Addresses of peers, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Addresses(Vec<String>);

fn addresses(text: &str) -> Result<Addresses, String> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        // Judged as an address, kept as text: the text is the peer's identity.
        let scheme = entry.contains("://");
        match address::callable(entry) {
            Ok(_) if !scheme => good.push(entry.to_owned()),
            Ok(_) => bad.push(format!("'{entry}': write host:port, without a scheme")),
            Err(error) => bad.push(format!("'{entry}': {error}")),
        }
    }
    match (bad.is_empty(), good.is_empty()) {
        (false, _) => Err(bad.join("; ")),
        (true, true) => Err("no address; write host:port, several joined by commas".to_owned()),
        (true, false) => Ok(Addresses(good)),
    }
}

impl From {
    fn ring(&self, picker: Picker) -> anyhow::Result<Ring> {
        match (&self.peers, &self.http) {
            (Some(peers), _) => picker.ring(peers),
            (None, Some(target)) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let peers = runtime.block_on(ask(target)).map_err(|error| {
                    anyhow::anyhow!(output::foreign(&format!("{error:#}")))
                        .context(format!("no peers from the node at {target}"))
                })?;
                picker.ring(&peers)
            }
            (None, None) => bail!("neither --peers nor --http names the peers"),
        }
    }
}

impl Picker {
    fn ring(self, peers: &Addresses) -> anyhow::Result<Ring> {
        let hash = match self.picker_hash {
            PickerHash::Fnv1 => Hash::Fnv1,
            PickerHash::Fnv1a => Hash::Fnv1a,
        };
        let points = peers.0.len() as u64 * u64::from(self.replicas);
        if points > POINTS_MAX {
            let message = format!(
                "--replicas {}: {} peers would have {points} points; at most {POINTS_MAX} fit",
                self.replicas,
                peers.0.len()
            );
            return Err(exit::usage("ring", message));
        }
        let replicas = Replicas::new(self.replicas)?;
        Ok(Ring::new(peers.0.iter().map(String::as_str), hash, replicas))
    }
}

/// The peers of a node's data center.
async fn ask(target: &str) -> anyhow::Result<Addresses> {
    #[derive(Deserialize)]
    struct Report {
        local_peers: Vec<Peer>,
    }
    #[derive(Deserialize)]
    struct Peer {
        grpc_address: String,
    }
    let tls = tls::Args::default().client(None, Alpn::Http1)?;
    let (status, body) = fetch::get_within(PATIENCE, target, tls.as_ref(), "/v1/HealthCheck").await?;
    match status {
        StatusCode::OK => {}
        StatusCode::SERVICE_UNAVAILABLE => bail!("it is unhealthy and does not say; use --peers"),
        other => bail!("the answer's status is {other}; is this the HTTP address of a node?"),
    }
    let report: Report =
        serde_json::from_slice(&body).context("its health report lists no local_peers; use --peers")?;
    let peers: Vec<String> = report.local_peers.into_iter().map(|peer| peer.grpc_address).collect();
    if peers.is_empty() {
        bail!("it has no peers");
    }
    Ok(Addresses(peers))
}

/// A part of the whole: ` 33.3 %`.
fn percent(share: f64) -> String {
    format!("{:5.1} %", share * 100.0)
}

/// How much more than its fair part the largest has; 1 when all have the same.
fn most_over_mean(parts: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let (count, sum) = (parts.len() as f64, parts.clone().sum::<f64>());
    if sum > 0.0 { parts.fold(0.0, f64::max) * count / sum } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_kept_as_written() {
        let good = addresses(" a:1051, [::1]:1051 ,,0.0.0.0:80,").unwrap();
        assert_eq!(good.0, ["a:1051", "[::1]:1051", "0.0.0.0:80"]);
        assert!(addresses("").unwrap_err().starts_with("no address"));
        let error = addresses("a,b:1051,c:0,http://d:1").unwrap_err();
        for bad in ["'a': the port is missing", "'c:0': '0' is not a port", "'http://d:1': write host:port"] {
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn evenness_is_the_largest_over_the_mean() {
        assert_eq!(most_over_mean([0.5, 0.25, 0.25].into_iter()), 1.5);
        assert_eq!(most_over_mean([0.0, 0.0].into_iter()), 1.0);
        assert_eq!(most_over_mean([].into_iter()), 1.0);
    }
}
