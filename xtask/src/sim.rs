//! `cargo xtask sim`: builds the simulator as the tests are built, and runs seeds.

use std::process::Command;

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::process::{capture, cargo, root, run as run_shown};
use crate::test::executable;

/// Which seeds.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The first; by default from the clock.
    #[arg(long)]
    start: Option<u64>,
    /// Only this one, with what happened last.
    #[arg(long, conflicts_with_all = ["seeds", "start"])]
    seed: Option<u64>,
    /// With --seed: how many lines of what happened last are shown.
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Run all seeds, and name those that fail.
    #[arg(long)]
    keep_going: bool,
}

/// `cargo xtask sim`.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut command = simulator()?;
    match arguments.seed {
        Some(seed) => {
            command.args(["--seed", &seed.to_string(), "--lines", &arguments.lines.to_string()]);
        }
        None => {
            command.args(["--seeds", &arguments.seeds.to_string()]);
            if let Some(start) = arguments.start {
                command.args(["--start", &start.to_string()]);
            }
        }
    }
    if arguments.keep_going {
        command.arg("--keep-going");
    }
    run_shown(&mut command)
}

/// So many seeds that nobody has run before.
pub fn fresh(seeds: u64) -> Result<()> {
    run_shown(simulator()?.args(["--seeds", &seeds.to_string()]))
}

fn simulator() -> Result<Command> {
    let build = [
        "build",
        "--profile",
        "test",
        "--package",
        "flyball-sim",
        "--example",
        "flyball-sim",
        "--message-format",
        "json-render-diagnostics",
    ];
    let messages =
        capture(cargo(build).args(["--package", "flyball-sim"])).context("the simulator does not build")?;
    let path = executable(&messages, "flyball-sim")
        .ok_or_else(|| anyhow!("cargo built no executable named flyball-sim"))?;
    let mut command = Command::new(path);
    command.current_dir(root());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The README's first command is `cargo run --release -- serve`, without a name.
    #[test]
    fn cargo_run_means_the_daemon() {
        let metadata = capture(&mut cargo(["metadata", "--no-deps", "--format-version", "1"])).unwrap();
        let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
        let default = metadata["workspace_default_members"].as_array().unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        let targets = packages
            .filter(|package| default.contains(&package["id"]))
            .flat_map(|package| package["targets"].as_array().unwrap());
        let binaries = targets.filter(|target| target["kind"][0] == "bin");
        assert_eq!(binaries.map(|target| target["name"].as_str().unwrap()).collect::<Vec<_>>(), ["flyball"]);
    }
}
