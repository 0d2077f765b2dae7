//! Runs fuzz targets (`fuzz/fuzz_targets/*.rs`) with cargo-fuzz and a nightly compiler.
//!
//! New inputs go to `fuzz/corpus-work/TARGET`, which is not committed; the committed seeds in
//! `fuzz/corpus/TARGET` are only read. An input that crashes is kept in `fuzz/artifacts/TARGET`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use crate::process::{root, run as run_shown, shown, tail};
use crate::tools::{Tool, Toolbox};

/// Which target, and for how long.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A file of fuzz/fuzz_targets, without its ending.
    target: String,
    /// How long to run.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// `cargo xtask fuzz TARGET`.
pub fn run(arguments: &Arguments) -> Result<()> {
    let known = targets()?;
    if !known.contains(&arguments.target) {
        bail!("there is no fuzz target {:?}; there are: {}", arguments.target, known.join(", "));
    }
    let toolbox = Toolbox::start(vec![Tool::Nightly, Tool::CargoFuzz])?;
    toolbox.paths(Tool::Nightly)?;
    let cargo_fuzz = toolbox.path(Tool::CargoFuzz, "CARGO_FUZZ")?;
    run_shown(&mut one(&cargo_fuzz, &arguments.target, arguments.seconds)?)
}

/// Every target for so many seconds, as many at a time as there are cores.
pub fn all(cargo_fuzz: &Path, seconds: u64) -> Result<()> {
    run_shown(&mut with_nightly(cargo_fuzz, "build")?)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let targets = targets()?;
    let mut failed = Vec::new();
    for group in targets.chunks(cores) {
        let results: Vec<Result<()>> = thread::scope(|scope| {
            let running: Vec<_> = group
                .iter()
                .map(|target| scope.spawn(move || quietly(cargo_fuzz, target, seconds)))
                .collect();
            running.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(anyhow!("panicked")))).collect()
        });
        for (target, result) in group.iter().zip(results) {
            if let Err(error) = result {
                println!("{target}: {error:#}");
                failed.push(target.as_str());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("these fuzz targets failed: {}", failed.join(", ")) }
}

/// Runs one target and shows only how it ended.
fn quietly(cargo_fuzz: &Path, target: &str, seconds: u64) -> Result<()> {
    let mut command = one(cargo_fuzz, target, seconds)?;
    println!("$ {}", shown(&command));
    let output = command.stdin(Stdio::null()).output().context("cannot start cargo-fuzz")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{}; its output ends:\n{}", output.status, tail(&text, 40));
    }
    // libFuzzer's last words: how many inputs it ran.
    let done = text.lines().rev().find(|line| line.starts_with("Done ")).unwrap_or("ended without a count");
    println!("{target}: {done}");
    Ok(())
}

fn one(cargo_fuzz: &Path, target: &str, seconds: u64) -> Result<Command> {
    let work = root().join("fuzz/corpus-work").join(target);
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let mut command = with_nightly(cargo_fuzz, "run")?;
    command.arg(target).arg(work).arg(root().join("fuzz/corpus").join(target));
    // Memory is limited so that an input which makes us allocate without bound is found.
    command.arg("--").arg(format!("-max_total_time={seconds}"));
    command.args(["-rss_limit_mb=2048", "-timeout=10", "-max_len=65536"]);
    Ok(command)
}

/// `cargo +nightly fuzz <what>`, with the cargo-fuzz of the tool cache.
fn with_nightly(cargo_fuzz: &Path, what: &str) -> Result<Command> {
    let folder = cargo_fuzz.parent().context("cargo-fuzz has no folder")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter().chain(env::split_paths(&path));
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(["+nightly", "fuzz", what]).env("PATH", env::join_paths(folders)?);
    Ok(command)
}

/// The names of all targets, in order.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
