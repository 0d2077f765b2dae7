//! `flyball serve` and `flyball config`: starting, refusing to start, stopping.

use std::net::TcpListener;

use rustix::process::Signal;

use super::support::{Ended, Node, flyball, run};

fn serve(args: &str, env: &[(&str, &str)]) -> Ended {
    // Port 0, so that a start that should have failed does not disturb anybody.
    let ports =
        ["serve", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--log-level", "error"];
    run(flyball(ports).args(args.split_whitespace()).envs(env.iter().copied()))
}

#[test]
fn signals_stop_it_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let node = Node::start();
        let ended = node.stop_with(signal);
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{signal:?}: {ended:?}");
        assert!(ended.err.contains("\"msg\":\"stopped\""), "{ended:?}");
    }
}

#[test]
fn a_second_signal_stops_it_at_once() {
    let mut node = Node::start_with("--shutdown-delay 3600");
    node.signal_and_hear(Signal::TERM, "stopping; a second signal stops at once");
    let ended = node.stop_with(Signal::TERM);
    assert_eq!(ended.code, Some(143), "{ended:?}");
}

#[test]
fn a_port_in_use_is_one_line_that_says_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--grpc-address", "--http-address"] {
        let other = if flag == "--grpc-address" { "--http-address" } else { "--grpc-address" };
        let ended =
            run(&mut flyball(["serve", "--log-level", "error", flag, &address, other, "127.0.0.1:0"]));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let line = ended.error_line();
        assert!(line.contains(" level=error msg=\"cannot listen "), "{line}");
        assert!(line.contains(&address) && line.contains("in use"), "{line}");
    }
}

#[test]
fn a_failed_start_is_one_line_in_the_format_of_the_log() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // The misspelt variable is a warning of a node that starts.
    let start = |args: &str| {
        run(flyball(["serve", "--http-address", "127.0.0.1:0", "--grpc-address", &address])
            .args(args.split_whitespace())
            .env("GUBER_CACHE_SIEZ", "1"))
    };
    let json = start("--log-format json");
    assert_eq!((json.code, json.out.as_str()), (Some(1), ""), "{json:?}");
    let line: serde_json::Value = serde_json::from_str(json.error_line()).unwrap();
    assert_eq!(line["level"], "error");
    assert!(line["msg"].as_str().unwrap().contains(&address), "{line}");
    let text = start("");
    assert!(text.error_line().contains(" level=error msg="), "{text:?}");
    // Nothing is logged at this level, but nobody should have to guess.
    let silent = start("--log-level fatal --log-format json");
    assert_eq!(silent.code, Some(1));
    assert!(silent.error_line().starts_with("error: cannot listen "), "{silent:?}");
}

#[test]
fn a_node_that_runs_says_its_version_and_its_warnings() {
    let mut node = Node::start_with("--cache-size 5");
    let version = node.hear("flyball")["version"].as_str().unwrap().to_owned();
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
}

#[test]
fn a_configuration_file_that_cannot_be_read_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.conf").display().to_string();
    for path in [missing, folder.path().display().to_string()] {
        let ended = serve(&format!("--config {path}"), &[]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let line = ended.error_line();
        assert!(line.contains(&path) && line.contains("--config"), "{line}");
    }
}

#[test]
fn a_time_zone_nobody_knows_is_one_line() {
    let ended = serve("", &[("FLYBALL_TIME_ZONE", "Mars/Olympus")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let line = ended.error_line();
    assert!(line.contains("FLYBALL_TIME_ZONE") && line.contains("Mars/Olympus"), "{line}");
}

#[test]
fn p35_all_mistakes_are_listed_with_variable_value_and_expectation() {
    let mistakes =
        [("GUBER_BATCH_WAIT", "abc"), ("GUBER_CACHE_SIZE", "50k"), ("GUBER_GLOBAL_SYNC_WAIT", "-1s")];
    let validate = run(flyball(["config", "--validate"]).envs(mistakes));
    for ended in [serve("", &mistakes), validate] {
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        for (variable, value) in mistakes {
            let mut lines = ended.err.lines();
            assert!(
                lines
                    .any(|line| line.contains(&format!("{variable}='{value}'")) && line.contains("expected")),
                "{variable}: {ended:?}"
            );
        }
    }
    let json = run(flyball(["config", "--json"]).envs(mistakes));
    assert_eq!(json.code, Some(1));
    assert_eq!(json.json()["problems"].as_array().unwrap().len(), 3);
}

#[test]
fn a_bad_value_of_a_flag_is_a_usage_error() {
    let ended = serve("--cache-size many", &[]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.error_line().contains("--cache-size='many'"), "{ended:?}");
}

#[test]
fn config_shows_values_with_their_origin() {
    let folder = tempfile::tempdir().unwrap();
    let toml = folder.path().join("node.toml");
    std::fs::write(&toml, "time_zone = \"Europe/Vienna\"\n").unwrap();
    let ended = run(flyball(["config", "--semantics", "gubernator", "--config"])
        .arg(&toml)
        .env("GUBER_CACHE_SIZE", "123")
        .env("GUBER_CACHE_SIEZ", "1"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let row = |name: &str| {
        let row = ended.out.lines().find(|line| line.split_whitespace().next() == Some(name));
        row.unwrap_or_else(|| panic!("{name}: {ended:?}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("semantics")[1..], ["gubernator", "command", "line:", "--semantics"]);
    assert_eq!(row("cache.entries")[1..], ["123", "environment:", "GUBER_CACHE_SIZE"]);
    assert_eq!(row("time_zone")[1], "Europe/Vienna");
    assert!(row("time_zone")[2].ends_with("node.toml:"));
    assert_eq!(row("grpc.address")[2..], ["default"]);
    let warning = ended.error_line();
    assert!(
        warning.starts_with("warning: ") && warning.contains("did you mean GUBER_CACHE_SIZE?"),
        "{warning}"
    );

    // What nobody set is shown as it takes effect, and what only the start decides says so.
    assert_eq!(row("peer_picker.hash")[1..], ["fnv1", "default"]);
    assert_eq!(row("peer_picker.type")[1..], ["replicated-hash", "default"]);
    assert_eq!(row("node.advertise_address")[1..], ["127.0.0.1:1051", "default"]);
    assert!(row("cache.shards")[1].parse::<u32>().unwrap() >= 16);
    assert_eq!(row("node.instance_id")[1..], ["(chosen", "at", "start)", "default"]);

    let json =
        run(flyball(["config", "--json", "--semantics", "gubernator"]).arg("--config").arg(&toml)).json();
    let settings = json["settings"].as_array().unwrap();
    let semantics = settings.iter().find(|setting| setting["name"] == "semantics").unwrap();
    assert_eq!(
        (&semantics["value"], &semantics["origin"]),
        (&"gubernator".into(), &"command line: --semantics".into())
    );
    assert_eq!(json["problems"], serde_json::json!([]));

    let ring = |args: &str| {
        let json = run(flyball(["config", "--json"]).args(args.split_whitespace())).json();
        let settings = json["settings"].as_array().unwrap().clone();
        let hash = settings.iter().find(|setting| setting["name"] == "peer_picker.hash").unwrap();
        (hash["value"].as_str().unwrap().to_owned(), hash["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(ring("--peer-picker replicated-hash").0, "fnv1a");
    let (value, origin) = ring("--peer-picker-hash fnv1a");
    assert_eq!(value, "fnv1");
    assert!(origin.starts_with("default; without peer_picker.type, not the command line"), "{origin}");
    let anywhere = run(&mut flyball(["config", "--grpc-address", "0.0.0.0:1051"]));
    let advertised = anywhere.out.lines().find(|line| line.starts_with("node.advertise_address")).unwrap();
    assert!(advertised.contains("(chosen at start)"), "{advertised}");

    let valid = run(&mut flyball(["config", "--validate"]));
    assert_eq!(
        (valid.code, valid.out.as_str(), valid.err.as_str()),
        (Some(0), "the configuration is valid\n", "")
    );
}
