//! What holds for the whole command line.

use super::support::{flyball, run};

#[test]
fn p35_an_unknown_flag_is_a_usage_error_wherever_it_stands() {
    for line in [
        "--foo",
        "serve --foo",
        "serve --foo --config x",
        "check a b --limit 1 --duration 1s --foo",
        "nonsense",
        "",
    ] {
        let ended = run(&mut flyball(line.split_whitespace()));
        assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
        assert!(ended.err.contains("Usage:") && ended.out.is_empty(), "{line}: {ended:?}");
    }
    assert!(run(&mut flyball(["serve", "--foo"])).err.contains("--foo"));
}

#[test]
fn values_that_make_no_sense_together_are_usage_errors_too() {
    for (line, names) in [
        ("bench --keys 1000 --key-bytes 2", "--key-bytes 2: 1000 keys need at least 3"),
        ("bench --skew -1", "--skew -1"),
        ("bench --skew=-1", "--skew -1"),
        ("bench --skew NaN", "--skew NaN"),
        ("bench --protocol http --concurrency 2 --connections 3", "--concurrency"),
        ("bench --time 1s --requests 5", "--requests"),
        ("check a b --limit 1 --duration 5", "--duration"),
        ("check a b --limit 1 --duration 1s --wait", "--max-wait"),
        ("check a b --limit 1", "--duration"),
        ("healthcheck --attempts 0", "--attempts"),
        ("healthcheck --address localhost", "--address <HOST:PORT>': the port is missing"),
        ("check a b --limit 1 --duration 1s --address a:0", "--address <HOST:PORT>': '0' is not a port"),
        ("bench --address https://a:1", "--address <HOST:PORT>': write host:port, and --tls beside it"),
        ("bench --time 1ms", "--time <DURATION>': expected at least 100ms"),
    ] {
        let ended = run(&mut flyball(line.split_whitespace()));
        assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
        assert!(ended.err.contains(names), "{line}: {ended:?}");
    }
}

#[test]
fn the_flags_of_the_original_have_a_hint() {
    for (line, hint) in [
        ("-config gubernator.conf", "flyball serve --config"),
        ("serve -config=gubernator.conf", "flyball serve --config"),
        ("serve -debug", "flyball serve --debug"),
    ] {
        let ended = run(&mut flyball(line.split(' ')));
        assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
        assert!(ended.err.contains(hint), "{line}: {ended:?}");
    }
    assert!(!run(&mut flyball(["serve", "-x"])).err.contains("two dashes"));
}

#[test]
fn p35_help_and_version_are_answers() {
    for line in ["--version", "version", "-V"] {
        let ended = run(&mut flyball([line]));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        assert!(
            ended.out.starts_with(concat!("flyball ", env!("CARGO_PKG_VERSION"), " (commit ")),
            "{ended:?}"
        );
    }
    let json = run(&mut flyball(["version", "--json"])).json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["os"], std::env::consts::OS);
    // Known to whoever has git and a repository.
    let git = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output();
    if git.is_ok_and(|git| git.status.success()) && std::path::Path::new("../../.git").exists() {
        assert!(json["commit"].as_str().is_some_and(|commit| commit.len() >= 7), "{json}");
    }
    for command in [
        "serve",
        "check",
        "healthcheck",
        "config",
        "cluster",
        "peers",
        "ring",
        "bench",
        "version",
        "completions",
    ] {
        let ended = run(&mut flyball([command, "--help"]));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{command}");
        assert!(ended.out.contains(&format!("Usage: flyball {command}")), "{command}: {}", ended.out);
    }
}

#[test]
fn help_is_coloured_only_when_it_may_be() {
    let coloured = |variables: &[(&str, &str)], line: &str| {
        let ended = run(flyball(line.split(' ')).envs(variables.iter().copied()));
        format!("{}{}", ended.out, ended.err).contains('\x1b')
    };
    for line in
        ["check --help", "check --nonsense", "check a b --limit 1 --duration 1s --address 127.0.0.1:1"]
    {
        assert!(!coloured(&[], line), "piped: {line}");
        assert!(!coloured(&[("NO_COLOR", "1"), ("TERM", "xterm-256color")], line), "{line}");
        assert!(coloured(&[("CLICOLOR_FORCE", "1"), ("TERM", "xterm-256color")], line), "{line}");
    }
}

#[test]
fn every_shell_gets_completions_that_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ended = run(&mut flyball(["completions", shell]));
        assert_eq!(ended.code, Some(0), "{shell}");
        assert!(ended.out.contains("healthcheck") && ended.out.contains("grpc-address"), "{shell}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut command = flyball(["completions", "bash"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
