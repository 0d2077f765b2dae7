//! The settings about peers: who they are, and how nodes talk to each other.

use super::Config;
use super::table::Section::Cluster;
use super::table::{Field, Setting, field};
use super::values::whole_number;

/// Fields whose bounds are narrower than their type's.
const BATCH_LIMIT: Field = Field { set: batch_limit, ..field!(batch.limit, zero = default) };
/// Shown as what they are.
const PEERS_FILE: Field = Field { kind: "file", ..field!(discovery.file) };
const RESOLV_CONF: Field = Field { kind: "file", ..field!(discovery.resolv_conf) };
const REPLICAS: Field = Field { set: replicas, ..field!(peer_picker.replicas, zero = default) };

const PEER_SECRET: Field = Field { set: peer_secret, ..field!(cluster.peer_secret) };
const PEER_CONNECTIONS: Field = Field { set: peer_connections, ..field!(cluster.peer_connections) };

fn peer_secret(config: &mut Config, text: &str) -> Result<(), String> {
    // It travels in a header.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("expected visible ASCII characters without spaces".to_owned());
    }
    (field!(cluster.peer_secret).set)(config, text)
}

fn peer_connections(config: &mut Config, text: &str) -> Result<(), String> {
    whole_number(text, 1, 64)?;
    (field!(cluster.peer_connections).set)(config, text)
}

fn batch_limit(config: &mut Config, text: &str) -> Result<(), String> {
    let field = field!(batch.limit, zero = default);
    match whole_number(text, 1_001, i64::MAX) {
        // The original's words, which its users may look for.
        Ok(_) => Err("Behaviors.BatchLimit cannot exceed '1000'".to_owned()),
        Err(_) => (field.set)(config, text),
    }
}

fn replicas(config: &mut Config, text: &str) -> Result<(), String> {
    // Each peer puts as many points on every ring of every node.
    whole_number(text, 0, 65_536)?;
    (field!(peer_picker.replicas, zero = default).set)(config, text)
}

/// In the order of the reference page.
pub(super) const ROWS: [Setting; 20] = [
    Setting::new(
        Cluster,
        "discovery.type",
        &["GUBER_PEER_DISCOVERY_TYPE"],
        field!(discovery.kind),
        "How peers are found: `static` by the list `discovery.peers`, `file` by the file `discovery.file`, `dns` by \
         the names `discovery.dns_fqdn`, `member-list` by gossip, `etcd` by keys in etcd, `k8s` by the Kubernetes API, \
         `none` not at all.",
    )
    .without(
        "`static` with a list of peers, `file` with a file of them, `member-list` with any setting of \
         `discovery.memberlist`, else a cluster of one",
    )
    .flag("peer-discovery-type"),
    Setting::new(
        Cluster,
        "discovery.peers",
        &["FLYBALL_PEERS"],
        field!(discovery.peers),
        "All nodes of the cluster, this one included. An entry without a port gets that of the advertise address. \
         The texts are the nodes' identities: the same on every node. Implies the type `static`.",
    )
    .without("no list")
    .flag("peers"),
    Setting::new(
        Cluster,
        "discovery.file",
        &["FLYBALL_PEERS_FILE"],
        PEERS_FILE,
        "File that lists all nodes, one `host:port [data-center]` on each line or as a JSON list. It is watched: \
         changes count within a second. Implies the type `file`.",
    )
    .without("no file")
    .flag("peers-file"),
    Setting::new(
        Cluster,
        "discovery.dns_fqdn",
        &["GUBER_DNS_FQDN"],
        field!(discovery.dns_fqdn),
        "Names whose A and AAAA records are the nodes, all with the port of the advertise address, or whose SRV \
         records are (`_grpc._tcp.name`, with their ports). With a data center configured, each name is one and \
         this node's must be among them; without, all names are one cluster. Needs the type `dns`.",
    )
    .without("no names")
    .flag("dns-fqdn"),
    Setting::new(
        Cluster,
        "discovery.resolv_conf",
        &["GUBER_RESOLV_CONF"],
        RESOLV_CONF,
        "File whose `nameserver` lines say which DNS servers are asked. Nothing else in it counts: names are \
         absolute.",
    )
    .default("/etc/resolv.conf")
    .flag("resolv-conf"),
    Setting::new(
        Cluster,
        "batch.timeout",
        &["GUBER_BATCH_TIMEOUT"],
        field!(batch.timeout, zero = default),
        "Bound of one forward to a peer. Also added to the tolerance of `created_at` for what a peer \
         forwards.",
    )
    .default("500ms")
    .flag("batch-timeout")
    .cluster(),
    Setting::new(
        Cluster,
        "batch.limit",
        &["GUBER_BATCH_LIMIT"],
        BATCH_LIMIT,
        "Most items in one call to a peer, at most 1000.",
    )
    .default("1000")
    .flag("batch-limit")
    .cluster(),
    Setting::new(
        Cluster,
        "batch.wait",
        &["GUBER_BATCH_WAIT"],
        field!(batch.wait, zero = default),
        "How long items for a peer are gathered.",
    )
    .default("500us")
    .flag("batch-wait")
    .cluster(),
    Setting::new(
        Cluster,
        "batch.disabled",
        &["GUBER_DISABLE_BATCHING"],
        field!(batch.disabled),
        "Forward every item alone and at once.",
    )
    .default("false")
    .flag("disable-batching")
    .cluster(),
    Setting::new(
        Cluster,
        "global.timeout",
        &["GUBER_GLOBAL_TIMEOUT"],
        field!(global.timeout, zero = default),
        "Bound of one exchange of GLOBAL limits with a peer.",
    )
    .default("500ms")
    .flag("global-timeout")
    .cluster(),
    Setting::new(
        Cluster,
        "global.batch_limit",
        &["GUBER_GLOBAL_BATCH_LIMIT"],
        field!(global.batch_limit, zero = default),
        "Keys that start an exchange of GLOBAL limits before its time.",
    )
    .default("1000")
    .flag("global-batch-limit")
    .cluster(),
    Setting::new(
        Cluster,
        "global.sync_wait",
        &["GUBER_GLOBAL_SYNC_WAIT"],
        field!(global.sync_wait, zero = default),
        "Time between exchanges of GLOBAL limits.",
    )
    .default("100ms")
    .flag("global-sync-wait")
    .cluster(),
    Setting::new(
        Cluster,
        "global.force",
        &["GUBER_FORCE_GLOBAL"],
        field!(global.force),
        "Treat every check as GLOBAL. A check with `max_wait` is then an error, since the two exclude \
         each other.",
    )
    .default("false")
    .flag("force-global"),
    Setting::new(
        Cluster,
        "peer_picker.type",
        &["GUBER_PEER_PICKER"],
        field!(peer_picker.kind),
        "How the owner of a key is found. Naming the method changes the default hash to `fnv1a`. The same \
         on every node.",
    )
    .without("`replicated-hash` with `fnv1` and 512 replicas")
    .flag("peer-picker")
    .cluster(),
    Setting::new(
        Cluster,
        "peer_picker.hash",
        &["GUBER_PEER_PICKER_HASH"],
        field!(peer_picker.hash),
        "Hash of the ring. Read only when the method is named.",
    )
    .default("fnv1a")
    .flag("peer-picker-hash")
    .cluster(),
    Setting::new(
        Cluster,
        "peer_picker.replicas",
        &["GUBER_REPLICATED_HASH_REPLICAS"],
        REPLICAS,
        "Points of each peer on the ring, at most 65536. Read only when the method is named.",
    )
    .default("512")
    .flag("replicated-hash-replicas")
    .cluster(),
    Setting::new(
        Cluster,
        "cluster.owner_unreachable",
        &["FLYBALL_CLUSTER_OWNER_UNREACHABLE"],
        field!(cluster.owner_unreachable),
        "What a check gets whose owner cannot be reached: `local-share` a decision by this node's part of the limit \
         (the limit divided by the number of nodes), `local` one by the full limit, `deny` a refusal, `error` the \
         item error of the original. A check with `max_wait` always gets the error.",
    )
    .without("`local-share`; `error` under the semantics `gubernator`")
    .flag("owner-unreachable")
    .cluster(),
    Setting::new(
        Cluster,
        "cluster.peer_guard",
        &["FLYBALL_CLUSTER_PEER_GUARD"],
        field!(cluster.peer_guard),
        "Who may call the peers' service: `peers` those whose address is that of a peer (on loopback everybody), \
         `open` everybody who reaches the port, as with the original. Needed where a peer's calls come from another \
         address than its own and there is no secret.",
    )
    .default("peers")
    .flag("peer-guard")
    .cluster(),
    Setting::new(
        Cluster,
        "cluster.peer_secret",
        &["FLYBALL_CLUSTER_PEER_SECRET"],
        PEER_SECRET,
        "Shown by peers with every call to each other; who does not show it is refused, wherever the call comes from. \
         The same on every node. Originals cannot show it.",
    )
    .without("callers are judged by their address")
    .flag("peer-secret")
    .secret()
    .cluster(),
    Setting::new(
        Cluster,
        "cluster.peer_connections",
        &["FLYBALL_CLUSTER_PEER_CONNECTIONS"],
        PEER_CONNECTIONS,
        "HTTP/2 connections to each peer, at most 64. More than one helps where a single connection is the bound.",
    )
    .default("1")
    .flag("peer-connections")
    .cluster(),
];
