//! `cargo xtask bench`: what flyball costs, beside the floor of its libraries and the original.
//!
//! Wall time on a shared machine wanders far more than the CPU time of the server's process, so that is what is
//! compared, in medians of several rounds which visit all servers in turn. All servers are measured in one run:
//! figures of two runs are never set in relation, and nothing here could.

pub mod cluster;
mod cost;
mod footprint;
mod http;
mod load;
mod machine;
mod report;
mod servers;
mod stats;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use crate::process::{capture, cargo, find_on_path};
use crate::test::executable;
use crate::tools::{Tool, Toolbox};
use cost::Rounds;
use load::{Kind, Load, write_body};
use machine::{Machine, Meter};
use report::Report;
use servers::{Program, Server, Who};

/// What to measure.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Gubernator v2.21.0; without it the one on the PATH, else one that is installed by Go.
    #[arg(long, value_name = "PATH", conflicts_with = "no_gubernator")]
    gubernator: Option<PathBuf>,
    /// Measure flyball against the floor alone.
    #[arg(long)]
    no_gubernator: bool,
    /// A second per measurement and a tenth of the keys: to see that all works, not for figures.
    #[arg(long)]
    quick: bool,
    /// Rounds, each visiting every server.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Cargo profile of flyball and the floor.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Also write all figures to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and prints the report.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut machine = Machine::look()?;
    let meter = Meter::new()?;
    let (programs, h2load) = programs(arguments)?;
    let folder = Scratch::new()?;
    let rounds =
        Rounds { rounds: usize::from(arguments.rounds), seconds: if arguments.quick { 1 } else { 4 } };
    let keys = if arguments.quick { 100_000 } else { 1_000_000 };

    let mut footprints = BTreeMap::new();
    for program in programs.iter().filter(|program| program.who.has_http()) {
        println!("memory and start of {}, {keys} keys", program.who.name());
        let program = Program { cache_size: Some(keys * 2), ..program.clone() };
        footprints.insert(program.who, footprint::measure(&program, &folder.0, &h2load, keys)?);
    }

    let started =
        programs.iter().map(|program| Ok(program.start(&folder.0)?.0)).collect::<Result<Vec<Server>>>();
    let servers = started?;
    let mut costs = Vec::new();
    for (name, kind) in [
        ("gRPC, 1 item", Kind::Grpc { items: 1 }),
        ("gRPC, 1000 items", Kind::Grpc { items: 1_000 }),
        ("HTTP/JSON, 1 item", Kind::Json),
    ] {
        println!("{name}: {} rounds", rounds.rounds);
        let body = write_body(&folder.0, "body", &kind.body())?;
        let load = Load { h2load: h2load.clone(), kind, body };
        costs.push((name, cost::measure(&load, &servers, rounds, meter)?));
    }
    machine.finish()?;

    let report = Report { machine, profile: arguments.profile.clone(), rounds, costs, footprints };
    println!("\n{}", report.markdown());
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&report).context("the report cannot be written as JSON")?;
        std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The binaries of all servers, built or installed, and h2load.
fn programs(arguments: &Arguments) -> Result<(Vec<Program>, PathBuf)> {
    let found = arguments.gubernator.clone().or_else(|| find_on_path("gubernator"));
    let mut wanted = vec![Tool::H2load];
    if found.is_none() && !arguments.no_gubernator {
        wanted.push(Tool::Gubernator);
    }
    let toolbox = Toolbox::start(wanted)?;
    let [flyball, floor] = build(&arguments.profile)?;
    let program = |who, path| Program { who, path, cache_size: None };
    let mut programs = vec![program(Who::Flyball, flyball), program(Who::Floor, floor)];
    if !arguments.no_gubernator {
        let path = match found {
            Some(path) if path.is_file() => path,
            Some(path) => bail!("there is no file {}", path.display()),
            None => toolbox
                .path(Tool::Gubernator, "GUBERNATOR")
                .context("name one with --gubernator PATH, or leave it out with --no-gubernator")?,
        };
        programs.push(program(Who::Gubernator, path));
    }
    Ok((programs, toolbox.path(Tool::H2load, "H2LOAD")?))
}

/// flyball and the floor, built together so that they share every dependency.
fn build(profile: &str) -> Result<[PathBuf; 2]> {
    println!("building flyball and the floor, profile {profile}");
    let names = ["flyball", "flyball-floor"];
    let packages = ["build", "--package", "flyball-cli", "--package", "flyball-floor", "--profile", profile];
    let messages = capture(cargo(packages).args(["--message-format", "json-render-diagnostics"]))?;
    let [flyball, floor] = names.map(|name| {
        executable(&messages, name).ok_or_else(|| anyhow!("cargo built no executable named {name}"))
    });
    Ok([flyball?, floor?])
}

/// A folder for bodies and logs that goes away at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("flyball-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}
