//! The `flyball` command. This file is the table of commands; each command is a file of its own, with its
//! arguments, its help text and its work together.
//!
//! A command returns how the process should end ([`exit::Exit`]) or an error. Only [`exit`] knows numbers, and
//! only [`output`] knows terminals.

mod address;
mod bench;
mod check;
mod cluster;
mod completions;
mod config;
mod exit;
mod fetch;
mod from_env;
mod healthcheck;
mod human;
mod limit;
mod output;
mod peers;
mod ring;
mod serve;
mod tls;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A rate limiter for fleets of services: one binary, wire-compatible with Gubernator v2.21.0.
#[derive(Parser, Debug)]
#[command(name = "flyball", version = version::line(), after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
Examples:
  flyball serve                                       a node on this machine
  flyball check api alice --limit 100 --duration 1m   may alice call once more this minute?
  flyball cluster --nodes 3                           a cluster on this machine, for trying things
  flyball bench --rate 5000 --time 30s                how fast is that node?

Exit codes, unless a command's help says more:
  0  done
  1  it failed; the reason is on standard error
  2  the command line makes no sense

Environment:
  NO_COLOR        when not empty, never colour the output (it is coloured only on a terminal anyway)
  CLICOLOR_FORCE  when not empty and not 0, colour it even where there is no terminal";

#[derive(Subcommand, Debug)]
enum Command {
    Serve(Box<serve::Args>),
    Check(check::Args),
    Healthcheck(healthcheck::Args),
    Config(Box<config::Args>),
    Cluster(cluster::Args),
    Peers(peers::Args),
    Ring(ring::Args),
    Bench(bench::Args),
    Version(version::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    let parsed = Cli::try_parse().map_err(|error| dashed(error, std::env::args_os()));
    let outcome = parsed.map_err(Into::into).and_then(|cli| match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Healthcheck(args) => healthcheck::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Peers(args) => peers::run(&args),
        Command::Ring(args) => ring::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Completions(args) => completions::run(&args),
    });
    exit::finish(outcome)
}

/// Adds a hint for those who come from the original, whose flags `-config` and `-debug` have one dash.
fn dashed(mut error: clap::Error, args: impl Iterator<Item = OsString>) -> clap::Error {
    const ORIGINAL: [&str; 2] = ["config", "debug"];
    if error.kind() == ErrorKind::UnknownArgument {
        let given = args.skip(1).filter_map(|arg| arg.into_string().ok()).find_map(|arg| {
            let (name, _) = arg.split_once('=').unwrap_or((&arg, ""));
            ORIGINAL.into_iter().find(|original| name.strip_prefix('-') == Some(original))
        });
        if let Some(name) = given {
            let tip = format!("flags have two dashes here: flyball serve --{name}");
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
