//! What turns TLS on, what has to be given with what, and in which words the rest is refused.

use super::*;

const PAIR: [(&str, &str); 2] = [("GUBER_TLS_CERT", "/c"), ("GUBER_TLS_KEY", "/k")];

fn with_pair(more: &[(&str, &str)]) -> Strings {
    env(&[&PAIR[..], more].concat())
}

#[test]
fn any_variable_of_it_turns_tls_on_and_then_there_must_be_a_certificate() {
    assert!(config(&PAIR).tls.on);
    assert!(!Config::default().tls.on);
    for (name, value) in [
        ("GUBER_TLS_CA", "/ca"),
        ("GUBER_TLS_MIN_VERSION", "1.2"),
        ("GUBER_TLS_INSECURE_SKIP_VERIFY", "true"),
        // Nobody knows it, but whoever wrote it wanted TLS.
        ("GUBER_TLS_CRET", "/c"),
        ("GUBER_TLS_", "x"),
    ] {
        assert_eq!(
            wrong(&env(&[(name, value)])),
            [format!(
                "{name} (environment): it turns TLS on, and there is no certificate; set GUBER_TLS_CERT and \
                 GUBER_TLS_KEY, or GUBER_TLS_AUTO=true, or unset it"
            )]
        );
        assert!(ok(&with_pair(&[(name, value)])).config.tls.on);
        assert!(!config(&[(name, "")]).tls.on, "empty is not set");
    }
    assert!(ok(&file("x.toml", "tls.auto = true")).config.tls.on);
    for (name, value) in [
        ("GUBER_TLS_AUTO", "false"),
        ("GUBER_TLS_MIN_VERSION", "1.3"),
        ("GUBER_TLS_INSECURE_SKIP_VERIFY", "0"),
        ("FLYBALL_TLS_RELOAD_INTERVAL", "1m"),
    ] {
        assert!(!config(&[(name, value)]).tls.on, "it says what holds anyway");
    }
}

#[test]
fn certificates_come_with_their_keys() {
    for (name, advice) in [
        ("GUBER_TLS_CERT", "it needs its key; set GUBER_TLS_KEY"),
        ("GUBER_TLS_KEY", "it needs its certificate; set GUBER_TLS_CERT"),
        ("GUBER_TLS_CLIENT_AUTH_CERT", "it needs its key; set GUBER_TLS_CLIENT_AUTH_KEY"),
        ("GUBER_TLS_CLIENT_AUTH_KEY", "it needs its certificate; set GUBER_TLS_CLIENT_AUTH_CERT"),
        ("GUBER_TLS_CA_KEY", "it needs its certificate; set GUBER_TLS_CA"),
    ] {
        let strings = env(&[("GUBER_TLS_AUTO", "true"), (name, "/x")]);
        assert_eq!(wrong(&strings), [format!("{name}='/x' (environment): {advice}")]);
    }
}

#[test]
fn clients_cannot_be_verified_by_nothing() {
    for mode in ["request-cert", "verify-cert", "require-any-cert", "require-and-verify"] {
        let shown = wrong(&with_pair(&[("GUBER_TLS_CLIENT_AUTH", mode)]));
        assert_eq!(shown.len(), 1);
        assert!(shown[0].contains("client auth enabled, but no CA's provided"), "{}", shown[0]);
        for (name, value) in
            [("GUBER_TLS_CA", "/ca"), ("GUBER_TLS_CLIENT_AUTH_CA_CERT", "/ca"), ("GUBER_TLS_AUTO", "true")]
        {
            ok(&with_pair(&[("GUBER_TLS_CLIENT_AUTH", mode), (name, value)]));
        }
    }
}

#[test]
fn only_verified_certificates_make_peers() {
    for (mode, certified) in [
        ("request-cert", false),
        ("verify-cert", true),
        ("require-any-cert", false),
        ("require-and-verify", true),
    ] {
        let config = config(&[("GUBER_TLS_AUTO", "true"), ("GUBER_TLS_CLIENT_AUTH", mode)]);
        assert_eq!(config.cluster_settings().access.certificate, certified, "{mode}");
    }
}

#[test]
fn what_has_no_effect_is_told() {
    for (more, expected) in [
        (&[("GUBER_TLS_MIN_VERSION", "1.0")][..], "means 1.2: older versions"),
        (&[("GUBER_TLS_MIN_VERSION", "1.1")], "means 1.2: older versions"),
        (&[("GUBER_TLS_CLIENT_AUTH_CA_CERT", "/ca")], "has no effect unless GUBER_TLS_CLIENT_AUTH is set"),
        (&[("GUBER_TLS_INSECURE_SKIP_VERIFY", "true")], "lets anybody"),
        (&[("GUBER_TLS_CA_KEY", "/k"), ("GUBER_TLS_CA", "/c")], "has no effect: no certificate is made"),
    ] {
        let warnings = warnings(&with_pair(more));
        assert!(warnings.len() == 1 && warnings[0].contains(expected), "{warnings:?}");
    }
    assert_eq!(warnings(&with_pair(&[("GUBER_TLS_MIN_VERSION", "1.2")])), [""; 0]);
    let auto = [("GUBER_TLS_AUTO", "true"), ("FLYBALL_PEERS", "127.0.0.1:1051,b:1051")];
    let shown = warnings(&env(&auto));
    assert!(shown.len() == 1 && shown[0].contains("a CA that peers do not know"), "{shown:?}");
}

#[test]
fn a_status_listener_needs_tls_and_a_port_of_its_own() {
    let alone = warnings(&env(&[("GUBER_STATUS_HTTP_ADDRESS", ":1040")]));
    assert!(alone.len() == 1 && alone[0].contains("no effect without TLS"), "{alone:?}");
    assert_eq!(warnings(&with_pair(&[("GUBER_STATUS_HTTP_ADDRESS", ":1040")])), [""; 0]);
    for (port, others) in [("1050", "HTTP"), ("1051", "gRPC")] {
        let shown = wrong(&with_pair(&[("GUBER_STATUS_HTTP_ADDRESS", &format!("0.0.0.0:{port}"))]));
        assert!(shown.len() == 1 && shown[0].contains(&format!("{others} listens on")), "{shown:?}");
    }
}

#[test]
fn a_command_reads_tls_alone() {
    let read = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        client_tls(pairs.collect::<Vec<_>>())
    };
    assert!(!read(&[("GUBER_BATCH_WAIT", "nonsense"), ("GUBER_TLS_CA", "")]).unwrap().on);
    let tls = read(&[("GUBER_TLS_CA", "/ca")]).unwrap();
    assert!(tls.on && tls.ca.as_deref() == Some("/ca"), "a client needs no certificate");
    assert!(read(&[("GUBER_TLS_MIN_VERSION", "9")]).is_err());
}
