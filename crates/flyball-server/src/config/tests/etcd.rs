//! Discovery by etcd, as the original's variables ask for it.

use super::*;

const TYPE: (&str, &str) = ("GUBER_PEER_DISCOVERY_TYPE", "etcd");

fn etcd(pairs: &[(&str, &str)]) -> Config {
    config(&[&[TYPE], pairs].concat())
}

fn own(text: &str) -> HostPort {
    <HostPort as values::Value>::parse(text).unwrap()
}

#[test]
fn without_anything_else_it_is_the_originals_defaults() {
    let config = etcd(&[]);
    let settings = config.etcd_settings(&own("10.0.0.1:1051"));
    assert_eq!(settings.endpoints.len(), 1);
    assert_eq!(settings.endpoints[0].to_string(), "localhost:2379");
    assert_eq!(settings.key_prefix, "/gubernator-peers");
    assert_eq!(settings.own.grpc_address, "10.0.0.1:1051");
    assert_eq!((settings.dial_timeout, settings.user, settings.tls), (seconds(5), None, None));
    let source = config.source(&own("10.0.0.1:1051")).unwrap().unwrap();
    assert_eq!(source.kind(), "etcd");
}

/// Oddity D7: ring and health go by the address and the data center that are written into etcd.
#[test]
fn what_is_written_is_what_the_node_is() {
    let pairs = [
        ("GUBER_ADVERTISE_ADDRESS", "inside:1051"),
        ("GUBER_DATA_CENTER", "east"),
        ("GUBER_ETCD_ADVERTISE_ADDRESS", "outside:1052"),
        ("GUBER_ETCD_DATA_CENTER", "west"),
    ];
    let config = etcd(&pairs);
    assert_eq!(config.advertise_address(1).to_string(), "outside:1052");
    assert_eq!(config.data_center(), "west");
    assert_eq!(config.etcd_settings(&config.advertise_address(1)).own.data_center, "west");
    // Without its own they are those of the node; in another mode its own do not count.
    let config = etcd(&pairs[..2]);
    assert_eq!(
        (config.advertise_address(1).to_string().as_str(), config.data_center().as_str()),
        ("inside:1051", "east")
    );
    let config = super::config(&pairs);
    assert_eq!(
        (config.advertise_address(1).to_string().as_str(), config.data_center().as_str()),
        ("inside:1051", "east")
    );
    assert!(
        wrong(&env(&[TYPE, ("GUBER_ETCD_ADVERTISE_ADDRESS", "a:0")]))[0].contains("port that peers dial")
    );
}

#[test]
fn names_of_the_helper_library_fill_in_and_one_of_them_wins() {
    let pairs = [("ETCD3_USER", "theirs"), ("ETCD3_PASSWORD", "p"), ("ETCD3_DIAL_TIMEOUT", "3s")];
    let config = etcd(&pairs);
    assert_eq!(config.discovery.etcd.user.as_deref(), Some("theirs"));
    let both =
        etcd(&[&pairs[..], &[("GUBER_ETCD_USER", "ours"), ("GUBER_ETCD_DIAL_TIMEOUT", "9s")]].concat());
    assert_eq!(both.discovery.etcd.user.as_deref(), Some("ours"));
    assert_eq!(both.discovery.etcd.dial_timeout, seconds(3));
    assert_eq!(etcd(&[("ETCD3_CA", "/ca")]).discovery.etcd.tls_enable, Some(true));
    assert_eq!(etcd(&[("ETCD3_ENABLE_TLS", "true")]).discovery.etcd.tls_enable, Some(true));
    assert_eq!(etcd(&[("ETCD3_ENDPOINT", "elsewhere:1")]).discovery.etcd, etcd(&[]).discovery.etcd);
    let shown = effective(&ok(&env(&[TYPE, pairs[1], pairs[0]])), "discovery.etcd.password");
    assert_eq!(shown.value, "<redacted>");
}

#[test]
fn anything_about_tls_turns_it_on_also_under_a_name_that_is_misspelt() {
    for (name, value) in [
        ("GUBER_ETCD_TLS_ENABLE", "true"),
        ("GUBER_ETCD_TLS_EABLED", "anything"),
        ("GUBER_ETCD_TLS_CA", "/ca"),
        ("GUBER_ETCD_TLS_SKIP_VERIFY", "false"),
    ] {
        assert_eq!(etcd(&[(name, value)]).discovery.etcd.tls_enable, Some(true), "{name}");
    }
    assert_eq!(etcd(&[("GUBER_ETCD_TLS_CA", "")]).discovery.etcd.tls_enable, None);
    // Also in what is shown, whatever turned it on.
    let misspelt = ok(&env(&[TYPE, ("GUBER_ETCD_TLS_EABLED", "1")]));
    assert_eq!(effective(&misspelt, "discovery.etcd.tls_enable").value, "true");
    // A misspelt name is said to be one.
    let warned = warnings(&env(&[TYPE, ("GUBER_ETCD_TLS_EABLED", "1")]));
    assert!(warned.len() == 1 && warned[0].contains("did you mean GUBER_ETCD_TLS_ENABLE?"), "{warned:?}");
    let file = file("c.toml", "[discovery]\ntype = 'etcd'\n[discovery.etcd]\ntls_enable = true\n");
    assert_eq!(ok(&file).config.discovery.etcd.tls_enable, Some(true));
}

#[test]
fn what_the_original_took_for_true_is_a_truth_value_here_and_said_to_be() {
    let warned = |pairs: &[(&str, &str)]| warnings(&env(&[&[TYPE], pairs].concat())).join("\n");
    let skip = etcd(&[("GUBER_ETCD_TLS_SKIP_VERIFY", "true"), ("GUBER_ETCD_TLS_CA", "/ca")]);
    assert!(skip.etcd_settings(&own("a:1")).tls.unwrap().skip_verify);
    assert!(warned(&[("GUBER_ETCD_TLS_SKIP_VERIFY", "true")]).contains("is not verified"));
    assert!(
        !etcd(&[("GUBER_ETCD_TLS_SKIP_VERIFY", "false")]).etcd_settings(&own("a:1")).tls.unwrap().skip_verify
    );
    assert!(warned(&[("GUBER_ETCD_TLS_SKIP_VERIFY", "false")]).contains("any value turned that off"));
    assert_eq!(etcd(&[("GUBER_ETCD_TLS_ENABLE", "false")]).discovery.etcd.tls_enable, Some(false));
    assert!(warned(&[("GUBER_ETCD_TLS_ENABLE", "false")]).contains("any value turned it on"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (pairs, said) in [
        (&[("GUBER_ETCD_PASSWORD", "hunter2")][..], "set GUBER_ETCD_USER"),
        (&[("GUBER_ETCD_TLS_CERT", "/c")], "set GUBER_ETCD_TLS_KEY"),
        (&[("GUBER_ETCD_TLS_KEY", "/k")], "set GUBER_ETCD_TLS_CERT"),
        (&[("GUBER_ETCD_ENDPOINTS", "http://a"), ("GUBER_ETCD_TLS_CA", "/c")], "expected https://"),
        (&[("GUBER_ETCD_TLS_ENABLE", "false"), ("GUBER_ETCD_TLS_CA", "/c")], "other settings turn TLS on"),
        (&[("FLYBALL_PEERS", "a:1")], "peers come from one source"),
    ] {
        let shown = wrong(&env(&[&[TYPE], pairs].concat()));
        assert!(shown.len() == 1 && shown[0].contains(said) && !shown[0].contains("hunter2"), "{shown:?}");
    }
    // Nobody looks at them in another mode.
    assert_eq!(warnings(&env(&[("GUBER_ETCD_TLS_CERT", "/c")])), [""; 0]);
}

#[test]
fn in_a_cluster_of_one_it_is_said_that_etcd_is_not_asked() {
    let warned = warnings(&env(&[("GUBER_ETCD_ENDPOINTS", "a")]));
    assert!(
        warned.len() == 1 && warned[0].contains("set GUBER_PEER_DISCOVERY_TYPE=etcd to use it"),
        "{warned:?}"
    );
}
