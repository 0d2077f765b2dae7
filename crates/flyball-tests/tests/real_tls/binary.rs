//! The binary: its commands over TLS, and SIGHUP under load.

use std::time::Duration;

use flyball_tests::certificates::Flaw;
use flyball_tests::secured::{Callers, Secured, item};
use flyball_tests::signal;
use flyball_tests::tools::run;
use flyball_tests::wait::poll;
use rustix::process::Signal;

use super::nodes::Kind::Ours;
use super::nodes::{Cluster, certificates, command, told};

fn with(mut variables: Vec<(String, String)>, more: &[(&str, &str)]) -> Vec<(String, String)> {
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    variables
}

const CHECK: [&str; 7] = ["check", "tls", "cli", "--limit", "5", "--duration", "1m"];
const BENCH: [&str; 7] = ["bench", "--requests", "50", "--warmup", "0s", "--concurrency", "2"];

#[test]
fn commands_speak_tls_by_the_daemons_environment() {
    let certificates = certificates(21);
    let variables = with(told(&certificates, "node"), &[("GUBER_TLS_CLIENT_AUTH", "require-and-verify")]);
    let client = Secured::new(&certificates).showing(&certificates, "good");
    let cluster = Cluster::start(21, &[Ours], &variables, client);
    let node = &cluster.nodes[0];
    let succeeds =
        |arguments: &[&str]| run(&mut command(node, &variables, arguments)).unwrap().expect_success();
    assert!(succeeds(&["healthcheck"]).contains("healthy"));
    assert!(succeeds(&CHECK).starts_with("GRANTED"));
    assert!(succeeds(&["peers"]).contains("127.32.21.1:1051 (this node)"));
    assert!(succeeds(&["ring", "share", "--http", &node.http.to_string()]).contains("127.32.21.1:1051"));
    succeeds(&BENCH);
    succeeds(&[&BENCH[..], &["--protocol", "http"]].concat());
}

#[test]
fn commands_speak_tls_by_flags() {
    let certificates = certificates(22);
    let variables = with(told(&certificates, "named"), &[("GUBER_TLS_CLIENT_AUTH", "require-and-verify")]);
    let client = Secured::new(&certificates).showing(&certificates, "good").expecting("gubernator");
    let cluster = Cluster::start(22, &[Ours], &variables, client);
    let node = &cluster.nodes[0];
    let [ca, cert, key] = ["ca.pem", "good.pem", "good.key"].map(|file| certificates.text(file));
    let flags = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key, "--tls-server-name", "gubernator"];
    let ends = |arguments: &[&str], flags: &[&str]| {
        run(&mut command(node, &[], &[arguments, flags].concat())).unwrap()
    };
    for arguments in [&["healthcheck"][..], &CHECK, &["peers"], &BENCH] {
        ends(arguments, &flags).expect_success();
        // Without the name the certificate is one for somebody else; without a certificate we are nobody.
        assert_eq!(ends(arguments, &flags[..6]).code, Some(1), "{arguments:?}");
        assert_eq!(ends(arguments, &["--tls", "--tls-skip-verify"]).code, Some(1), "{arguments:?}");
    }
    let plain = ends(&["healthcheck"], &[]);
    assert_eq!(plain.code, Some(1));
    assert!(plain.stdout.contains("speaks TLS"), "{}", plain.stdout);
}

/// Field report P33, of a node that speaks TLS: healthy, unhealthy and stopped, without a flag.
#[test]
fn p33_healthcheck_of_a_node_with_tls() {
    let certificates = certificates(23);
    let mode = ("GUBER_TLS_CLIENT_AUTH", "require-and-verify");
    let status = ("GUBER_STATUS_HTTP_ADDRESS", "127.32.23.1:1040");
    let auto = ("GUBER_TLS_AUTO".to_owned(), "true".to_owned());
    let anybody = Secured::new(&certificates).believing_everybody().showing(&certificates, "good");
    for variables in [
        told(&certificates, "node"),
        // Its name is not that of any address.
        told(&certificates, "named"),
        with(told(&certificates, "node"), &[mode]),
        with(told(&certificates, "named"), &[mode, status]),
        vec![auto],
    ] {
        let mut cluster = Cluster::start(23, &[Ours], &variables, anybody.clone());
        let healthcheck =
            |cluster: &Cluster| run(&mut command(&cluster.nodes[0], &variables, &["healthcheck"])).unwrap();
        healthcheck(&cluster).expect_success();
        cluster.nodes[0].process.kill();
        assert_eq!(healthcheck(&cluster).code, Some(1));
    }
    // Nobody is at the other address.
    let variables =
        with(told(&certificates, "node"), &[status, ("FLYBALL_PEERS", "127.32.23.1:1051,127.32.23.2:1051")]);
    let cluster = Cluster::start(23, &[Ours], &variables, anybody);
    let sick = poll(Duration::from_secs(10), || {
        let items = (0..20).map(|number| item(&format!("{number}-sick"))).collect();
        cluster.ask(&cluster.nodes[0], items);
        let told = run(&mut command(&cluster.nodes[0], &variables, &["healthcheck"])).unwrap();
        (told.code == Some(2)).then_some(())
    });
    assert!(sick.is_some(), "a node with a dead peer is unhealthy");
}

#[test]
fn sighup_under_load_loses_no_call() {
    let certificates = certificates(24);
    certificates.issue("node", &["127.32.24.1", "first"], Flaw::None).unwrap();
    let variables = with(told(&certificates, "node"), &[("FLYBALL_TLS_RELOAD_INTERVAL", "0")]);
    let client = Secured::new(&certificates);
    let cluster = Cluster::start(24, &[Ours], &variables, client.clone());
    let node = &cluster.nodes[0];
    let callers = Callers::start(&cluster.runtime, 6, &client, node.grpc);
    for name in ["second", "third", "fourth", "fifth"] {
        certificates.issue("node", &["127.32.24.1", name], Flaw::None).unwrap();
        signal::send(node.process.id(), Signal::HUP).unwrap();
        let named = client.clone().expecting(name);
        let taken = poll(Duration::from_secs(3), || {
            cluster.runtime.block_on(named.check(node.grpc, item("named"))).is_ok().then_some(())
        });
        assert!(taken.is_some(), "{name} is not used within 3 s of SIGHUP:\n{}", node.process.log());
    }
    // A file that is no good changes nothing.
    certificates.write("node.pem", "nonsense").unwrap();
    signal::send(node.process.id(), Signal::HUP).unwrap();
    let told = poll(Duration::from_secs(10), || node.process.log().contains("not reloaded").then_some(()));
    assert!(told.is_some(), "{}", node.process.log());
    cluster.runtime.block_on(client.expecting("fifth").check(node.grpc, item("named"))).unwrap();
    let done = callers.stop(&cluster.runtime).unwrap();
    assert!(done > 100, "{} calls", done);
}
