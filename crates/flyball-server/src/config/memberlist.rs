//! The settings of discovery by gossip: the values, how they fit together, and the source that they make.
//!
//! Anything set here implies this kind of discovery, as it is the original's own default. A node that is told nothing
//! at all is a cluster of one instead.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::{fmt, fs};

use flyball_discovery::{GOSSIP_PORT, GossipSettings, Keyring, PeerInfo, Seeds, Timing};

use super::choices::PeerDiscovery;
use super::error::Warning;
use super::raw::Raw;
use super::values::{HostPort, Value};
use super::{Config, Discovery};

/// Discovery by gossip.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberList {
    /// Where others send gossip to; `None` is the advertise host, with the port that is listened on.
    pub address: Option<HostPort>,
    /// Where gossip is listened for; `None` is port 7946 of every interface.
    pub bind_address: Option<HostPort>,
    /// The address peers know this node by; `None` is the node's.
    pub advertise_address: Option<HostPort>,
    /// Whom to ask first.
    pub known_nodes: Option<KnownNodes>,
    /// This node's name; `None` is that of the machine.
    pub node_name: Option<String>,
    /// What gossip is encrypted with.
    pub secret_keys: Option<SecretKeys>,
    /// With keys: refuse what is not encrypted; `None` is yes.
    pub verify_incoming: Option<bool>,
    /// With keys: encrypt; `None` is yes.
    pub verify_outgoing: Option<bool>,
}

/// Nodes to begin with, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNodes(Seeds);

impl Value for KnownNodes {
    const KIND: &'static str = "list of host:port";

    fn parse(text: &str) -> Result<Self, String> {
        match Seeds::parse(text)? {
            seeds if seeds.is_empty() => Err("expected at least one node, as host or host:port".to_owned()),
            seeds => Ok(Self(seeds)),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Keys, as written; not shown by accident.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretKeys(String);

impl Value for SecretKeys {
    const KIND: &'static str = "list of base64 keys";

    fn parse(text: &str) -> Result<Self, String> {
        match Keyring::parse(text)? {
            keys if keys.is_empty() => Err("expected at least one key".to_owned()),
            _ => Ok(Self(text.to_owned())),
        }
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKeys(<redacted>)")
    }
}

impl MemberList {
    /// Whether anything is set, which implies this kind.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// All of them, for whatever is said of the first that was given.
const NAMES: [&str; 8] = [
    "discovery.memberlist.known_nodes",
    "discovery.memberlist.address",
    "discovery.memberlist.bind_address",
    "discovery.memberlist.advertise_address",
    "discovery.memberlist.node_name",
    "discovery.memberlist.secret_keys",
    "discovery.memberlist.verify_incoming",
    "discovery.memberlist.verify_outgoing",
];

/// Whether the settings fit together, and with the kind of discovery in force.
pub(super) fn check(
    config: &Config,
    raw: &Raw,
    report: &mut impl FnMut(&str, String),
    warnings: &mut Vec<Warning>,
) {
    let Discovery { kind, member_list, .. } = &config.discovery;
    let Some((name, given)) = NAMES.iter().find_map(|name| Some((*name, raw.given_by_name(name)?))) else {
        return;
    };
    let in_force = config.discovery.in_force();
    match (in_force, kind) {
        (PeerDiscovery::MemberList, _) => {
            if raw.given_by_name("discovery.memberlist.known_nodes").is_none() {
                let advice = "discovery by gossip needs nodes to begin with: set GUBER_MEMBERLIST_KNOWN_NODES; a \
                              node may list itself";
                report(name, advice.to_owned());
            }
            for (name, address) in [
                ("discovery.memberlist.address", &member_list.address),
                ("discovery.memberlist.advertise_address", &member_list.advertise_address),
            ] {
                if address.as_ref().is_some_and(|address| address.port == 0 || address.is_wildcard()) {
                    report(name, "expected an address that others can dial, with its port".to_owned());
                }
            }
        }
        // A bad value of this kind is reported already, and implied nothing.
        (PeerDiscovery::None, None) => {}
        (_, None) => {
            let shown = in_force.show();
            report(name, format!("peers come from one source, and that is {shown} already; expected one of the two"));
        }
        // Such variables are often in an environment that many programs share.
        (_, Some(kind)) => warnings.push(Warning(format!(
            "{} ({}) has no effect: the discovery type is {}; set GUBER_PEER_DISCOVERY_TYPE=member-list to use it",
            given.origin.given_as(),
            given.origin,
            kind.show()
        ))),
    }
}

impl Config {
    /// What this kind of discovery says about the node itself, when it is the one in force.
    pub(super) fn member_list_in_force(&self) -> Option<&MemberList> {
        (self.discovery.in_force() == PeerDiscovery::MemberList).then_some(&self.discovery.member_list)
    }

    /// What gossip is told, given the address peers know this node by.
    pub(super) fn gossip_settings(&self, own: &HostPort) -> GossipSettings {
        let MemberList { address, bind_address, known_nodes, node_name, secret_keys, .. } =
            &self.discovery.member_list;
        let bind = bind_address.clone();
        let bind = bind.unwrap_or_else(|| HostPort { host: "0.0.0.0".to_owned(), port: GOSSIP_PORT });
        // Gossip has the node's own host, whatever the address is that peers dial.
        let usual = self.node.advertise_address.as_ref().unwrap_or(&self.grpc.address);
        let usual = if usual.is_wildcard() { own } else { usual };
        let host = address.as_ref().unwrap_or(usual).host.clone();
        let keys = secret_keys.as_ref().map_or("", |keys| keys.0.as_str());
        GossipSettings {
            name: node_name.clone().unwrap_or_else(host_name),
            bind: bind.to_string(),
            advertise_host: host,
            advertise_port: address.as_ref().map(|address| address.port),
            seeds: known_nodes.as_ref().map(|nodes| nodes.0.clone()).unwrap_or_default(),
            peer: PeerInfo { data_center: self.data_center(), ..PeerInfo::new(own.to_string()) },
            keys: Keyring::parse(keys).unwrap_or_default(),
            verify_incoming: self.discovery.member_list.verify_incoming.unwrap_or(true),
            verify_outgoing: self.discovery.member_list.verify_outgoing.unwrap_or(true),
            timing: Timing::default(),
            random: RandomState::new().build_hasher().finish(),
        }
    }
}

/// The machine's name; empty, and refused with that reason, where it cannot be read.
fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
