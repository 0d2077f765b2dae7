//! Originals and nodes of ours with the same certificates in one cluster, every connection mutual: whoever is asked, the
//! answers are those of one limiter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_tests::secured::{Secured, item};
use flyball_tests::wait::poll;

use super::nodes::Kind::{Original, Ours};
use super::nodes::{Cluster, certificates, told};

const GLOBAL: i32 = 2;

/// Every node is asked once for each of so many keys.
fn one_limiter(cluster: &Cluster) {
    let keys: Vec<_> = (0..120).map(|number| format!("{number}-mixed")).collect();
    let mut owners: Vec<BTreeSet<String>> = vec![BTreeSet::new(); keys.len()];
    for (round, node) in (1..).zip(&cluster.nodes) {
        let answers = cluster.ask(node, keys.iter().map(|key| item(key)).collect());
        for ((key, answer), owners) in keys.iter().zip(&answers).zip(&mut owners) {
            assert_eq!(answer.error, "", "{node}: {key}");
            assert_eq!(answer.remaining, 100 - round, "{node}: {key}");
            let owner = answer.metadata.get("owner").cloned();
            owners.insert(owner.unwrap_or_else(|| node.grpc.to_string()));
        }
    }
    let mut owned = BTreeMap::new();
    for owners in &owners {
        assert_eq!(owners.len(), 1, "all name the same owner");
        *owned.entry(owners.first().unwrap().clone()).or_insert(0) += 1;
    }
    assert_eq!(owned.len(), cluster.nodes.len(), "each owns some, so all ways were gone: {owned:?}");
}

/// A hit of a GLOBAL limit at each node is known to all soon.
fn global_news_arrive(cluster: &Cluster) {
    for place in 0..cluster.nodes.len() {
        let mut hit = item(&format!("global-{place}"));
        hit.behavior = GLOBAL;
        let mut look = hit.clone();
        look.hits = 0;
        assert_eq!(cluster.ask(&cluster.nodes[place], vec![hit])[0].error, "");
        let known = poll(Duration::from_secs(10), || {
            let answers: Vec<_> =
                cluster.nodes.iter().map(|node| cluster.ask(node, vec![look.clone()]).remove(0)).collect();
            answers.iter().all(|answer| answer.error.is_empty() && answer.remaining == 99).then_some(())
        });
        assert!(known.is_some(), "the hit at {} is not known everywhere", cluster.nodes[place]);
    }
}

#[test]
fn originals_and_ours_with_the_same_certificates_are_one_limiter() {
    let certificates = certificates(1);
    let mut variables = told(&certificates, "node");
    variables.push(("GUBER_TLS_CLIENT_AUTH".into(), "require-and-verify".into()));
    let client = Secured::new(&certificates).showing(&certificates, "good");
    let cluster = Cluster::start(1, &[Original, Ours, Original, Ours], &variables, client);
    one_limiter(&cluster);
    global_news_arrive(&cluster);
}

/// Field report P31, with originals.
#[test]
fn p31_certificates_with_a_name_only_work_between_originals_and_ours() {
    for (network, mode) in [(2, "require-any-cert"), (3, "require-and-verify")] {
        let certificates = certificates(network);
        let mut variables = told(&certificates, "named");
        variables.push(("GUBER_TLS_CLIENT_AUTH".into(), mode.into()));
        variables.push(("GUBER_TLS_CLIENT_AUTH_SERVER_NAME".into(), "gubernator".into()));
        let client = Secured::new(&certificates).showing(&certificates, "good").expecting("gubernator");
        let cluster = Cluster::start(network, &[Ours, Original, Ours], &variables, client);
        one_limiter(&cluster);
    }
}

/// Each makes a certificate of its own, signed by the authority that all were given.
#[test]
fn automatic_certificates_of_both_kinds_are_believed_by_both() {
    let certificates = certificates(4);
    let variables = [
        ("GUBER_TLS_AUTO", "true".to_owned()),
        ("GUBER_TLS_CA", certificates.text("ca.pem")),
        ("GUBER_TLS_CA_KEY", certificates.text("ca.key")),
        ("GUBER_TLS_CLIENT_AUTH", "require-and-verify".to_owned()),
        // The original's are not for addresses on loopback but 127.0.0.1.
        ("GUBER_TLS_CLIENT_AUTH_SERVER_NAME", "localhost".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let client = Secured::new(&certificates).showing(&certificates, "good").expecting("localhost");
    let cluster = Cluster::start(4, &[Ours, Original], &variables, client);
    one_limiter(&cluster);
}

/// What people make with one command, named as certificate and as authority.
#[test]
fn a_certificate_that_is_its_own_authority_serves_both_kinds() {
    let certificates = certificates(5);
    certificates.self_signed("own", &["gubernator"]).unwrap();
    certificates.write("ca.pem", &std::fs::read_to_string(certificates.path("own.pem")).unwrap()).unwrap();
    let mut variables = told(&certificates, "own");
    variables.push(("GUBER_TLS_CLIENT_AUTH".into(), "require-and-verify".into()));
    variables.push(("GUBER_TLS_CLIENT_AUTH_SERVER_NAME".into(), "gubernator".into()));
    let client = Secured::new(&certificates).showing(&certificates, "own").expecting("gubernator");
    let cluster = Cluster::start(5, &[Ours, Original], &variables, client);
    one_limiter(&cluster);
}
