//! `flyball bench`: a load generator for anything that speaks the V1 service.
//!
//! [`pace`] decides when calls are sent, [`questions`] what they ask, [`wire`] how; [`load`] sends them,
//! [`tally`] counts, and [`report`] tells. This file is the command line and the order of events.

mod load;
mod pace;
mod questions;
mod report;
mod tally;
mod wire;

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use flyball_server::shutdown::Signals;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::address;
use crate::exit::{self, Exit};
use crate::human::short;
use crate::limit::{self, Window};
use crate::output;
use load::{Glance, Load, Plan};
use pace::{Length, Schedule};
use questions::{Order, Questions};
use report::{Report, Settings};
use wire::{Protocol, Target};

/// Put a node under load and measure it
///
/// With --rate the loop is open: calls are sent at that rate whatever the answers do, and latency counts from
/// the moment a call was meant to be sent. Without --rate the loop is closed: each of --concurrency callers
/// sends its next call when it has its answer. Use the closed loop to find how much a node can take, the open
/// one, at less than that, to find how quickly it answers.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How to speak to the node
    #[arg(long, value_enum, default_value_t = Protocol::Grpc, hide_possible_values = true, value_name = "grpc|http")]
    protocol: Protocol,
    /// The node's address
    #[arg(long, value_name = "HOST:PORT", value_parser = address::callable)]
    address: Option<String>,
    #[command(flatten, next_help_heading = "TLS")]
    tls: crate::tls::Args,

    /// Open loop: calls per second, all callers together
    #[arg(long, value_name = "CALLS/S", value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Load")]
    rate: Option<u64>,
    /// Callers: the most calls under way at once [default: 64; with --rate 1024; over HTTP 16, with --rate 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Load")]
    concurrency: Option<u32>,
    /// Connections the callers share [default: 4; over HTTP one for each caller, and nothing else is possible]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Load")]
    connections: Option<u32>,
    /// How long to measure
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = measurable, conflicts_with = "requests", help_heading = "Load")]
    time: Duration,
    /// Measure so many calls instead of a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Load")]
    requests: Option<u64>,
    /// How long to send calls before measuring; 0s for none
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = limit::milliseconds, help_heading = "Load")]
    warmup: i64,
    /// How long a caller waits for an answer before the call counts as failed
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = limit::length, help_heading = "Load")]
    timeout: Duration,
    /// Threads of the generator [default: half the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Load")]
    threads: Option<u32>,

    /// Different keys
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000), help_heading = "Questions")]
    keys: u64,
    /// How unevenly keys are asked for: the exponent of a Zipf distribution; 0 asks for all alike
    #[arg(
        long,
        value_name = "EXPONENT",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        help_heading = "Questions"
    )]
    skew: f64,
    /// Ask for one key after the other instead of at random
    #[arg(long, conflicts_with = "skew", help_heading = "Questions")]
    sequential: bool,
    /// Bytes of each key; numbers are filled up with zeros
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4_096), help_heading = "Questions")]
    key_bytes: u16,
    /// Seed of the random keys: the same seed asks the same questions
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Questions")]
    seed: u64,
    /// Items in each call
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000), help_heading = "Questions")]
    batch: u16,
    /// The name of the limit
    #[arg(long, default_value = "bench", help_heading = "Questions")]
    name: String,
    /// Units per duration
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        allow_negative_numbers = true,
        help_heading = "Questions"
    )]
    limit: i64,
    /// How long a limit lasts: a length like 1m, or a calendar interval (minute, hour, …)
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = "Questions")]
    duration: Window,
    #[command(flatten, next_help_heading = "Questions")]
    check: limit::Args,

    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  flyball bench                              how many single checks does the local node take?
  flyball bench --rate 5000 --time 30s       how quickly does it answer at 5000 calls a second?
  flyball bench --batch 1000 --keys 1000000 --skew 1.1
  flyball bench --protocol http --json | jq .latency_us

Progress is shown while standard error is a terminal. Ctrl-C ends the run and reports what was
measured so far; a second Ctrl-C does not wait for the calls under way.

Latency is that of all calls that were answered or timed out, from a histogram with three
significant digits; a call that fell due and could not be sent before the end is in no percentile.
In an open loop latency counts from the intended moment; \"sent late\" is the part of it that the
call spent in the generator. When that part is large, the callers or the machine are too few for the
rate.

JSON: protocol, address, rate, concurrency, connections, batch, keys, skew, seed, interrupted,
elapsed_s, calls, calls_per_s, decisions, decisions_per_s, over_limit, never_fits, scheduled,
failed_calls, failed_items, errors {kind: count}, unsent, and latency_us and lag_us
{p50, p90, p99, p99.9, max, mean}.

Exit codes:
  0  measured
  1  the node cannot be reached, or not one call was answered
  2  the command line makes no sense

Environment:
  GUBER_GRPC_ADDRESS, GUBER_HTTP_ADDRESS
            the address without --address; a wildcard means this machine
            [otherwise 127.0.0.1:1051 for gRPC, 127.0.0.1:1050 for HTTP]
  GUBER_TLS_…
            any of the daemon's variables for TLS: speak TLS as the daemon does with its peers";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (load, settings, threads) = prepare(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let report = runtime.block_on(measure(args, &load, settings))?;
    output::print(&if args.json { serde_json::to_string(&report)? + "\n" } else { report.text() })?;
    if report.calls == 0 {
        bail!("not one call was answered");
    }
    Ok(Exit::Success)
}

/// Checks what clap cannot, and builds the load.
fn prepare(args: &Args) -> anyhow::Result<(Load, Settings, usize)> {
    if !(args.skew.is_finite() && args.skew >= 0.0) {
        return Err(exit::usage("bench", format!("--skew {}: expected a number of 0 or more", args.skew)));
    }
    let needed = questions::digits(args.keys);
    if usize::from(args.key_bytes) < needed {
        let message = format!("--key-bytes {}: {} keys need at least {needed}", args.key_bytes, args.keys);
        return Err(exit::usage("bench", message));
    }
    let (listener, callers) = match (args.protocol, args.rate) {
        (Protocol::Grpc, None) => (address::GRPC, 64),
        (Protocol::Grpc, Some(_)) => (address::GRPC, 1_024),
        (Protocol::Http, None) => (address::HTTP, 16),
        (Protocol::Http, Some(_)) => (address::HTTP, 128),
    };
    let connections = match (args.protocol, args.concurrency, args.connections) {
        (Protocol::Grpc, callers_given, given) => given.unwrap_or(4).min(callers_given.unwrap_or(callers)),
        (Protocol::Http, Some(callers), Some(connections)) if callers != connections => {
            return Err(exit::usage(
                "bench",
                "over HTTP each caller has its own connection: give only one of \
                                             --concurrency and --connections",
            ));
        }
        (Protocol::Http, callers_given, given) => callers_given.or(given).unwrap_or(callers),
    };
    let callers = match args.protocol {
        Protocol::Grpc => args.concurrency.unwrap_or(callers),
        Protocol::Http => connections,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or((cores / 2).max(1), |threads| threads as usize);
    let order = if args.sequential { Order::Sequential } else { Order::Random { skew: args.skew } };
    let address = listener.target(args.address.clone(), None)?;
    let item = args.check.request(&args.name, "", args.limit, args.duration);
    let load = Load::new(Plan {
        target: Target::new(args.protocol, address.clone(), args.tls.client(None, args.protocol.alpn())?)?,
        questions: Questions::new(
            args.protocol,
            &item,
            args.batch.into(),
            (args.keys, args.key_bytes.into()),
            order,
            args.seed,
        )?,
        schedule: args.rate.map(|rate| Schedule { rate }),
        callers: callers as usize,
        connections: connections as usize,
        timeout: args.timeout,
        threads,
    });
    let settings = Settings {
        protocol: args.protocol,
        address,
        rate: args.rate,
        concurrency: callers as usize,
        connections: connections as usize,
        batch: args.batch.into(),
        keys: args.keys,
        skew: (!args.sequential).then_some(args.skew),
        seed: args.seed,
    };
    Ok((load, settings, threads))
}

async fn measure(args: &Args, load: &Load, settings: Settings) -> anyhow::Result<Report> {
    // From here on Ctrl-C no longer ends the process by itself.
    let mut signals = Signals::of_process().context("cannot wait for Ctrl-C")?;
    tokio::select! {
        reached = load.reach() => reached.map_err(|failure| unreached(failure, &settings))?,
        _ = signals.next() => bail!("interrupted before anything was measured"),
    }
    let warmup = Duration::from_millis(args.warmup.max(0).unsigned_abs());
    if !warmup.is_zero() {
        let progress = Progress::new("warming up", Length::Time(warmup));
        let warmed = load.phase(Length::Time(warmup), &mut signals, |glance| progress.show(glance)).await?;
        progress.end();
        if warmed.interrupted {
            bail!("interrupted before anything was measured");
        }
    }
    let length = args.requests.map_or(Length::Time(args.time), Length::Calls);
    let progress = Progress::new("measuring", length);
    let measured = load.phase(length, &mut signals, |glance| progress.show(glance)).await?;
    progress.end();
    Ok(Report::new(settings, &measured.tally, measured.elapsed, measured.unsent, measured.interrupted))
}

/// Why nothing is measured at this address.
fn unreached(failure: wire::Failure, settings: &Settings) -> anyhow::Error {
    let (spoken, other) = match settings.protocol {
        Protocol::Grpc => ("gRPC", "HTTP"),
        Protocol::Http => ("HTTP", "gRPC"),
    };
    let address = &settings.address;
    if failure.is_foreign() {
        let question = format!("is this the {other} port?");
        anyhow!("{address} does not answer as a node's {spoken} port does ({failure}); {question}")
    } else {
        anyhow!("cannot reach a node at {address}: {failure}")
    }
}

/// Parses how long to measure. In less than this there may be no answer at all, and no number means anything.
fn measurable(text: &str) -> Result<Duration, String> {
    match limit::length(text)? {
        time if time < Duration::from_millis(100) => Err("expected at least 100ms".to_owned()),
        time => Ok(time),
    }
}

/// What is shown next to the bar, narrow whatever the numbers are.
fn told(glance: Glance) -> String {
    let per_second = |number: u64| short((number as f64 / glance.elapsed.as_secs_f64().max(1e-3)) as u64);
    let mut text = format!(
        "{} calls/s, {} items/s, {} over",
        per_second(glance.calls),
        per_second(glance.decisions),
        short(glance.over_limit)
    );
    if glance.failed > 0 {
        text.push_str(&format!(", {} failed", short(glance.failed)));
    }
    text
}

/// With the 24 columns of the words and the bar before it, a line of a terminal of 80.
#[cfg(test)]
const GLANCE_CHARS_MAX: usize = 56;

/// The bar on standard error; where that is no terminal, nothing.
struct Progress {
    bar: ProgressBar,
    length: Length,
}

impl Progress {
    fn new(what: &'static str, length: Length) -> Self {
        let whole = match length {
            Length::Time(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            Length::Calls(calls) => calls,
        };
        let bar = ProgressBar::with_draw_target(Some(whole), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:10}] {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what);
        Self { bar, length }
    }

    fn show(&self, glance: Glance) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_message(told(glance));
        self.bar.set_position(match self.length {
            Length::Time(_) => u64::try_from(glance.elapsed.as_millis()).unwrap_or(u64::MAX),
            Length::Calls(_) => glance.calls,
        });
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_fits_a_terminal_of_80_columns() {
        let elapsed = Duration::from_secs(2);
        let glance = Glance { elapsed, calls: 24_690, decisions: 2_469_000, over_limit: 999, failed: 0 };
        assert_eq!(told(glance), "12.3k calls/s, 1.23M items/s, 999 over");
        for number in [0, 999_999, 12_345_678, u64::MAX] {
            let glance =
                Glance { elapsed, calls: number, decisions: number, over_limit: number, failed: number };
            assert!(told(glance).chars().count() <= GLANCE_CHARS_MAX, "{}", told(glance));
        }
    }

    #[test]
    fn nothing_is_measured_in_no_time() {
        assert_eq!(measurable("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(measurable("1ms"), Err("expected at least 100ms".to_owned()));
    }
}
