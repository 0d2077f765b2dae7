//! The settings of discovery by etcd.

use super::table::Section::Cluster;
use super::table::{Field, Setting, field};

/// Shown as what they are.
const CA: Field = Field { kind: "file", ..field!(discovery.etcd.tls_ca) };
const CERT: Field = Field { kind: "file", ..field!(discovery.etcd.tls_cert) };
const KEY: Field = Field { kind: "file", ..field!(discovery.etcd.tls_key) };

/// In the order of the reference page. All need the type `etcd` and have no effect without it.
pub(super) const ROWS: [Setting; 12] = [
    Setting::new(
        Cluster,
        "discovery.etcd.endpoints",
        &["GUBER_ETCD_ENDPOINTS"],
        field!(discovery.etcd.endpoints),
        "The members of etcd. They are tried in turn; `http://` or `https://` before an entry asks for it without and \
         with TLS.",
    )
    .default("localhost:2379"),
    Setting::new(
        Cluster,
        "discovery.etcd.key_prefix",
        &["GUBER_ETCD_KEY_PREFIX"],
        field!(discovery.etcd.key_prefix),
        "What the keys of all nodes begin with; the node's address follows at once. Another prefix that begins with \
         this one is caught too.",
    )
    .default("/gubernator-peers"),
    Setting::new(
        Cluster,
        "discovery.etcd.advertise_address",
        &["GUBER_ETCD_ADVERTISE_ADDRESS"],
        field!(discovery.etcd.advertise_address),
        "The address under which this node registers, and so its identity.",
    )
    .without("`node.advertise_address`"),
    Setting::new(
        Cluster,
        "discovery.etcd.data_center",
        &["GUBER_ETCD_DATA_CENTER"],
        field!(discovery.etcd.data_center),
        "The data center with which this node registers, and so its own.",
    )
    .without("`node.data_center`"),
    // The order is the original's, where the name of its helper library wins.
    Setting::new(
        Cluster,
        "discovery.etcd.dial_timeout",
        &["ETCD3_DIAL_TIMEOUT", "GUBER_ETCD_DIAL_TIMEOUT"],
        field!(discovery.etcd.dial_timeout, zero = default),
        "How long a connection to a member may take to be made.",
    )
    .default("5s"),
    Setting::new(
        Cluster,
        "discovery.etcd.user",
        &["GUBER_ETCD_USER", "ETCD3_USER"],
        field!(discovery.etcd.user),
        "The user, who needs to read and write all keys with the prefix.",
    )
    .without("no authentication"),
    Setting::new(
        Cluster,
        "discovery.etcd.password",
        &["GUBER_ETCD_PASSWORD", "ETCD3_PASSWORD"],
        field!(discovery.etcd.password),
        "The user's password.",
    )
    .without("an empty one")
    .secret(),
    Setting::new(
        Cluster,
        "discovery.etcd.tls_enable",
        &["GUBER_ETCD_TLS_ENABLE", "ETCD3_ENABLE_TLS"],
        field!(discovery.etcd.tls_enable),
        "Speak TLS with etcd. Any other setting about it turns it on too, and so does any variable whose name begins \
         with `GUBER_ETCD_TLS_`.",
    )
    .without("on if another setting asks for it"),
    Setting::new(
        Cluster,
        "discovery.etcd.tls_ca",
        &["GUBER_ETCD_TLS_CA", "ETCD3_CA"],
        CA,
        "Authorities that etcd's certificate may come from, PEM. Read again for each connection.",
    )
    .without("those of the system"),
    Setting::new(
        Cluster,
        "discovery.etcd.tls_cert",
        &["GUBER_ETCD_TLS_CERT", "ETCD3_TLS_CERT"],
        CERT,
        "This node's certificate for etcd, PEM, with the chain after it. Read again for each connection.",
    )
    .without("none is shown"),
    Setting::new(
        Cluster,
        "discovery.etcd.tls_key",
        &["GUBER_ETCD_TLS_KEY", "ETCD3_TLS_KEY"],
        KEY,
        "The key of that certificate, PEM, without a passphrase.",
    )
    .without("none"),
    Setting::new(
        Cluster,
        "discovery.etcd.tls_skip_verify",
        &["GUBER_ETCD_TLS_SKIP_VERIFY", "ETCD3_SKIP_VERIFY"],
        field!(discovery.etcd.tls_skip_verify),
        "Take any certificate of etcd for good. Only for trying things.",
    )
    .without("it is verified"),
];
