//! How peers are found: the values, how they fit together, and the source that they make.
//!
//! One source at a time. The type may be named; a list or a file of peers implies theirs, and so does anything about
//! gossip. Names for DNS imply
//! nothing, as with the original: they are often in an environment that many programs share. What nobody looks at
//! is reported all the same, since somebody who configured peers and gets a cluster of one has to be told.

use std::net::IpAddr;

use flyball_discovery::{
    Dns, DnsName, DnsServers, DnsSettings, Etcd, FixedList, Gossip, Kubernetes, NAMES_MAX, Source,
    SourceError, WatchedFile, absolute, canonical_address,
};

use super::choices::PeerDiscovery;
use super::error::Warning;
use super::memberlist;
use super::raw::Raw;
use super::values::{HostPort, Value, items};
use super::{Config, Discovery};
use super::{etcd, kubernetes};

/// Addresses of peers, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerList(Vec<String>);

impl PeerList {
    /// The list that a source is made of.
    fn text(&self) -> String {
        self.0.join(",")
    }
}

/// Any port will do to judge entries that have none: which one they get depends on another setting.
const SOME_PORT: u16 = 1051;

impl Value for PeerList {
    const KIND: &'static str = "list of host:port";

    fn parse(text: &str) -> Result<Self, String> {
        FixedList::parse(text, SOME_PORT, "").map_err(|bad| bad.to_string())?;
        Ok(Self(items(text).map(str::to_owned).collect()))
    }

    fn show(&self) -> String {
        self.text()
    }
}

/// Names that are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsNames(pub Vec<DnsName>);

impl Value for DnsNames {
    const KIND: &'static str = "list of DNS names";

    fn parse(text: &str) -> Result<Self, String> {
        let mut names: Vec<DnsName> = Vec::new();
        for name in items(text) {
            let name = DnsName::parse(name).map_err(|why| format!("{} {why}", super::error::quoted(name)))?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        match names.len() {
            1..=NAMES_MAX => Ok(Self(names)),
            count => Err(format!("{count} names; expected 1 to {NAMES_MAX}")),
        }
    }

    fn show(&self) -> String {
        let names: Vec<_> = self.0.iter().map(DnsName::absolute).collect();
        names.join(",")
    }
}

impl Discovery {
    /// The type in force: as named, or as a list or a file of peers implies, or anything about gossip.
    pub fn in_force(&self) -> PeerDiscovery {
        match (self.kind, &self.peers, &self.file) {
            (Some(kind), ..) => kind,
            (None, Some(_), _) => PeerDiscovery::Static,
            (None, None, Some(_)) => PeerDiscovery::File,
            (None, None, None) if self.member_list.is_given() => PeerDiscovery::MemberList,
            (None, None, None) => PeerDiscovery::None,
        }
    }
}

impl Config {
    /// Where peers come from, given the address they know this node by; `None` is a cluster of one. To be called
    /// in a tokio runtime.
    ///
    /// # Errors
    /// The source cannot start: its `resolv.conf` cannot be read, say.
    pub fn source(&self, own: &HostPort) -> Result<Option<Box<dyn Source>>, SourceError> {
        let data_center = self.data_center();
        let discovery = &self.discovery;
        Ok(match (discovery.in_force(), &discovery.peers, &discovery.file, &discovery.dns_fqdn) {
            (PeerDiscovery::Static, Some(peers), ..) => {
                let list = FixedList::parse(&peers.text(), own.port, &data_center);
                Some(Box::new(list.map_err(|bad| SourceError::new(bad.to_string()))?))
            }
            (PeerDiscovery::File, _, Some(path), _) => {
                Some(Box::new(WatchedFile::new(path, own.port, &data_center)))
            }
            (PeerDiscovery::Dns, _, _, Some(names)) => Some(Box::new(Dns::new(DnsSettings {
                names: names.0.clone(),
                port: own.port,
                data_center,
                servers: DnsServers::ResolvConf(discovery.resolv_conf.clone().into()),
            })?)),
            (PeerDiscovery::Etcd, ..) => Some(Box::new(Etcd::new(self.etcd_settings(own))?)),
            (PeerDiscovery::Kubernetes, ..) => Some(Box::new(Kubernetes::new(self.kubernetes_settings(own)))),
            (PeerDiscovery::MemberList, ..) => Some(Box::new(Gossip::new(self.gossip_settings(own))?)),
            // What is missing was refused.
            _ => None,
        })
    }

    /// The data center of this node as its peers call it: by DNS they go by absolute names.
    pub fn data_center(&self) -> String {
        match self.discovery.in_force() {
            PeerDiscovery::Dns => absolute(&self.node.data_center),
            PeerDiscovery::Etcd => {
                self.discovery.etcd.data_center.as_ref().unwrap_or(&self.node.data_center).clone()
            }
            _ => self.node.data_center.clone(),
        }
    }

    /// This node's address as its peers write it, and so its identity: by DNS and in Kubernetes they know it by a canonical
    /// address.
    pub fn peer_address(&self, own: &HostPort) -> String {
        match self.discovery.in_force() {
            PeerDiscovery::Dns | PeerDiscovery::Kubernetes => canonical_address(&own.to_string()),
            _ => own.to_string(),
        }
    }
}

/// The settings that name a source.
const SOURCES: [(&str, PeerDiscovery); 3] = [
    ("discovery.peers", PeerDiscovery::Static),
    ("discovery.file", PeerDiscovery::File),
    ("discovery.dns_fqdn", PeerDiscovery::Dns),
];

/// Whether the settings fit together.
pub(super) fn check(
    config: &Config,
    raw: &Raw,
    mut report: impl FnMut(&str, String),
    warnings: &mut Vec<Warning>,
) {
    let kind = config.discovery.in_force();
    let chosen = match kind {
        PeerDiscovery::Static | PeerDiscovery::File | PeerDiscovery::Dns => {
            SOURCES.into_iter().find(|(_, its)| *its == kind).map(|(name, _)| name)
        }
        _ => None,
    };
    if let Some(name) = chosen
        && raw.given_by_name(name).is_none()
    {
        let what = match kind {
            PeerDiscovery::Static => "a list of peers: set --peers or FLYBALL_PEERS",
            PeerDiscovery::File => "a file of peers: set --peers-file or FLYBALL_PEERS_FILE",
            _ => "names to look up: set GUBER_DNS_FQDN",
        };
        report("discovery.type", format!("needs {what}"));
    }
    for (name, its) in SOURCES {
        let Some(given) = raw.given_by_name(name).filter(|_| its != kind) else { continue };
        let shown = kind.show();
        match (kind, its) {
            (PeerDiscovery::None, PeerDiscovery::Dns) => warnings.push(Warning(format!(
                "{} ({}) has no effect: this is a cluster of one; set GUBER_PEER_DISCOVERY_TYPE=dns to use it",
                given.origin.given_as(),
                given.origin
            ))),
            // Not named, and so it was the value that was bad.
            (PeerDiscovery::None, _) if config.discovery.kind.is_none() => {}
            (PeerDiscovery::None, _) => {
                report(name, format!("the discovery type is {shown}; expected no such value, or another type"));
            }
            _ => report(
                name,
                format!("peers come from one source, and that is {shown} already; expected one of the two"),
            ),
        }
    }
    memberlist::check(config, raw, &mut report, warnings);
    match kind {
        PeerDiscovery::Static => own_address_is_listed(config, raw, warnings),
        PeerDiscovery::Dns => dns(config, raw, report, warnings),
        PeerDiscovery::Etcd => etcd::check(config, raw, &mut report, warnings),
        PeerDiscovery::Kubernetes => kubernetes::check(config, raw, &mut report, warnings),
        PeerDiscovery::None => idle(raw, warnings),
        _ => {}
    }
}

/// Settings that somebody who runs a cluster gives, and that nobody looks at in a cluster of one.
const IDLE: [(&str, &str); 3] = [
    ("discovery.etcd.endpoints", "etcd"),
    ("discovery.kubernetes.service_name", "k8s"),
    ("discovery.kubernetes.selector", "k8s"),
];

fn idle(raw: &Raw, warnings: &mut Vec<Warning>) {
    for (name, kind) in IDLE {
        if let Some(given) = raw.given_by_name(name) {
            warnings.push(Warning(format!(
                "{} ({}) has no effect: this is a cluster of one; set GUBER_PEER_DISCOVERY_TYPE={kind} to use it",
                given.origin.given_as(),
                given.origin
            )));
        }
    }
}

/// The address peers know this node by, when the configuration alone can tell.
fn own_address(config: &Config) -> Option<HostPort> {
    let own = config.advertise_address(config.grpc.address.port);
    (own.port != 0 && !own.is_wildcard()).then_some(own)
}

fn own_address_is_listed(config: &Config, raw: &Raw, warnings: &mut Vec<Warning>) {
    let (Some(own), Some(peers)) = (own_address(config), &config.discovery.peers) else { return };
    let Some(given) = raw.given_by_name("discovery.peers") else { return };
    let Ok(list) = FixedList::parse(&peers.text(), own.port, "") else { return };
    let own = own.to_string();
    if !list.peers().iter().any(|peer| peer.grpc_address == own) {
        let (name, origin) = (given.origin.given_as(), &given.origin);
        warnings.push(Warning(format!(
            "{name} ({origin}) does not list this node, {own}: it would own no key; add {own} on every node, or \
             set GUBER_ADVERTISE_ADDRESS to the address that the list has for it"
        )));
    }
}

fn dns(config: &Config, raw: &Raw, mut report: impl FnMut(&str, String), warnings: &mut Vec<Warning>) {
    let Some(names) = &config.discovery.dns_fqdn else { return };
    let own = config.data_center();
    if !own.is_empty() && !names.0.iter().any(|name| name.data_center().eq_ignore_ascii_case(&own)) {
        let advice = format!(
            "with DNS discovery the data center is the name its nodes are found under; expected one of {}, or no \
             value when all are one cluster",
            names.show()
        );
        report("node.data_center", advice);
    }
    if let Some(own) = own_address(config)
        && own.host.parse::<IpAddr>().is_err()
    {
        let given = raw.given_by_name("node.advertise_address").or_else(|| raw.given_by_name("grpc.address"));
        let name = given.map(|given| given.origin.given_as()).unwrap_or_default();
        warnings.push(Warning(format!(
            "{name}: DNS finds addresses, so this node will not find itself as {own}; set GUBER_ADVERTISE_ADDRESS \
             to its IP address and port"
        )));
    }
}
