//! `flyball serve`: the daemon, from the command line to the exit code. What it does in between is
//! [`flyball_server`].

use anyhow::Context as _;
use flyball_server::config::{self, Config, Loaded, LogFormat, LogLevel, ServeArgs};
use flyball_server::daemon::Daemon;
use flyball_server::shutdown::{Signal, Signals};
use flyball_server::telemetry::logs::{self, Shape};
use tracing::level_filters::LevelFilter;

use crate::exit::Exit;
use crate::version;

/// Run a node
///
/// Without any configuration it is a healthy cluster of one that answers gRPC on 127.0.0.1:1051 and HTTP on
/// 127.0.0.1:1050. Settings come, from weakest to strongest, from the defaults, TOML files, the environment
/// (GUBER_… and FLYBALL_…), KEY=VALUE files, and flags; `flyball config` shows the outcome.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: ServeArgs,
    /// Stop gracefully when standard input ends: a node that `cluster` started does not outlive it
    #[arg(long, hide = true)]
    until_input_ends: bool,
}

const HELP: &str = "\
Examples:
  flyball serve
  flyball serve --grpc-address 0.0.0.0:1051 --http-address 0.0.0.0:1050
  flyball serve --config /etc/gubernator.conf --semantics gubernator

A start that fails is one line on standard error, in the log's format once the configuration is valid.
SIGTERM and SIGINT stop the node gracefully, within a bound; a second signal stops it at once. SIGHUP makes it
read its certificates again, if it speaks TLS.

Exit codes:
  0  stopped because it was asked to
  1  it could not start: all mistakes in the configuration are listed, or the port that is in use
  2  the command line makes no sense
  128 + the signal's number  stopped at once by a second signal

Environment:
  every setting has a variable; `flyball serve --help` and docs/configuration.md name them";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = config::load(&args.settings, std::env::vars_os(), config::read_file)?;
    log(&loaded.config)?;
    daemon(loaded, args.until_input_ends).or_else(|error| {
        // A start that fails is one line, and from here on the log decides what lines look like.
        if !tracing::enabled!(tracing::Level::ERROR) {
            return Err(error);
        }
        tracing::error!("{error:#}");
        Ok(Exit::Failure)
    })
}

fn daemon(loaded: Loaded, until_input_ends: bool) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads of the node")?;
    let outcome = runtime.block_on(async {
        // From here on a signal is kept, so that one during the start stops the node as soon as it runs.
        let signals = Signals::of_process().context("cannot wait for signals")?;
        let signals = if until_input_ends { with_input(signals)? } else { signals };
        let daemon = Daemon::start(loaded.config).await?;
        tracing::info!(version = version::line(), "flyball");
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Exit::Stopped(daemon.run(signals).await))
    });
    // Whatever did not end within the stop's bound is not waited for.
    runtime.shutdown_background();
    outcome
}

/// The process's signals, and one more when standard input ends, unless a signal came before: the end of the input
/// asks for a graceful stop and never makes it an immediate one.
fn with_input(mut process: Signals) -> anyhow::Result<Signals> {
    let (sender, signals) = Signals::channel();
    let (ended, mut input) = tokio::sync::oneshot::channel();
    // A thread of its own: a read cannot be given up, and nobody waits for this one at the end of the process.
    let watch = move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    };
    std::thread::Builder::new()
        .name("input".to_owned())
        .spawn(watch)
        .context("cannot watch standard input")?;
    let hangup = process.hangup();
    tokio::spawn(async move {
        let mut asked = false;
        loop {
            tokio::select! {
                biased;
                signal = process.next() => sender.send(signal),
                () = hangup.notified() => {
                    sender.hang_up();
                    continue;
                }
                _ = &mut input, if !asked => sender.send(Signal::Terminate),
            }
            asked = true;
        }
    });
    Ok(signals)
}

fn log(config: &Config) -> anyhow::Result<()> {
    let level = match config.log.level {
        // Nothing is logged at the two levels above errors.
        LogLevel::Panic | LogLevel::Fatal => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let shape = match config.log.format {
        LogFormat::Text => Shape::Text,
        LogFormat::Json => Shape::Json,
    };
    logs::init(level, shape).context("cannot start the log")
}
