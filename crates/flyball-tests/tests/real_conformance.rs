//! The recorded answers against the running binary, by both tools: the Rust runner and `replay`. And the Rust
//! runner against the original itself, which proves the runner.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::path::PathBuf;

use flyball_tests::binary::{Launch, Server};
use flyball_tests::conformance::{self, Options, Report};
use flyball_tests::tools::{Tool, run};

/// The special starts that count, and the setting that makes them.
const STARTS: [(&str, &str, &str); 2] =
    [("low-ceiling", "GUBER_SCHEDULE_MAX_WAIT", "100s"), ("force-global", "GUBER_FORCE_GLOBAL", "true")];

fn by_runner(server: &Server, slow: bool, have: Option<&'static str>) -> Report {
    let report = conformance::run_all(&Options { have, slow, ..Options::new(server.http()) }).unwrap();
    println!("{report}");
    assert!(report.failed.is_empty(), "{report}");
    report
}

#[test]
fn rust_runner_passes_on_the_binary() {
    let server = Launch::flyball_like_gubernator().start().unwrap();
    let report = by_runner(&server, true, None);
    assert_eq!(report.passed, 1_167);
    server.stop().unwrap();
}

#[test]
fn rust_runner_passes_on_special_starts_of_the_binary() {
    for (have, variable, value) in STARTS {
        let server = Launch::flyball_like_gubernator().variable(variable, value).start().unwrap();
        assert!(by_runner(&server, false, Some(have)).passed > 0);
    }
}

/// A runner that calls right answers wrong, or cannot tell, is of no use: the answers came from here.
#[test]
fn rust_runner_passes_on_the_original() {
    let server = Launch::gubernator().start().unwrap();
    assert_eq!(by_runner(&server, false, None).passed, 1_166);
    for (have, variable, value) in STARTS {
        let server = Launch::gubernator().variable(variable, value).start().unwrap();
        assert!(by_runner(&server, false, Some(have)).passed > 0);
    }
}

/// And it must be able to fail: exact semantics give other answers to many of the recorded questions.
#[test]
fn rust_runner_fails_on_exact_semantics() {
    let server = Launch::flyball().start().unwrap();
    let report = conformance::run_all(&Options::new(server.http())).unwrap();
    assert!(!report.failed.is_empty(), "{report}");
}

fn by_replay(server: &Server, arguments: &[&str], files: &[PathBuf]) {
    let mut command = Tool::Python.command();
    command.arg(Tool::Replay.path()).args(["--http", &server.http().to_string()]).args(arguments).args(files);
    let output = run(&mut command).unwrap();
    println!("{}", output.stdout);
    let said = output.clone().expect_success();
    assert!(said.contains(" passed, 0 failed"), "{output:?}");
}

#[test]
fn replay_tool_passes_on_the_binary() {
    let server = Launch::flyball_like_gubernator().start().unwrap();
    let (loose, strict): (Vec<PathBuf>, Vec<PathBuf>) =
        conformance::vectors().unwrap().into_iter().partition(|file| conformance::is_loose(file));
    by_replay(&server, &["--slow"], &strict);
    by_replay(&server, &["--loose-errors"], &loose);
    for (have, variable, value) in STARTS {
        let server = Launch::flyball_like_gubernator().variable(variable, value).start().unwrap();
        by_replay(&server, &["--have", have], &strict);
    }
}
