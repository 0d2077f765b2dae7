//! New certificates while a daemon runs: under load no call is lost, and what is wrong changes nothing.

use std::time::Duration;

use flyball_tests::certificates::{Certificates, Flaw};
use flyball_tests::in_process::InProcess;
use flyball_tests::secured::{Callers, Secured, item};
use flyball_tests::wait::poll;

use super::{certificates, daemon};

const SOON: Duration = Duration::from_secs(10);

fn reloads(daemon: &InProcess, outcome: &str) -> u64 {
    let page = daemon.daemon().node().metrics().scrape();
    let line = format!("flyball_tls_reloads_total{{outcome=\"{outcome}\"}} ");
    page.lines().find_map(|it| it.strip_prefix(&line)).unwrap().parse().unwrap()
}

/// Whether a new connection gets a certificate for this name.
fn is_named(daemon: &InProcess, certificates: &Certificates, name: &str) -> bool {
    let client = Secured::new(certificates).expecting(name);
    daemon.runtime().block_on(client.check(daemon.grpc(), item("named"))).is_ok()
}

#[test]
fn changed_files_count_for_new_connections_and_lose_no_call() {
    let certificates = certificates();
    certificates.issue("node", &["127.0.0.1", "first"], Flaw::None).unwrap();
    let daemon = daemon(&certificates, &[("FLYBALL_TLS_RELOAD_INTERVAL", "50ms")]).unwrap();
    let client = Secured::new(&certificates);
    let callers = Callers::start(daemon.runtime(), 4, &client, daemon.grpc());
    for (round, name) in ["second", "third", "fourth"].into_iter().enumerate() {
        certificates.issue("node", &["127.0.0.1", name], Flaw::None).unwrap();
        let taken = poll(SOON, || is_named(&daemon, &certificates, name).then_some(()));
        assert!(taken.is_some(), "{name} is not used");
        assert_eq!(reloads(&daemon, "ok"), round as u64 + 1);
    }
    let done = callers.stop(daemon.runtime()).unwrap();
    assert!(done > 20, "there was load: {}", done);
    assert!(!is_named(&daemon, &certificates, "first"));
    assert_eq!(reloads(&daemon, "failed"), 0);
}

#[test]
fn a_bad_file_changes_nothing_and_is_told_once() {
    let certificates = certificates();
    certificates.issue("node", &["127.0.0.1", "first"], Flaw::None).unwrap();
    let daemon = daemon(&certificates, &[("FLYBALL_TLS_RELOAD_INTERVAL", "20ms")]).unwrap();
    certificates.write("node.pem", "not yet").unwrap();
    assert!(poll(SOON, || (reloads(&daemon, "failed") == 1).then_some(())).is_some());
    assert!(is_named(&daemon, &certificates, "first"));
    // A certificate without its key, as somebody leaves it who writes one after the other.
    certificates.issue("other", &["127.0.0.1", "second"], Flaw::None).unwrap();
    let read = |file: &str| std::fs::read_to_string(certificates.path(file)).unwrap();
    certificates.write("node.pem", &read("other.pem")).unwrap();
    assert!(poll(SOON, || (reloads(&daemon, "failed") == 2).then_some(())).is_some());
    assert!(is_named(&daemon, &certificates, "first"));
    certificates.write("node.key", &read("other.key")).unwrap();
    assert!(poll(SOON, || is_named(&daemon, &certificates, "second").then_some(())).is_some());
    assert_eq!((reloads(&daemon, "failed"), reloads(&daemon, "ok")), (2, 1));
}

#[test]
fn asked_for_is_done_even_if_nobody_looks() {
    let certificates = certificates();
    certificates.issue("node", &["127.0.0.1", "first"], Flaw::None).unwrap();
    let daemon = daemon(&certificates, &[("FLYBALL_TLS_RELOAD_INTERVAL", "0")]).unwrap();
    certificates.issue("node", &["127.0.0.1", "second"], Flaw::None).unwrap();
    daemon.daemon().tls().unwrap().reload();
    assert!(poll(SOON, || is_named(&daemon, &certificates, "second").then_some(())).is_some());
    assert_eq!(reloads(&daemon, "ok"), 1);
}

#[test]
fn a_changed_authority_changes_whom_the_node_lets_in() {
    let certificates = certificates();
    let more = [("GUBER_TLS_CLIENT_AUTH", "require-and-verify"), ("FLYBALL_TLS_RELOAD_INTERVAL", "50ms")];
    let daemon = daemon(&certificates, &more).unwrap();
    let good = Secured::new(&certificates).believing_everybody().showing(&certificates, "good");
    let stranger =
        Secured::new(&certificates).believing_everybody().showing(&certificates, "stranger-client");
    let lets_in =
        |client: &Secured| daemon.runtime().block_on(client.check(daemon.grpc(), item("ca"))).is_ok();
    assert!(lets_in(&good) && !lets_in(&stranger));
    let strangers = std::fs::read_to_string(certificates.path("stranger.pem")).unwrap();
    certificates.write("ca.pem", &strangers).unwrap();
    assert!(poll(SOON, || (lets_in(&stranger) && !lets_in(&good)).then_some(())).is_some());
}
