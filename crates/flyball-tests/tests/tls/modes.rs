//! Every mode of asking clients for certificates, with every kind of client, over gRPC and HTTP; servers with good and bad
//! certificates; certificates that are made.

use flyball_server::tls::Alpn;
use flyball_tests::certificates::Flaw;
use flyball_tests::secured::{Secured, item};

use super::{certificates, daemon};

/// What a client shows; empty: nothing.
const SHOWN: [&str; 4] = ["good", "expired", "stranger-client", ""];

#[test]
fn every_mode_lets_in_whom_it_should() {
    let certificates = certificates();
    for (mode, lets_in) in [
        ("", [true; 4]),
        ("request-cert", [true; 4]),
        ("verify-cert", [true, false, false, true]),
        ("require-any-cert", [true, true, true, false]),
        ("require-and-verify", [true, false, false, false]),
    ] {
        let daemon = daemon(&certificates, &[("GUBER_TLS_CLIENT_AUTH", mode)]).unwrap();
        for (shown, expected) in SHOWN.into_iter().zip(lets_in) {
            let client = Secured::new(&certificates);
            let client = if shown.is_empty() { client } else { client.showing(&certificates, shown) };
            let grpc = daemon.runtime().block_on(client.check(daemon.grpc(), item("modes")));
            let http1 = daemon.runtime().block_on(client.get(daemon.http(), Alpn::Http1, "/v1/HealthCheck"));
            let http2 = daemon.runtime().block_on(client.get(daemon.http(), Alpn::Http2, "/v1/HealthCheck"));
            let case = format!("{mode:?} and {shown:?}");
            assert_eq!(grpc.is_ok(), expected, "{case}: {grpc:?}");
            assert_eq!(http1.is_ok_and(|(status, _)| status == 200), expected, "{case}");
            assert_eq!(http2.is_ok_and(|(status, _)| status == 200), expected, "{case}");
        }
    }
}

/// What the field calls an own CA for clients: it is asked in place of the other.
#[test]
fn clients_may_have_an_authority_of_their_own() {
    let certificates = certificates();
    let strangers = certificates.text("stranger.pem");
    let more = [
        ("GUBER_TLS_CLIENT_AUTH", "require-and-verify"),
        ("GUBER_TLS_CLIENT_AUTH_CA_CERT", strangers.as_str()),
    ];
    let daemon = daemon(&certificates, &more).unwrap();
    for (shown, expected) in [("stranger-client", true), ("good", false)] {
        let client = Secured::new(&certificates).showing(&certificates, shown);
        let answer = daemon.runtime().block_on(client.check(daemon.grpc(), item("own")));
        assert_eq!(answer.is_ok(), expected, "{shown}: {answer:?}");
    }
}

#[test]
fn a_client_believes_only_the_server_it_should() {
    let certificates = certificates();
    certificates.issue("old", &["127.0.0.1"], Flaw::Expired).unwrap();
    certificates.issue("stranger-node", &["127.0.0.1"], Flaw::Stranger).unwrap();
    certificates.issue("named", &["node.example"], Flaw::None).unwrap();
    certificates.self_signed("own", &["127.0.0.1"]).unwrap();
    let client = Secured::new(&certificates);
    let named = client.clone().expecting("node.example");
    let anybody = client.clone().believing_everybody();
    for (shown, lets_in) in [
        ("node", [true, false, true]),
        ("old", [false, false, true]),
        ("stranger-node", [false, false, true]),
        ("named", [false, true, true]),
        ("own", [false, false, true]),
    ] {
        let (cert, key) =
            (certificates.text(&format!("{shown}.pem")), certificates.text(&format!("{shown}.key")));
        let daemon = daemon(&certificates, &[("GUBER_TLS_CERT", &cert), ("GUBER_TLS_KEY", &key)]).unwrap();
        for (client, expected) in [&client, &named, &anybody].into_iter().zip(lets_in) {
            let answer = daemon.runtime().block_on(client.check(daemon.grpc(), item("server")));
            assert_eq!(answer.is_ok(), expected, "{shown}: {answer:?}");
        }
    }
}

/// Made by one command, named as certificate and as authority; the original believes it.
#[test]
fn a_certificate_that_is_its_own_authority_is_believed_when_it_is_named() {
    let certificates = certificates();
    certificates.self_signed("own", &["127.0.0.1"]).unwrap();
    let (cert, key) = (certificates.text("own.pem"), certificates.text("own.key"));
    let more = [
        ("GUBER_TLS_CERT", cert.as_str()),
        ("GUBER_TLS_KEY", &key),
        ("GUBER_TLS_CA", &cert),
        ("GUBER_TLS_CLIENT_AUTH", "require-and-verify"),
    ];
    let daemon = daemon(&certificates, &more).unwrap();
    certificates.write("ca.pem", &std::fs::read_to_string(&cert).unwrap()).unwrap();
    let client = Secured::new(&certificates).showing(&certificates, "own");
    daemon.runtime().block_on(client.check(daemon.grpc(), item("own"))).unwrap();
    let misnamed = client.expecting("node.example");
    daemon.runtime().block_on(misnamed.check(daemon.grpc(), item("own"))).unwrap_err();
}

#[test]
fn automatic_certificates_are_good_for_whoever_knows_the_authority() {
    let certificates = certificates();
    let (ca, key) = (certificates.text("ca.pem"), certificates.text("ca.key"));
    let given = [
        ("GUBER_TLS_AUTO", "true"),
        ("GUBER_TLS_CA", ca.as_str()),
        ("GUBER_TLS_CA_KEY", &key),
        ("GUBER_TLS_CLIENT_AUTH", "require-and-verify"),
    ];
    let daemon = flyball_tests::in_process::InProcess::with_env(&given).unwrap();
    let client = Secured::new(&certificates).showing(&certificates, "good");
    daemon.runtime().block_on(client.check(daemon.grpc(), item("auto"))).unwrap();
    daemon.runtime().block_on(client.expecting("localhost").check(daemon.grpc(), item("auto"))).unwrap();

    let alone = flyball_tests::in_process::InProcess::with_env(&[("GUBER_TLS_AUTO", "true")]).unwrap();
    let client = Secured::new(&certificates);
    alone.runtime().block_on(client.check(alone.grpc(), item("auto"))).unwrap_err();
    alone.runtime().block_on(client.believing_everybody().check(alone.grpc(), item("auto"))).unwrap();
}

#[test]
fn what_cannot_be_used_ends_the_start_and_names_the_file() {
    let certificates = certificates();
    certificates.write("nonsense.pem", "nothing of the kind").unwrap();
    certificates
        .write(
            "locked.key",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        )
        .unwrap();
    certificates.issue("other", &["127.0.0.1"], Flaw::None).unwrap();
    for (name, file, expected) in [
        ("GUBER_TLS_CERT", "missing.pem", "while reading file '"),
        ("GUBER_TLS_KEY", "missing.key", "while reading file '"),
        ("GUBER_TLS_CA", "missing.pem", "while reading file '"),
        ("GUBER_TLS_CERT", "nonsense.pem", "it has no certificate"),
        ("GUBER_TLS_CA", "nonsense.pem", "it has no certificate"),
        ("GUBER_TLS_KEY", "nonsense.pem", "it has no private key"),
        ("GUBER_TLS_KEY", "locked.key", "its key is encrypted"),
        ("GUBER_TLS_KEY", "other.key", "they do not belong together"),
    ] {
        let error = daemon(&certificates, &[(name, &certificates.text(file))]).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(file) && !error.contains('\n'), "{error}");
    }
}
