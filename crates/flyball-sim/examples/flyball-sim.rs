//! Runs seeds until one fails.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use flyball_sim::fault::Fault;
use flyball_sim::run;

/// Simulates clusters, one per seed.
#[derive(Debug, Parser)]
struct Cli {
    /// How many.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The first seed; by default from the clock.
    #[arg(long)]
    start: Option<u64>,
    /// Only this one, with what happened last.
    #[arg(long)]
    seed: Option<u64>,
    /// Run all seeds, and name those that fail.
    #[arg(long)]
    keep_going: bool,
    /// With --seed: how much of what happened last is shown.
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Let the nodes do something wrong.
    #[arg(long)]
    fault: Option<Fault>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(seed) = cli.seed {
        return match run(seed, cli.fault, cli.lines) {
            Ok(passed) => {
                println!("seed {seed} passed: {} checks, digest {:016x}", passed.checks, passed.digest);
                ExitCode::SUCCESS
            }
            Err(failed) => {
                println!("{failed}");
                ExitCode::FAILURE
            }
        };
    }
    let start = cli.start.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_millis() as u64
    });
    println!("{} seeds from {start}", cli.seeds);
    let began = Instant::now();
    let (mut checks, mut failures) = (0, 0);
    for seed in start..start.saturating_add(cli.seeds) {
        match run(seed, cli.fault, 0) {
            Ok(passed) => checks += passed.checks,
            Err(failed) if cli.keep_going => {
                failures += 1;
                println!("seed {seed}: {}", failed.violation);
            }
            Err(failed) => {
                println!("{failed}");
                return ExitCode::FAILURE;
            }
        }
    }
    if failures > 0 {
        println!("{failures} of {} seeds failed", cli.seeds);
        return ExitCode::FAILURE;
    }
    println!("all passed: {checks} checks in {:.1} s", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
