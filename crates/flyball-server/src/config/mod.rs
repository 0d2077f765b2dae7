//! What the daemon has been told: one typed [`Config`], made from everything that was given.
//!
//! Four sources say how a node should behave, from weakest to strongest: the defaults, our own TOML file, the
//! environment joined with the original's `KEY=VALUE` file (the file wins: its oldest documented rule), and
//! the command line. They all end in one list of (setting, text, origin), and from there on there is a single
//! path: the row of the setting in `table` parses the text into its field of [`Config`], `check` looks
//! across the fields, and whatever is wrong is reported **together**, each with the variable, its value,
//! where it came from and what was expected. Somebody who fixes a configuration fixes it once.
//!
//! The same rows make the reference page, the example files and the command-line flags
//! (`reference`, `args`), and even the defaults go through the row's parser, so what the page says is what
//! the program does.
//!
//! Everything is a pure function of [`Strings`]: the process environment is never touched, least of all
//! written. Only [`load()`] knows that files exist, and it is handed the function that reads them.
//!
//! Decisions worth knowing:
//! * An empty value is no value, in every source; it falls through to the next weaker one.
//! * Unknown `GUBER_*` and `FLYBALL_*` names are warnings, since other software shares the environment. Unknown
//!   TOML keys are errors: nobody else writes that file, and a misspelt `semantics` must not start the wrong
//!   semantics.
//! * A variable whose feature this version lacks is refused (`later`): silence would start a cluster of one
//!   where a cluster was asked for.
//!
//! Rejected: filling typed structs by serde from each source and merging them (the origin is lost, and the
//! first bad value hides the others); reading variables where they are used (no test can run beside another).

mod args;
mod check;
mod choices;
mod convert;
mod discovery;
mod duration;
mod error;
mod etcd;
mod etcd_rows;
mod file;
mod kubernetes;
mod kubernetes_rows;
mod later;
mod load;
mod memberlist;
mod memberlist_rows;
mod migrate;
mod otel;
mod otel_rows;
mod peer_rows;
mod raw;
mod reference;
mod rows;
mod table;
mod tls;
mod tls_rows;
mod unknown;
mod values;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use args::ServeArgs;
pub use choices::{
    AdminSwitch, LogFormat, LogLevel, MetricFlags, OwnerUnreachable, PeerDiscovery, PeerGuard, PeerPicker,
    PickerHash, TracingLevel,
};
pub use convert::HostFacts;
pub use discovery::{DnsNames, PeerList};
pub(crate) use error::without_credentials;
pub use error::{ConfigError, Problem, Warning};
pub use etcd::{Etcd, EtcdEndpoints};
pub use flyball_core::Semantics;
pub use kubernetes::{Kubernetes, WatchMechanism};
pub use load::{FILE_BYTES_MAX, Loaded, from_strings, load, read_file};
pub use memberlist::{KnownNodes, MemberList, SecretKeys};
pub use migrate::{ChangedDefault, Report, Variable, from_env, report, variables_table};
pub use otel::{Compression, Otel, OtlpExporter, OtlpProtocol, Pairs, Sampler, SpanLimits};
pub use raw::{Effective, Origin, SourceFile, Strings};
pub use reference::{example_conf, example_toml, reference_page};
pub use table::{SETTINGS, Scope, Section, Setting};
pub use tls::{ClientAuth, Tls, TlsMinVersion, client_tls};
pub use values::{ByteSize, HostPort, Zone};

/// The settings of a daemon, each with its final value. The documentation of a field is its row in the
/// reference page; here are only the units.
///
/// [`Config::default`] is exactly what a daemon gets that is given nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which set of answers.
    pub semantics: Semantics,
    /// Where calendar days begin and end.
    pub time_zone: Zone,
    /// How far a client's `created_at` is believed, each way.
    pub created_at_tolerance: Duration,
    /// Longest name plus unique key, in bytes.
    pub key_bytes_max: u32,
    /// The longest wait that is booked; whole milliseconds count.
    pub schedule_max_wait: Duration,
    /// The gRPC listener.
    pub grpc: Grpc,
    /// The HTTP listener.
    pub http: Http,
    /// Who this node is.
    pub node: Node,
    /// The bucket store.
    pub cache: Cache,
    /// The way out.
    pub shutdown: Shutdown,
    /// The log.
    pub log: Log,
    /// Optional metrics.
    pub metrics: Metrics,
    /// Forwarding in groups.
    pub batch: Batch,
    /// Limits answered everywhere.
    pub global: Global,
    /// Which peer owns a key.
    pub peer_picker: Picker,
    /// How peers are found.
    pub discovery: Discovery,
    /// How this node deals with them.
    pub cluster: Cluster,
    /// TLS, on all ports and to peers.
    pub tls: Tls,
    /// Which of our own spans are made.
    pub tracing: Tracing,
    /// The standard OpenTelemetry variables.
    pub otel: Otel,
    /// The `healthcheck` command.
    pub healthcheck: Healthcheck,
}

/// The gRPC listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grpc {
    /// Where it listens; port 0 lets the system choose.
    pub address: HostPort,
    /// Seconds a connection may live, and again the seconds it then gets to finish; 0 without bound.
    pub max_connection_age_seconds: u32,
    /// Serve the reflection services.
    pub reflection: bool,
    /// Serve `grpc.health.v1`.
    pub health: bool,
}

/// The HTTP listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Http {
    /// Where it listens; port 0 lets the system choose.
    pub address: HostPort,
    /// Where health and metrics are served to clients without certificates; only with TLS.
    pub status_address: Option<HostPort>,
    /// Serve `/healthz`, `/livez` and `/readyz`.
    pub health_routes: bool,
    /// Serve `/openapi.json`.
    pub openapi: bool,
    /// Serve the admin page and its JSON.
    pub admin: AdminSwitch,
}

/// Who this node is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The address peers know it by; `None` follows the gRPC listener, see [`Config::advertise_address`].
    pub advertise_address: Option<HostPort>,
    /// Its name in logs and traces; `None` is made up, see [`Config::instance_id`].
    pub instance_id: Option<String>,
    /// Its data center; may be empty.
    pub data_center: String,
}

/// The bucket store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cache {
    /// Most buckets kept; `None` leaves it to `bytes`.
    pub entries: Option<u32>,
    /// Most memory for buckets.
    pub bytes: ByteSize,
    /// Parts with a lock of their own; `None` goes by the number of CPUs.
    pub shards: Option<u32>,
}

/// The way out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shutdown {
    /// Seconds between the signal and the moment listeners close; the node is already not ready.
    pub delay_seconds: u32,
    /// Bound of the graceful stop that follows the delay.
    pub timeout: Duration,
}

/// The log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// What is written, `debug` already applied.
    pub level: LogLevel,
    /// How it is written.
    pub format: LogFormat,
    /// The shorthand that was given; [`Log::level`] already knows.
    pub debug: bool,
}

/// Optional metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// The extra groups asked for.
    pub flags: MetricFlags,
}

/// Forwarding in groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Bound of one forward.
    pub timeout: Duration,
    /// Most items of one peer call, 1 to 1 000.
    pub limit: u32,
    /// How long items are gathered.
    pub wait: Duration,
    /// Forward every item alone.
    pub disabled: bool,
}

/// Limits answered everywhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Global {
    /// Bound of one exchange with a peer.
    pub timeout: Duration,
    /// Keys that start an exchange before its time.
    pub batch_limit: u32,
    /// Time between exchanges.
    pub sync_wait: Duration,
    /// Treat every check as GLOBAL.
    pub force: bool,
}

/// Which peer owns a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picker {
    /// The method, when named; naming it changes the default of `hash`, see [`Config::ring`].
    pub kind: Option<PeerPicker>,
    /// Hash of keys; read only when `kind` is named.
    pub hash: PickerHash,
    /// Points of each peer on the ring; read only when `kind` is named.
    pub replicas: u32,
}

/// How a node deals with its peers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// What a check gets whose owner cannot be reached; `None` is for the semantics to say.
    pub owner_unreachable: Option<OwnerUnreachable>,
    /// Who may call the peers' service.
    pub peer_guard: PeerGuard,
    /// What peers show each other.
    pub peer_secret: Option<String>,
    /// HTTP/2 connections to each peer.
    pub peer_connections: u32,
}

/// How peers are found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// The type, when named; see [`Discovery::in_force`].
    pub kind: Option<PeerDiscovery>,
    /// All nodes.
    pub peers: Option<PeerList>,
    /// A file that lists all nodes.
    pub file: Option<String>,
    /// Names whose records are the nodes.
    pub dns_fqdn: Option<DnsNames>,
    /// Where the DNS servers are listed.
    pub resolv_conf: String,
    /// By keys in etcd.
    pub etcd: Etcd,
    /// By the Kubernetes API.
    pub kubernetes: Kubernetes,
    /// By gossip.
    pub member_list: MemberList,
}

/// Which of our own spans are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracing {
    /// From errors only to peer calls.
    pub level: TracingLevel,
}

/// The `healthcheck` command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Healthcheck {
    /// Attempts before it gives up, at least 1.
    pub attempts: u32,
}

impl Default for Config {
    fn default() -> Self {
        let mut config = Self::blank();
        for setting in table::all() {
            if !setting.default.is_empty() {
                (setting.field.set)(&mut config, setting.default)
                    .expect("the default of every row parses: held by tests::defaults_parse_and_show");
            }
        }
        config
    }
}

impl Config {
    /// Every field empty: what the defaults of the table are written over.
    fn blank() -> Self {
        Self {
            semantics: Semantics::default(),
            time_zone: Zone::default(),
            created_at_tolerance: Duration::ZERO,
            key_bytes_max: 0,
            schedule_max_wait: Duration::ZERO,
            grpc: Grpc::default(),
            http: Http::default(),
            node: Node::default(),
            cache: Cache::default(),
            shutdown: Shutdown::default(),
            log: Log::default(),
            metrics: Metrics::default(),
            batch: Batch::default(),
            global: Global::default(),
            peer_picker: Picker::default(),
            discovery: Discovery::default(),
            cluster: Cluster::default(),
            tls: Tls::default(),
            tracing: Tracing::default(),
            otel: Otel::default(),
            healthcheck: Healthcheck::default(),
        }
    }
}
