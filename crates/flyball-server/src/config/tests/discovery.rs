//! Where peers come from, and what does not fit together.

use flyball_discovery::Source;

use super::*;

fn own(text: &str) -> HostPort {
    <HostPort as values::Value>::parse(text).unwrap()
}

async fn source(pairs: &[(&str, &str)], address: &str) -> Option<Box<dyn Source>> {
    config(pairs).source(&own(address)).unwrap()
}

#[tokio::test]
async fn without_peers_there_is_no_source() {
    for pairs in [&[][..], &[("GUBER_PEER_DISCOVERY_TYPE", "none")], &[("GUBER_DNS_FQDN", "a")]] {
        assert!(source(pairs, "127.0.0.1:1051").await.is_none());
    }
}

#[tokio::test]
async fn a_list_is_a_fixed_source_in_the_nodes_own_data_center() {
    for kind in ["", "static"] {
        let pairs = [
            ("FLYBALL_PEERS", "127.0.0.1:7051, b, [::1]:1"),
            ("GUBER_PEER_DISCOVERY_TYPE", kind),
            ("GUBER_ADVERTISE_ADDRESS", "127.0.0.1:7051"),
            ("GUBER_DATA_CENTER", "east"),
        ];
        assert_eq!(warnings(&env(&pairs)), [""; 0]);
        let mut source = source(&pairs, "127.0.0.1:7051").await.unwrap();
        assert_eq!(source.kind(), "static");
        let peers = source.next().await.unwrap();
        let addresses: Vec<_> = peers.iter().map(|peer| peer.grpc_address.as_str()).collect();
        assert_eq!(addresses, ["127.0.0.1:7051", "[::1]:1", "b:7051"]);
        assert!(peers.iter().all(|peer| peer.data_center == "east"));
    }
}

#[tokio::test]
async fn a_file_is_a_watched_source() {
    for kind in ["", "file"] {
        let pairs = [("FLYBALL_PEERS_FILE", "/etc/peers"), ("GUBER_PEER_DISCOVERY_TYPE", kind)];
        let source = source(&pairs, "127.0.0.1:1051").await.unwrap();
        assert_eq!((source.kind(), source.origin().as_str()), ("file", "/etc/peers"));
    }
}

#[tokio::test]
async fn dns_goes_by_absolute_names_and_canonical_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let resolv_conf = folder.path().join("resolv.conf");
    std::fs::write(&resolv_conf, "nameserver 127.0.0.1\n").unwrap();
    let pairs = [
        ("GUBER_PEER_DISCOVERY_TYPE", "dns"),
        ("GUBER_DNS_FQDN", "east.example, west.example., east.example"),
        ("GUBER_DATA_CENTER", "West.example"),
        ("GUBER_ADVERTISE_ADDRESS", "[2001:DB8:0::1]:1051"),
        ("GUBER_RESOLV_CONF", resolv_conf.to_str().unwrap()),
    ];
    let source = source(&pairs, "[2001:DB8:0::1]:1051").await.unwrap();
    assert_eq!((source.kind(), source.origin().as_str()), ("dns", "east.example., west.example."));
    let c = config(&pairs);
    assert_eq!(c.data_center(), "West.example.");
    assert_eq!(c.peer_address(&own("[2001:DB8:0::1]:1051")), "[2001:db8::1]:1051");
    std::fs::remove_file(resolv_conf).unwrap();
    let error = c.source(&own("10.0.0.1:1051")).err().unwrap();
    assert!(error.message.contains("GUBER_RESOLV_CONF"), "{error}");
    // Elsewhere both stay as written.
    let c = config(&[("GUBER_DATA_CENTER", "east")]);
    assert_eq!((c.data_center().as_str(), c.peer_address(&own("[::01]:1")).as_str()), ("east", "[::01]:1"));
}

#[test]
fn a_type_needs_its_setting() {
    for (kind, needs) in [
        ("static", "needs a list of peers: set --peers or FLYBALL_PEERS"),
        ("file", "needs a file of peers: set --peers-file or FLYBALL_PEERS_FILE"),
        ("dns", "needs names to look up: set GUBER_DNS_FQDN"),
    ] {
        let shown = wrong(&env(&[("GUBER_PEER_DISCOVERY_TYPE", kind)]));
        assert_eq!(shown, [format!("GUBER_PEER_DISCOVERY_TYPE='{kind}' (environment): {needs}")]);
    }
}

#[test]
fn two_sources_are_one_too_many() {
    let peers = ("FLYBALL_PEERS", "127.0.0.1:1051");
    let file = ("FLYBALL_PEERS_FILE", "/etc/peers");
    let names = ("GUBER_DNS_FQDN", "a.example");
    let kind = |kind| ("GUBER_PEER_DISCOVERY_TYPE", kind);
    for (pairs, blamed) in [
        (vec![peers, file], "FLYBALL_PEERS_FILE"),
        (vec![peers, names], "GUBER_DNS_FQDN"),
        (vec![file, names], "GUBER_DNS_FQDN"),
        (vec![kind("dns"), names, peers], "FLYBALL_PEERS"),
        (vec![kind("none"), peers], "FLYBALL_PEERS"),
        (vec![kind("none"), file], "FLYBALL_PEERS_FILE"),
    ] {
        let shown = wrong(&env(&pairs));
        assert!(shown.len() == 1 && shown[0].starts_with(&format!("{blamed}=")), "{shown:?}");
    }
    // Names may be in an environment that others use too.
    let warned = warnings(&env(&[names]));
    assert_eq!(
        warned,
        ["GUBER_DNS_FQDN (environment) has no effect: this is a cluster of one; set \
          GUBER_PEER_DISCOVERY_TYPE=dns to use it"]
    );
}

#[test]
fn a_list_without_this_node_is_warned_about_with_the_fix() {
    let warned = warnings(&env(&[("FLYBALL_PEERS", "localhost:1051,b:1051")]));
    assert_eq!(
        warned,
        ["FLYBALL_PEERS (environment) does not list this node, 127.0.0.1:1051: it would own no key; add \
          127.0.0.1:1051 on every node, or set GUBER_ADVERTISE_ADDRESS to the address that the list has for it"]
    );
    // Which address takes the place of "every interface" is found out later.
    for address in ["0.0.0.0:1051", "127.0.0.1:0"] {
        assert_eq!(warnings(&env(&[("FLYBALL_PEERS", "b"), ("GUBER_GRPC_ADDRESS", address)])), [""; 0]);
    }
}

/// Field report P34: nodes that are filed under a data center that none of them is in never find themselves.
#[test]
fn p34_a_data_center_that_is_no_name_is_refused() {
    let dns = ("GUBER_PEER_DISCOVERY_TYPE", "dns");
    let names = ("GUBER_DNS_FQDN", "a.example,_grpc._tcp.b.example");
    let shown = wrong(&env(&[dns, names, ("GUBER_DATA_CENTER", "east")]));
    assert_eq!(
        shown,
        [
            "GUBER_DATA_CENTER='east' (environment): with DNS discovery the data center is the name its nodes are \
          found under; expected one of a.example.,_grpc._tcp.b.example., or no value when all are one cluster"
        ]
    );
    for data_center in ["", "A.example", "b.example."] {
        assert_eq!(warnings(&env(&[dns, names, ("GUBER_DATA_CENTER", data_center)])), [""; 0]);
    }
}

#[test]
fn with_dns_the_own_address_is_an_ip() {
    let pairs = [
        ("GUBER_PEER_DISCOVERY_TYPE", "dns"),
        ("GUBER_DNS_FQDN", "a.example"),
        ("GUBER_ADVERTISE_ADDRESS", "me.example:1051"),
    ];
    let warned = warnings(&env(&pairs));
    assert!(warned.len() == 1 && warned[0].contains("will not find itself as me.example:1051"), "{warned:?}");
}
