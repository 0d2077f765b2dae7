//! `cargo xtask test`: every suite in an order that fails fast, with the tools they need installed meanwhile.

mod suites;

pub use suites::executable;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::tools::Toolbox;
use suites::{SUITES, Suite};

/// What to run.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run only this suite; may be given more than once.
    #[arg(long, value_name = "SUITE", value_parser = suite)]
    only: Vec<&'static Suite>,
    /// Go on after a suite has failed.
    #[arg(long)]
    keep_going: bool,
    /// List the suites and what they need, and run none.
    #[arg(long)]
    list: bool,
}

fn suite(name: &str) -> Result<&'static Suite, String> {
    let known = || SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
    SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| format!("the suites are {}", known()))
}

/// How a suite ended.
enum Outcome {
    Passed(Duration),
    Failed(Duration, String),
    NotRun,
}

/// Runs the suites; an error when one of them failed.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for suite in SUITES {
            println!("{:<10} {}", suite.name, suite.about);
        }
        return Ok(());
    }
    let chosen: Vec<&Suite> = if arguments.only.is_empty() {
        SUITES.iter().collect()
    } else {
        // In their own order, whatever order they were named in.
        SUITES.iter().filter(|suite| arguments.only.iter().any(|only| only.name == suite.name)).collect()
    };
    let toolbox = Toolbox::start(chosen.iter().flat_map(|suite| suite.tools).copied().collect())?;
    let began = Instant::now();
    let mut outcomes = Vec::new();
    let mut stopped = false;
    for suite in chosen {
        let outcome = if stopped { Outcome::NotRun } else { run_one(suite, &toolbox) };
        stopped |= matches!(outcome, Outcome::Failed(..)) && !arguments.keep_going;
        outcomes.push((suite.name, outcome));
    }
    drop(toolbox);
    conclude(&outcomes, began.elapsed())
}

fn run_one(suite: &Suite, toolbox: &Toolbox) -> Outcome {
    println!("\n==== {}: {}", suite.name, suite.about);
    let began = Instant::now();
    let result = (suite.run)(toolbox);
    let took = began.elapsed();
    match result {
        Ok(()) => {
            println!("---- {} passed in {:.1} s", suite.name, took.as_secs_f64());
            Outcome::Passed(took)
        }
        Err(error) => {
            let text = format!("{error:#}");
            println!("---- {} FAILED after {:.1} s: {text}", suite.name, took.as_secs_f64());
            Outcome::Failed(took, text)
        }
    }
}

/// Prints the table, and as the last line the counts that CI reads.
fn conclude(outcomes: &[(&str, Outcome)], total: Duration) -> Result<()> {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!("\n==== Summary");
    for (name, outcome) in outcomes {
        let (word, took) = match outcome {
            Outcome::Passed(took) => ("passed", Some(took)),
            Outcome::Failed(took, _) => ("FAILED", Some(took)),
            Outcome::NotRun => ("not run", None),
        };
        let took = took.map(|took| format!("{:>8.1} s", took.as_secs_f64())).unwrap_or_default();
        println!("{name:<10} {word:<8}{took}");
        match outcome {
            Outcome::Passed(_) => passed += 1,
            Outcome::Failed(..) => failed += 1,
            Outcome::NotRun => skipped += 1,
        }
    }
    println!("{:<10} {:<8}{:>8.1} s", "total", "", total.as_secs_f64());
    for (name, outcome) in outcomes {
        if let Outcome::Failed(_, text) = outcome {
            println!("\n{name}: {text}\nto run it again: cargo xtask test --only {name}");
        }
    }
    println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        bail!("{failed} of {} suites failed", outcomes.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_found_by_name_and_an_unknown_one_lists_them() {
        assert_eq!(suite("fuzz").unwrap().name, "fuzz");
        assert!(suite("fuz").unwrap_err().contains("fmt, "), "{:?}", suite("fuz"));
    }

    #[test]
    fn one_failure_fails_the_run_and_none_passes() {
        let second = Duration::from_secs(1);
        conclude(&[("fmt", Outcome::Passed(second))], second).unwrap();
        let error = conclude(
            &[("fmt", Outcome::Failed(second, "badly".to_owned())), ("tests", Outcome::NotRun)],
            second,
        );
        assert_eq!(error.unwrap_err().to_string(), "1 of 2 suites failed");
    }
}
