//! The project's chores, in Rust so that there is nothing to install: `cargo xtask help` lists them.
#![allow(unreachable_pub, reason = "in a binary `pub` means: used by other files")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

mod bench;
mod chores;
mod fuzz;
mod process;
mod seeds;
mod sim;
mod test;
mod tools;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run everything that CI runs: format, lints, dependencies, all tests, real components, fuzz targets.
    ///
    /// Changes no file of the repository. Tools that are missing are installed and kept by version in
    /// $FLYBALL_TOOLS, by default ~/.cache/flyball-tools.
    Test(test::Arguments),
    /// Format everything and apply what clippy can mend by itself.
    Fix,
    /// Write the generated protobuf code anew.
    Codegen,
    /// Write the reference pages, the example files and the seeds of the fuzz targets anew.
    Reference,
    /// Run one fuzz target.
    Fuzz(fuzz::Arguments),
    /// Simulate clusters, one per seed, until one breaks a promise.
    Sim(sim::Arguments),
    /// Install tools and print the variables by which the real-component tests find them.
    Tools {
        /// Which; none means all.
        names: Vec<tools::Tool>,
    },
    /// Measure flyball against the floor of its libraries and against Gubernator.
    Bench(bench::Arguments),
    /// Measure a cluster of three against three of Gubernator: forwarding, GLOBAL, broadcasts.
    BenchCluster(bench::cluster::Arguments),
}

fn main() -> ExitCode {
    let result = match Cli::parse().chore {
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Fix => chores::fix(),
        Chore::Codegen => chores::codegen(),
        Chore::Reference => chores::reference(),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Sim(arguments) => sim::run(&arguments),
        Chore::Tools { names } if names.is_empty() => {
            tools::print(<tools::Tool as clap::ValueEnum>::value_variants())
        }
        Chore::Tools { names } => tools::print(&names),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::BenchCluster(arguments) => bench::cluster::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
