//! `flyball peers`: how a node sees the others.

use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_server::tls::{Alpn, TlsClient};
use http::StatusCode;
use jiff::tz::TimeZone;
use serde::Deserialize;

use crate::address;
use crate::exit::Exit;
use crate::fetch;
use crate::human;
use crate::limit;
use crate::output::{self, BAD, GOOD, LATER};
use crate::tls;

/// Show how a node sees its peers: their state, shares of the ring, queues and last errors
///
/// Asks one node, so the answer is that node's view; another node may see others.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The node's HTTP address
    #[arg(long, value_name = "URL", value_parser = address::callable)]
    http: Option<String>,
    #[command(flatten)]
    files: address::Files,
    #[command(flatten, next_help_heading = "TLS")]
    tls: tls::Args,
    /// Ask again every second until interrupted
    #[arg(long)]
    watch: bool,
    /// Print the node's answer as one JSON object, with --watch one a line
    #[arg(long)]
    json: bool,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = limit::length)]
    timeout: Duration,
}

const HELP: &str = "\
Examples:
  flyball peers
  flyball peers --http 10.0.0.1:1050 --watch
  flyball peers --json | jq '.peers[] | select(.state == \"down\")'

JSON: what GET /v1/admin/peers answers.

Exit codes:
  0  the node answered, whatever it thinks of its peers
  1  it did not; with --watch the command asks on
  2  the command line makes no sense

Environment:
  GUBER_HTTP_ADDRESS  the address without --http; a wildcard means this machine
                      [otherwise 127.0.0.1:1050]
  GUBER_TLS_…         any of the daemon's variables for TLS: speak TLS as the daemon does with its peers
  With --config every variable of `serve` counts, as it does there.";

const INTERVAL: Duration = Duration::from_secs(1);

/// Moves to the upper left corner and clears the rest. Where there is no terminal it is stripped.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// A node's answer.
#[derive(Debug, Deserialize)]
struct Report {
    #[serde(rename = "self")]
    own: String,
    epoch: u64,
    peers: Vec<Peer>,
    /// Absent for a node that was told of none, and for an older one.
    #[serde(default)]
    peer_source: Option<PeerSource>,
}

#[derive(Debug, Deserialize)]
struct PeerSource {
    kind: String,
    origin: String,
    failing: Option<Failing>,
}

#[derive(Debug, Deserialize)]
struct Failing {
    error: String,
    lasting_ms: i64,
}

#[derive(Debug, Deserialize)]
struct Peer {
    grpc_address: String,
    data_center: String,
    is_self: bool,
    share: f64,
    state: String,
    /// Unix milliseconds.
    since_ms: i64,
    last_error: Option<String>,
    last_error_age_ms: Option<i64>,
    queued: u64,
    in_flight: u64,
    calls: u64,
    failures: u64,
    fallbacks: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = args.files.load()?;
    let target = address::HTTP.target(args.http.clone(), loaded.as_ref())?;
    let tls = args.tls.client(loaded.as_ref(), Alpn::Http1)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        loop {
            let text = match ask(args, &target, tls.as_ref()).await {
                Ok(text) => text,
                Err(error) => {
                    let error = format!("{target}: {}", output::foreign(&format!("{error:#}")));
                    if !args.watch {
                        bail!(error);
                    }
                    output::error(&error);
                    tokio::time::sleep(INTERVAL).await;
                    continue;
                }
            };
            let clear = if args.watch && !args.json { CLEAR } else { "" };
            output::print(&format!("{clear}{text}\n"))?;
            if !args.watch {
                return Ok(Exit::Success);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    })
}

/// The answer as it is shown, without the last line end.
async fn ask(args: &Args, target: &str, tls: Option<&TlsClient>) -> anyhow::Result<String> {
    let (status, body) = fetch::get_within(args.timeout, target, tls, "/v1/admin/peers").await?;
    match status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => bail!(
            "this node does not show its peers: it does so by itself only on a loopback address, \
             elsewhere when the setting http.admin is on"
        ),
        other => bail!("the answer's status is {other}; is this the HTTP address of a node?"),
    }
    let report: Report = serde_json::from_slice(&body).context("this is not a node's answer")?;
    if args.json {
        let whole: serde_json::Value = serde_json::from_slice(&body)?;
        return Ok(whole.to_string());
    }
    Ok(render(&report, jiff::Timestamp::now().as_millisecond(), &TimeZone::system()))
}

/// The table for people, seen at `now` (Unix milliseconds).
fn render(report: &Report, now: i64, zone: &TimeZone) -> String {
    let data_centers = report.peers.iter().any(|peer| !peer.data_center.is_empty());
    let mut head = vec!["PEER"];
    head.extend(data_centers.then_some("DATA CENTER"));
    head.extend([
        "SHARE",
        "STATE",
        "SINCE",
        "QUEUED",
        "IN FLIGHT",
        "CALLS",
        "FAILED",
        "FALLBACKS",
        "LAST ERROR",
    ]);
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for peer in &report.peers {
        let mut row = vec![format!(
            "{}{}",
            output::foreign(&peer.grpc_address),
            if peer.is_self { " (this node)" } else { "" }
        )];
        row.extend(data_centers.then(|| output::foreign(&peer.data_center)));
        let error =
            peer.last_error.as_deref().map(output::foreign).map(|error| match peer.last_error_age_ms {
                Some(age) => format!("{} ago: {error}", human::duration(age)),
                None => error,
            });
        row.extend([
            format!("{:.1} %", peer.share * 100.0),
            output::foreign(&peer.state),
            human::moment(peer.since_ms, now, zone),
            human::count(peer.queued),
            human::count(peer.in_flight),
            human::count(peer.calls),
            human::count(peer.failures),
            human::count(peer.fallbacks),
            error.unwrap_or_default(),
        ]);
        rows.push(row);
    }
    let columns = rows[0].len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = format!(
        "{} sees {} {} (epoch {})\n\n",
        output::foreign(&report.own),
        report.peers.len(),
        if report.peers.len() == 1 { "peer" } else { "peers" },
        report.epoch
    );
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let style = match cell.as_str() {
                "up" => Some(GOOD),
                "down" => Some(BAD),
                "unknown" => Some(LATER),
                _ => None,
            };
            let style = style.filter(|_| rows[0][column] == "STATE");
            let shown = style.map_or_else(|| cell.clone(), |style| output::styled(style, cell));
            // Numbers to the right, texts to the left, and no blanks at the end.
            let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let number = matches!(
                rows[0][column].as_str(),
                "SHARE" | "QUEUED" | "IN FLIGHT" | "CALLS" | "FAILED" | "FALLBACKS"
            );
            match (number, column + 1 == columns) {
                (true, _) => text += &format!("{pad}{shown}  "),
                (false, false) => text += &format!("{shown}{pad}  "),
                (false, true) => text += &shown,
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    if let Some(PeerSource { kind, origin, failing: Some(failing) }) = &report.peer_source {
        let (kind, origin, error) =
            (output::foreign(kind), output::foreign(origin), output::foreign(&failing.error));
        let lasting = human::duration(failing.lasting_ms);
        let warning = format!("told by {kind} {origin}, which fails for {lasting}: {error}");
        text += &format!("\n{}\n", output::styled(BAD, &warning));
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_columns() {
        let report: Report = serde_json::from_value(serde_json::json!({
            "self": "a:1051", "epoch": 7, "peers": [
                {"grpc_address": "a:1051", "data_center": "", "is_self": true, "share": 0.5, "state": "up",
                 "since_ms": 0, "last_error": null, "last_error_age_ms": null, "queued": 0, "in_flight": 0,
                 "calls": 0, "failures": 0, "fallbacks": 0},
                {"grpc_address": "b:1051", "data_center": "", "is_self": false, "share": 0.5, "state": "down",
                 "since_ms": 58_000, "last_error": "refused\u{1b}[2J", "last_error_age_ms": 1_500, "queued": 12,
                 "in_flight": 1_000, "calls": 1_234_567, "failures": 3, "fallbacks": 2},
            ],
            "peer_source": {"kind": "file", "origin": "peers", "failing": {"error": "gone\u{1b}[2J", "lasting_ms": 1_500}},
        }))
        .unwrap();
        let text = anstream::adapter::strip_str(&render(&report, 60_000, &TimeZone::UTC)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "a:1051 sees 2 peers (epoch 7)");
        let columns = |line: &str| {
            line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(columns(lines[2])[..4], ["PEER", "SHARE", "STATE", "SINCE"]);
        assert_eq!(
            columns(lines[3])[..4],
            ["a:1051 (this node)", "50.0 %", "up", "1 min ago (1970-01-01 00:00:00 UTC)"]
        );
        let down = columns(lines[4]);
        assert_eq!(
            down[2..],
            [
                "down",
                "2 s ago (1970-01-01 00:00:58 UTC)",
                "12",
                "1 000",
                "1 234 567",
                "3",
                "2",
                r"1.5 s ago: refused\u{1b}[2J",
            ]
        );
        assert_eq!(lines[2].find("STATE"), lines[4].find("down"));
        assert_eq!(lines[6], r"told by file peers, which fails for 1.5 s: gone\u{1b}[2J");
    }
}
