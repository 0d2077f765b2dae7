//! The settings of discovery by gossip.

use super::table::Section::Cluster;
use super::table::{Setting, field};

/// In the order of the reference page.
pub(super) const ROWS: [Setting; 8] = [
    Setting::new(
        Cluster,
        "discovery.memberlist.known_nodes",
        &["GUBER_MEMBERLIST_KNOWN_NODES"],
        field!(discovery.member_list.known_nodes),
        "Nodes that are asked first for all others, as `host`, `host:port` or `name/host:port`; all addresses of a \
         host are asked, and one answer is enough. Without a port it is the one this node listens on for gossip. A \
         node may list itself. Any setting of this group implies the type `member-list`, and needs this one.",
    )
    .without("no nodes")
    .flag("memberlist-known-nodes"),
    Setting::new(
        Cluster,
        "discovery.memberlist.bind_address",
        &["GUBER_MEMBERLIST_BIND_ADDRESS"],
        field!(discovery.member_list.bind_address),
        "Where this node listens for gossip, over UDP and over TCP.",
    )
    .without("`0.0.0.0:7946`")
    .flag("memberlist-bind-address"),
    Setting::new(
        Cluster,
        "discovery.memberlist.address",
        &["GUBER_MEMBERLIST_ADDRESS"],
        field!(discovery.member_list.address),
        "Where other nodes send gossip for this one to. A name is looked up once, and its first address counts.",
    )
    .without("the host of the advertise address, with the port of `discovery.memberlist.bind_address`")
    .flag("memberlist-address"),
    Setting::new(
        Cluster,
        "discovery.memberlist.advertise_address",
        &["GUBER_MEMBERLIST_ADVERTISE_ADDRESS"],
        field!(discovery.member_list.advertise_address),
        "The gRPC address that other nodes know this one by, its identity, with this type of discovery.",
    )
    .without("`node.advertise_address`")
    .flag("memberlist-advertise-address"),
    Setting::new(
        Cluster,
        "discovery.memberlist.node_name",
        &["GUBER_MEMBERLIST_NODE_NAME"],
        field!(discovery.member_list.node_name),
        "This node's name in gossip. Each node has its own.",
    )
    .without("the name of the machine")
    .flag("memberlist-node-name"),
    Setting::new(
        Cluster,
        "discovery.memberlist.secret_keys",
        &["GUBER_MEMBERLIST_SECRET_KEYS"],
        field!(discovery.member_list.secret_keys),
        "Keys that gossip is encrypted with, comma separated, each 16, 24 or 32 bytes in base64 (AES-GCM). The first \
         encrypts, all decrypt, so that a key can be replaced node by node. Nodes share them.",
    )
    .without("gossip is not encrypted")
    .flag("memberlist-secret-keys")
    .secret(),
    Setting::new(
        Cluster,
        "discovery.memberlist.verify_incoming",
        &["GUBER_MEMBERLIST_GOSSIP_VERIFY_INCOMING"],
        field!(discovery.member_list.verify_incoming),
        "With keys: refuse gossip that is not encrypted. Turned off only while a running cluster is changed to \
         encryption.",
    )
    .without("`true`")
    .flag("memberlist-verify-incoming"),
    Setting::new(
        Cluster,
        "discovery.memberlist.verify_outgoing",
        &["GUBER_MEMBERLIST_GOSSIP_VERIFY_OUTGOING"],
        field!(discovery.member_list.verify_outgoing),
        "With keys: encrypt gossip. Turned off only while a running cluster is changed to encryption.",
    )
    .without("`true`")
    .flag("memberlist-verify-outgoing"),
];
