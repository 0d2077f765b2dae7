//! Peers by their DNS records: A and AAAA with a common port, or SRV with a port each.
//!
//! Nothing is registered; whoever runs the nodes (a headless Kubernetes service, Cloud Map, Consul) keeps the
//! records. All names are asked together, again when the shortest TTL of the answers is over: no sooner than after
//! 1 s, whatever the TTL, and no later than after 300 s. When something failed or was missing the caller asks again
//! sooner ([`Recover`](crate::Recover): within 5 s), and what was known stays; `round` has the rules.
//!
//! Addresses are written in their canonical form (`[2001:db8::1]:1051`), so all nodes see the same text. The node
//! itself is the peer whose text is its own advertise address, written so as well:
//! [`canonical_address`](crate::canonical_address).
//!
//! With a data center configured, nodes belong to the one that their name is: those under the node's own are the
//! ring, the others are other data centers. Without one **all names are one cluster**. An address found under two
//! names belongs to the node's own data center if one of them is, else to the first name.
//!
//! The servers come from a `resolv.conf`, which is read again before each round: it changes when a machine moves to
//! another network, and a node may live for months.

mod lookup;
mod name;
mod resolv_conf;
mod round;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use tokio::time::{Instant, sleep_until};

pub use self::name::{DnsName, absolute};

use self::lookup::{Lookups, Resolver};
use self::round::{Found, Memory};
use crate::address;
use crate::source::{NextPeers, PEERS_MAX, Source, SourceError};

/// Most names that are looked up.
pub const NAMES_MAX: usize = 64;

/// Shortest time between two rounds: a TTL of 0 means "do not cache", not "ask without a pause".
const ROUND_MIN: Duration = Duration::from_secs(1);

/// Longest time between two rounds.
const ROUND_MAX: Duration = Duration::from_secs(300);

const DNS_PORT: u16 = 53;

/// What is asked, and whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsSettings {
    /// The names; at least one, at most [`NAMES_MAX`].
    pub names: Vec<DnsName>,
    /// The port of nodes found by A and AAAA.
    pub port: u16,
    /// The node's own data center, as configured; empty makes all names one cluster.
    pub data_center: String,
    /// Whom to ask.
    pub servers: DnsServers,
}

/// Where the DNS servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsServers {
    /// The `nameserver` lines of a file, on port 53.
    ResolvConf(PathBuf),
    /// These.
    Addresses(Vec<SocketAddr>),
}

/// The nodes that DNS lists.
pub struct Dns {
    names: Arc<[DnsName]>,
    port: u16,
    /// Absolute, or empty.
    data_center: String,
    resolver: Resolving,
    memory: Memory,
    /// The round that goes on. It is kept here and not in the call: a caller that drops its calls more often than
    /// a server takes to answer, or not to, would otherwise never hear anything.
    round: Option<Pin<Box<dyn Future<Output = Round> + Send>>>,
    /// The set that was told last.
    told: Option<Vec<PeerInfo>>,
    /// Whether the last answer was an error, so that the next good round has to be told.
    told_error: bool,
    /// What went wrong in a round that brought news all the same: told after them.
    owed: Option<SourceError>,
    /// When to ask next.
    due: Instant,
}

impl fmt::Debug for Dns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dns").field("names", &self.names).field("told", &self.told).finish_non_exhaustive()
    }
}

/// Whom to ask.
#[derive(Clone, Debug)]
struct Resolving {
    lookups: Arc<dyn Lookups>,
    /// The `resolv.conf` to watch, with the servers it named.
    file: Option<(PathBuf, Vec<SocketAddr>)>,
}

/// What a round gives back.
type Round = (Found, Memory, Resolving);

impl Dns {
    /// Asks nothing yet, but reads the `resolv.conf`. To be used in a tokio runtime.
    ///
    /// # Errors
    /// There is no name or too many, or there are no servers.
    pub fn new(settings: DnsSettings) -> Result<Self, SourceError> {
        let (file, addresses) = match settings.servers {
            DnsServers::ResolvConf(path) => {
                let addresses = read_resolv_conf(&path)?;
                (Some((path, addresses.clone())), addresses)
            }
            DnsServers::Addresses(addresses) => (None, addresses),
        };
        if addresses.is_empty() {
            return Err(SourceError::new("no DNS server is given; expected at least one"));
        }
        let lookups = Arc::new(Resolver::new(&addresses).map_err(SourceError::new)?);
        Self::with(settings.names, settings.port, &settings.data_center, Resolving { lookups, file })
    }

    fn with(
        names: Vec<DnsName>,
        port: u16,
        data_center: &str,
        resolver: Resolving,
    ) -> Result<Self, SourceError> {
        if names.is_empty() || names.len() > NAMES_MAX {
            let count = names.len();
            return Err(SourceError::new(format!("{count} DNS names; expected 1 to {NAMES_MAX}")));
        }
        Ok(Self {
            names: names.into(),
            port,
            data_center: absolute(data_center),
            resolver,
            memory: Memory::default(),
            round: None,
            told: None,
            told_error: false,
            owed: None,
            due: Instant::now(),
        })
    }

    fn begin_round(&mut self) -> Pin<Box<dyn Future<Output = Round> + Send>> {
        let mut resolver = self.resolver.clone();
        let (names, port, memory) = (self.names.clone(), self.port, std::mem::take(&mut self.memory));
        Box::pin(async move {
            resolver.refresh().await;
            let (found, memory) = round::run(resolver.lookups.clone(), names, port, memory).await;
            (found, memory, resolver)
        })
    }

    /// The peers of a round, sorted, each address once.
    fn peers(&self, found: &Found) -> Vec<PeerInfo> {
        let mut peers: BTreeMap<String, &str> = BTreeMap::new();
        for (name, nodes) in self.names.iter().zip(&found.nodes) {
            let data_center = self.data_center_of(name);
            for (ip, port) in nodes {
                let known = peers.entry(address::with_port(*ip, *port)).or_insert(data_center);
                if data_center == self.data_center {
                    *known = data_center;
                }
            }
        }
        let peer = |(address, data_center): (String, &str)| PeerInfo {
            data_center: data_center.to_owned(),
            ..PeerInfo::new(address)
        };
        peers.into_iter().map(peer).collect()
    }

    fn data_center_of<'a>(&'a self, name: &'a DnsName) -> &'a str {
        // Names are compared as DNS does, but the node's own data center keeps its spelling.
        let own = self.data_center.is_empty() || self.data_center.eq_ignore_ascii_case(name.data_center());
        if own { &self.data_center } else { name.data_center() }
    }

    /// What to tell after a round; `None` when there is no news.
    fn conclude(&mut self, found: &Found, now: Instant) -> Option<Result<Vec<PeerInfo>, SourceError>> {
        let peers = self.peers(found);
        let fault = match peers.len() {
            0 if found.faults.is_empty() => Some("no records".to_owned()),
            count if count > PEERS_MAX => Some(format!("{count} peers; expected at most {PEERS_MAX}")),
            _ => (!found.faults.is_empty()).then(|| found.faults.join("; ")),
        };
        let fault = fault.map(|fault| SourceError::new(format!("DNS: {fault}")));
        // After a failure the caller decides when to ask again, but not at once.
        let wait = match fault {
            Some(_) => ROUND_MIN,
            None => found.ttl.unwrap_or(ROUND_MIN).clamp(ROUND_MIN, ROUND_MAX),
        };
        self.due = now + wait;
        let usable = (1..=PEERS_MAX).contains(&peers.len());
        let news = usable && self.told.as_ref() != Some(&peers);
        let healed = fault.is_none() && std::mem::take(&mut self.told_error);
        self.told_error = fault.is_some();
        if news || healed {
            self.told = Some(peers.clone());
            self.owed = fault;
            return Some(Ok(peers));
        }
        fault.map(Err)
    }
}

impl Source for Dns {
    fn kind(&self) -> &'static str {
        "dns"
    }

    fn origin(&self) -> String {
        let names: Vec<_> = self.names.iter().map(DnsName::absolute).collect();
        names.join(", ")
    }

    fn next(&mut self) -> NextPeers<'_> {
        Box::pin(async {
            loop {
                if let Some(error) = self.owed.take() {
                    return Err(error);
                }
                if self.round.is_none() {
                    sleep_until(self.due).await;
                    self.round = Some(self.begin_round());
                }
                let Some(round) = &mut self.round else { continue };
                let (found, memory, resolver) = round.await;
                // No await from here on, so a dropped call cannot lose what was found.
                self.round = None;
                self.memory = memory;
                self.resolver = resolver;
                if let Some(answer) = self.conclude(&found, Instant::now()) {
                    return answer;
                }
            }
        })
    }
}

impl Resolving {
    /// Takes up changes of the `resolv.conf`. One that cannot be read, or names nobody, changes nothing: it may be
    /// in the middle of being written.
    async fn refresh(&mut self) {
        let Some((path, addresses)) = &mut self.file else { return };
        let file = path.clone();
        let read = tokio::task::spawn_blocking(move || read_resolv_conf(&file)).await;
        let Ok(Ok(now)) = read else { return };
        if now != *addresses
            && let Ok(lookups) = Resolver::new(&now)
        {
            tracing::info!(path = %path.display(), servers = ?now, "the DNS servers changed");
            *addresses = now;
            self.lookups = Arc::new(lookups);
        }
    }
}

/// The servers a `resolv.conf` names; never none.
fn read_resolv_conf(path: &Path) -> Result<Vec<SocketAddr>, SourceError> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| {
        SourceError::new(format!(
            "cannot read {shown}: {error}; correct GUBER_RESOLV_CONF or its permissions"
        ))
    })?;
    let servers = resolv_conf::servers(&String::from_utf8_lossy(&text));
    match servers.is_empty() {
        true => Err(SourceError::new(format!(
            "{shown} names no DNS server; expected a line such as 'nameserver 10.0.0.2'"
        ))),
        false => Ok(servers.into_iter().map(|ip| SocketAddr::new(ip, DNS_PORT)).collect()),
    }
}
