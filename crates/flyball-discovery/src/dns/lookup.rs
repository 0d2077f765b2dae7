//! One question to a DNS server, by hickory.
//!
//! Queries carry EDNS and go over UDP; a truncated answer is asked for again over TCP, so that a name may have
//! hundreds of records. Nothing is searched, no hosts file is read, and what the resolver remembers is forgotten
//! before each round: the round itself goes by the TTL.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use tokio::time::timeout;

/// Bound of one try with a server.
const TRY_MAX: Duration = Duration::from_secs(2);

/// Tries of a question.
const TRIES: usize = 2;

/// Bound of one question, tries over TCP and aliases included.
const QUESTION_MAX: Duration = Duration::from_secs(8);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    A,
    Aaaa,
    Srv,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Srv => "SRV",
        })
    }
}

/// A record that matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Data {
    Ip(IpAddr),
    /// The absolute name of a node, and its port.
    Service(String, u16),
}

/// What a server said. No records is an answer too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) records: BTreeSet<Data>,
    /// The least of the answer, aliases included; `None` without records.
    pub(super) ttl: Option<Duration>,
}

pub(super) type Asked = Pin<Box<dyn Future<Output = Result<Answer, String>> + Send>>;

/// Whoever answers questions. A trait, so that the rules of a round can be tested without a network.
pub(super) trait Lookups: fmt::Debug + Send + Sync {
    /// Forgets what was answered before.
    fn forget(&self);

    /// The error says why there is no answer, in a few words.
    fn ask(&self, name: &str, kind: Kind) -> Asked;
}

/// Asks real servers.
pub(super) struct Resolver(TokioResolver);

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    pub(super) fn new(servers: &[SocketAddr]) -> Result<Self, String> {
        let servers = servers.iter().map(|server| {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = server.port();
                connection
            });
            NameServerConfig::new(server.ip(), true, connections.into())
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options();
        builder.build().map(Self).map_err(|error| error.to_string())
    }
}

fn options() -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = TRY_MAX;
    options.attempts = TRIES;
    options.edns0 = true;
    options.use_hosts_file = ResolveHosts::Never;
    // Only within a round, where many services may name one host.
    options.cache_size = 1024;
    // Aliases have a TTL too.
    options.preserve_intermediates = true;
    options.server_ordering_strategy = ServerOrderingStrategy::QueryStatistics;
    options
}

impl Lookups for Resolver {
    fn forget(&self) {
        self.0.clear_cache();
    }

    fn ask(&self, name: &str, kind: Kind) -> Asked {
        let name = Name::from_ascii(name).map_err(|error| error.to_string());
        let resolver = self.0.clone();
        Box::pin(async move {
            let record_type = match kind {
                Kind::A => RecordType::A,
                Kind::Aaaa => RecordType::AAAA,
                Kind::Srv => RecordType::SRV,
            };
            let lookup = match timeout(QUESTION_MAX, resolver.lookup(name?, record_type)).await {
                Ok(Ok(lookup)) => lookup,
                Ok(Err(error)) => return refused(&error),
                Err(_) => return Err("no answer in time".to_owned()),
            };
            let ttl = lookup.answers().iter().map(|record| record.ttl).min();
            let records = lookup.answers().iter().filter_map(|record| match &record.data {
                RData::A(a) if kind == Kind::A => Some(Data::Ip(IpAddr::V4(a.0))),
                RData::AAAA(aaaa) if kind == Kind::Aaaa => Some(Data::Ip(IpAddr::V6(aaaa.0))),
                // The root says that the service is not offered.
                RData::SRV(srv) if kind == Kind::Srv && !srv.target.is_root() => {
                    Some(Data::Service(srv.target.to_ascii(), srv.port))
                }
                _ => None,
            });
            let ttl = ttl.map(|seconds| Duration::from_secs(seconds.into()));
            Ok(Answer { records: records.collect(), ttl })
        })
    }
}

/// No records is an answer, everything else is a failure.
fn refused(error: &NetError) -> Result<Answer, String> {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none))
            if matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            Ok(Answer::default())
        }
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            Err(format!("the server said {}", none.response_code))
        }
        NetError::Dns(DnsError::ResponseCode(code)) => Err(format!("the server said {code}")),
        NetError::Timeout => Err("no answer in time".to_owned()),
        error => Err(error.to_string()),
    }
}
