//! The unit, read by systemd.

use std::fs;

use flyball_tests::deploy::read;
use flyball_tests::tools::{Tool, run};

/// The unit in a folder of its own, with the binary where the tests have it: systemd looks whether it can be run.
fn installed() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flyball.service");
    let binary = Tool::Flyball.path();
    let unit = read("deploy/systemd/flyball.service").unwrap();
    assert_eq!(unit.matches("=/usr/local/bin/flyball ").count(), 2);
    fs::write(&path, unit.replace("/usr/local/bin/flyball", binary.to_str().unwrap())).unwrap();
    (folder, path)
}

#[test]
fn systemd_has_nothing_to_say_against_it() {
    let (_folder, path) = installed();
    let output =
        run(Tool::SystemdAnalyze.command().args(["verify", "--man=no", "--recursive-errors=no"]).arg(&path))
            .unwrap();
    // Units of the machine are looked at too, and are nobody's business here.
    let ours = |text: &str| {
        text.lines().filter(|line| line.contains("flyball")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(output.success && ours(&output.stderr).is_empty(), "{}", output.stderr);
}

/// 2.0 is what systemd calls well protected.
#[test]
fn the_service_can_do_little() {
    let (_folder, path) = installed();
    let mut analyze = Tool::SystemdAnalyze.command();
    analyze.args(["security", "--offline=yes", "--threshold=20", "--no-pager"]).arg(&path);
    let output = run(&mut analyze).unwrap();
    assert!(output.success, "{}\n{}", output.stdout, output.stderr);
}

/// What it starts is what the binary understands.
#[test]
fn its_commands_are_the_binarys() {
    let unit = read("deploy/systemd/flyball.service").unwrap();
    for line in unit.lines().filter(|line| line.starts_with("ExecStart")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let mut flyball = flyball_tests::binary::clean(&Tool::Flyball.path());
        run(flyball.args(&words).arg("--help")).unwrap().expect_success();
    }
}
