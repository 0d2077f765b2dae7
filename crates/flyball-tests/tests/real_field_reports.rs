//! The reports from the field that are about the command line; the others are in `field_reports.rs`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use flyball_tests::binary::{Launch, clean, free_addresses};
use flyball_tests::tools::{Output, Tool, run};

fn flyball(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = clean(&Tool::Flyball.path());
    command.args(arguments).envs(env.iter().copied());
    run(&mut command).unwrap()
}

fn healthcheck(address: &str) -> Output {
    flyball(&["healthcheck"], &[("GUBER_HTTP_ADDRESS", address)])
}

/// Exit codes: 0 healthy, 2 unhealthy, 1 anything else.
#[test]
fn p33_healthcheck_needs_no_curl() {
    let server = Launch::flyball().start().unwrap();
    let output = healthcheck(&server.http().to_string());
    assert_eq!(output.code, Some(0), "{output:?}");
    server.stop().unwrap();

    let [nobody] = free_addresses().unwrap();
    let output = healthcheck(&nobody.to_string());
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains(&nobody.to_string()) || output.stdout.contains(&nobody.to_string()),
        "{output:?}"
    );

    // A node that says it is unhealthy, as one does whose peers are gone.
    let sick = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = sick.local_addr().unwrap().to_string();
    let answering = thread::spawn(move || {
        let (mut stream, _) = sick.accept().unwrap();
        let mut head = [0; 4_096];
        let _ = stream.read(&mut head).unwrap();
        let body = r#"{"code":14,"message":"peer 192.0.2.7:1051 is gone","details":[]}"#;
        write!(
            stream,
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    });
    let output = healthcheck(&address);
    answering.join().unwrap();
    assert_eq!(output.code, Some(2), "{output:?}");
    let said = output.stdout + &output.stderr;
    assert!(said.contains("peer 192.0.2.7:1051 is gone"), "{said}");
}

#[test]
fn p35_wrong_flags_and_values_end_the_start() {
    let version = flyball(&["--version"], &[]);
    assert_eq!(version.code, Some(0), "{version:?}");
    assert!(version.stdout.contains(env!("CARGO_PKG_VERSION")), "{version:?}");
    let help = flyball(&["--help"], &[]);
    assert!(help.success && help.stdout.contains("serve"), "{help:?}");
    for arguments in [&["serve", "--foo", "--config", "x"][..], &["--foo"], &["serve", "extra"]] {
        let output = flyball(arguments, &[]);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains("Usage"), "{output:?}");
    }
    let bad = [("GUBER_BATCH_WAIT", "abc"), ("GUBER_CACHE_SIZE", "50k"), ("GUBER_GLOBAL_SYNC_WAIT", "-1s")];
    for (variable, value) in bad {
        let output = flyball(&["serve"], &[(variable, value)]);
        assert_eq!(output.code, Some(1), "{variable}: {output:?}");
        assert!(output.stderr.contains(variable) && output.stderr.contains(value), "{output:?}");
    }
    // All of them together: whoever corrects a configuration does it once.
    let output = flyball(&["serve"], &bad);
    assert_eq!(output.code, Some(1));
    for (variable, _) in bad {
        assert!(output.stderr.contains(variable), "{output:?}");
    }
    // The documented defaults are the real ones.
    let defaults = flyball(&["config"], &[]).expect_success();
    for (name, value) in [("batch.wait", "500us"), ("global.sync_wait", "100ms")] {
        let line = defaults.lines().find(|line| line.starts_with(name));
        assert!(line.is_some_and(|line| line.contains(value)), "{name} is {line:?}");
    }
}
