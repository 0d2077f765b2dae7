//! Discovery by gossip, as it is configured.

use super::*;

const NODES: (&str, &str) = ("GUBER_MEMBERLIST_KNOWN_NODES", "10.0.0.1,10.0.0.2:7947");

fn own(text: &str) -> HostPort {
    <HostPort as values::Value>::parse(text).unwrap()
}

#[test]
fn anything_about_gossip_implies_it() {
    let kind = ("GUBER_PEER_DISCOVERY_TYPE", "member-list");
    for pairs in [&[NODES][..], &[kind], &[kind, NODES], &[("GUBER_MEMBERLIST_NODE_NAME", "a"), NODES]] {
        assert_eq!(config(pairs).discovery.in_force(), PeerDiscovery::MemberList);
        assert_eq!(warnings(&env(pairs)), [""; 0]);
    }
    // An empty value is no value.
    let empty = config(&[("GUBER_MEMBERLIST_KNOWN_NODES", ""), ("GUBER_MEMBERLIST_NODE_NAME", "")]);
    assert_eq!(empty.discovery.in_force(), PeerDiscovery::None);
}

#[test]
fn without_more_gossip_is_where_the_node_is() {
    let pairs = [NODES, ("GUBER_GRPC_ADDRESS", "10.0.0.1:1051"), ("GUBER_DATA_CENTER", "east")];
    let settings = config(&pairs).gossip_settings(&own("10.0.0.1:1051"));
    assert_eq!(settings.bind, "0.0.0.0:7946");
    assert_eq!((settings.advertise_host.as_str(), settings.advertise_port), ("10.0.0.1", None));
    assert_eq!(settings.peer.grpc_address, "10.0.0.1:1051");
    assert_eq!(settings.peer.data_center, "east");
    assert_eq!(settings.seeds.to_string(), NODES.1);
    assert!(!settings.name.is_empty() && settings.keys.is_empty());
    assert!(settings.verify_incoming && settings.verify_outgoing);
    // Which address stands for "every interface" was found out before.
    let settings = config(&[NODES, ("GUBER_GRPC_ADDRESS", ":1051")]).gossip_settings(&own("10.0.0.9:1051"));
    assert_eq!(settings.advertise_host, "10.0.0.9");
}

#[test]
fn every_part_can_be_told() {
    let pairs = [
        NODES,
        ("GUBER_ADVERTISE_ADDRESS", "10.0.0.1:1051"),
        ("GUBER_MEMBERLIST_BIND_ADDRESS", "10.0.0.1:7000"),
        ("GUBER_MEMBERLIST_ADDRESS", "gossip.example:7001"),
        ("GUBER_MEMBERLIST_ADVERTISE_ADDRESS", "grpc.example:81"),
        ("GUBER_MEMBERLIST_NODE_NAME", "blue"),
        (
            "GUBER_MEMBERLIST_SECRET_KEYS",
            " MDEyMzQ1Njc4OWFiY2RlZg== , MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
        ),
        ("GUBER_MEMBERLIST_GOSSIP_VERIFY_INCOMING", "false"),
        ("GUBER_MEMBERLIST_GOSSIP_VERIFY_OUTGOING", "false"),
    ];
    let config = config(&pairs);
    // D7: the node is known to others, and to itself, by the address that gossip tells.
    let address = config.advertise_address(1_051);
    assert_eq!(config.peer_address(&address), "grpc.example:81");
    let settings = config.gossip_settings(&address);
    assert_eq!(settings.peer.grpc_address, "grpc.example:81");
    assert_eq!(settings.bind, "10.0.0.1:7000");
    assert_eq!((settings.advertise_host.as_str(), settings.advertise_port), ("gossip.example", Some(7_001)));
    assert_eq!((settings.name.as_str(), settings.keys.is_empty()), ("blue", false));
    assert!(!settings.verify_incoming && !settings.verify_outgoing);
    // Without an address for gossip it has the node's host, not that of what peers dial.
    let pairs = [NODES, pairs[1], pairs[4]];
    let config = super::config(&pairs);
    assert_eq!(config.gossip_settings(&config.advertise_address(1_051)).advertise_host, "10.0.0.1");
}

#[test]
fn what_does_not_fit_is_said() {
    let name = ("GUBER_MEMBERLIST_NODE_NAME", "a");
    let shown = wrong(&env(&[name]));
    assert_eq!(
        shown,
        ["GUBER_MEMBERLIST_NODE_NAME='a' (environment): discovery by gossip needs nodes to begin with: set \
          GUBER_MEMBERLIST_KNOWN_NODES; a node may list itself"]
    );
    for (variable, value) in [
        ("GUBER_MEMBERLIST_ADDRESS", "0.0.0.0:7946"),
        ("GUBER_MEMBERLIST_ADDRESS", "10.0.0.1:0"),
        ("GUBER_MEMBERLIST_ADVERTISE_ADDRESS", "[::]:1051"),
    ] {
        let shown = wrong(&env(&[NODES, (variable, value)]));
        assert!(
            shown.len() == 1 && shown[0].contains("expected an address that others can dial"),
            "{shown:?}"
        );
    }
    // Two that imply different things.
    let shown = wrong(&env(&[NODES, ("FLYBALL_PEERS", "127.0.0.1:1051")]));
    assert!(shown.len() == 1 && shown[0].contains("that is static already"), "{shown:?}");
    let kind = ("GUBER_PEER_DISCOVERY_TYPE", "member-list");
    let shown = wrong(&env(&[kind, NODES, ("FLYBALL_PEERS", "127.0.0.1:1051")]));
    assert!(shown.len() == 1 && shown[0].contains("that is member-list already"), "{shown:?}");
}

#[test]
fn f2_another_type_that_was_named_is_another_type() {
    for kind in ["none", "static"] {
        let pairs = [
            ("GUBER_PEER_DISCOVERY_TYPE", kind),
            ("GUBER_MEMBERLIST_NODE_NAME", "a"),
            ("FLYBALL_PEERS", "127.0.0.1:1051"),
        ];
        let pairs = if kind == "none" { &pairs[..2] } else { &pairs[..] };
        let warned = warnings(&env(pairs));
        let expected = format!(
            "GUBER_MEMBERLIST_NODE_NAME (environment) has no effect: the discovery type is {kind}; set \
             GUBER_PEER_DISCOVERY_TYPE=member-list to use it"
        );
        assert_eq!(warned, [expected]);
    }
}

#[tokio::test]
async fn the_source_is_gossip_or_a_reason_why_not() {
    let pairs = [NODES, ("GUBER_MEMBERLIST_BIND_ADDRESS", "127.0.0.1:0")];
    let source = config(&pairs).source(&own("127.0.0.1:1051")).unwrap().unwrap();
    assert_eq!(source.kind(), "member-list");
    assert!(source.origin().contains("10.0.0.2:7947"), "{}", source.origin());
    let pairs = [NODES, ("GUBER_MEMBERLIST_BIND_ADDRESS", "192.0.2.1:7946")];
    let error = config(&pairs).source(&own("127.0.0.1:1051")).err().unwrap();
    assert!(error.message.contains("192.0.2.1:7946"), "{error}");
}
