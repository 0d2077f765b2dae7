//! From settings to what the parts of a daemon ask for. The one file that knows both.

use std::time::Duration;

use flyball::{
    BatchSettings, ClusterSettings, GlobalSettings, HealthSettings, PeerAccess, RingSettings, Unreachable,
};
use flyball_core::ring::{Hash, Replicas};
use flyball_core::store::StoreSettings;
use flyball_core::{Calendar, Rules, Semantics};

use super::Config;
use super::choices::{OwnerUnreachable, PeerGuard, PickerHash};
use super::otel::OtlpExporter;
use super::values::HostPort;

/// What the machine contributes to a node's settings: arguments, so that a test decides them.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The text of `/proc/self/cgroup`; empty where there is none.
    pub cgroup: String,
    /// Random bits, fresh for each start and secret: for the instance id and the store's hash.
    pub random: [u64; 2],
}

/// Locks per CPU: enough that two CPUs rarely want the same one.
const SHARDS_PER_CPU: usize = 16;

/// The most that expired buckets linger for checks on their way between nodes, in milliseconds.
const LINGER_FORWARDING_MS: i64 = 500;

impl Config {
    /// How the node judges checks.
    pub fn rules(&self) -> Rules {
        Rules {
            semantics: self.semantics,
            calendar: Calendar::new(self.time_zone.zone.clone()),
            schedule_max_wait_ms: whole_ms(self.schedule_max_wait),
            created_at_tolerance_ms: whole_ms(self.created_at_tolerance),
            forward_timeout_ms: whole_ms(self.batch.timeout),
            key_bytes_max: self.key_bytes_max as usize,
            force_global: self.global.force,
        }
    }

    /// The store's bounds. Expired buckets linger for as long as a believable clock may lag: not at all with
    /// semantics that go by the node's clock alone.
    pub fn store_settings(&self, host: &HostFacts) -> StoreSettings {
        let shards = match self.cache.shards {
            Some(shards) => shards as usize,
            None => host.cpus.max(1).saturating_mul(SHARDS_PER_CPU),
        };
        let linger_ms = match self.semantics {
            // A forwarded check may be older by the batch timeout, but no dead bucket stays for more than a
            // second beyond the tolerance, the sweep's interval included.
            Semantics::Exact => {
                let forwarding = whole_ms(self.batch.timeout).min(LINGER_FORWARDING_MS);
                whole_ms(self.created_at_tolerance).saturating_add(forwarding)
            }
            Semantics::Gubernator => 0,
        };
        StoreSettings {
            shards,
            bytes_max: usize::try_from(self.cache.bytes.0).unwrap_or(usize::MAX),
            entries_max: self.cache.entries.map(|entries| entries as usize),
            linger_ms,
            seed: host.random[0],
            semantics: self.semantics,
        }
    }

    /// The instance's name: as configured, else the first 12 characters of the container's id, else ten random
    /// hexadecimal digits.
    pub fn instance_id(&self, host: &HostFacts) -> String {
        let container = || {
            let id = host.cgroup.lines().find_map(|line| line.split_once("/docker/"))?.1;
            let short: String = id.chars().take_while(char::is_ascii_alphanumeric).take(12).collect();
            (!short.is_empty()).then_some(short)
        };
        let random = || format!("{:010x}", host.random[1] & 0xff_ffff_ffff);
        self.node.instance_id.clone().or_else(container).unwrap_or_else(random)
    }

    /// The address that peers know this node by, given the port on which gRPC really listens. When it
    /// [is a wildcard](HostPort::is_wildcard), an address of the machine has to take the host's place.
    pub fn advertise_address(&self, grpc_port: u16) -> HostPort {
        let usual = || match &self.node.advertise_address {
            Some(address) => address.clone(),
            None => self.grpc.address.with_port(grpc_port),
        };
        if let Some(etcd) = self.etcd_in_force() {
            return etcd.advertise_address.clone().unwrap_or_else(usual);
        }
        if let Some(kubernetes) = self.kubernetes_in_force() {
            let own = match kubernetes.pod_ip {
                Some(ip) => HostPort { host: ip.to_string(), port: grpc_port },
                None => usual(),
            };
            let port = kubernetes.pod_port.and_then(|port| u16::try_from(port).ok());
            return own.with_port(port.unwrap_or(own.port));
        }
        if let Some(member_list) = self.member_list_in_force() {
            return member_list.advertise_address.clone().unwrap_or_else(usual);
        }
        usual()
    }

    /// Hash and points per peer of the ring. Without a named picker they are the original's: FNV-1 and 512.
    pub fn ring(&self) -> (PickerHash, u32) {
        match self.peer_picker.kind {
            Some(_) => (self.peer_picker.hash, self.peer_picker.replicas),
            None => (PickerHash::Fnv1, 512),
        }
    }

    /// How the node deals with its peers.
    pub fn cluster_settings(&self) -> ClusterSettings {
        let defaults = ClusterSettings::default();
        let (hash, replicas) = self.ring();
        let ring = RingSettings {
            hash: match hash {
                PickerHash::Fnv1 => Hash::Fnv1,
                PickerHash::Fnv1a => Hash::Fnv1a,
            },
            replicas: Replicas::new(replicas).unwrap_or_default(),
        };
        // Peers take a thousand items at most, whatever is configured (C9).
        let keys = (self.global.batch_limit as usize).clamp(1, flyball::ITEMS_MAX);
        let gubernator = self.semantics == Semantics::Gubernator;
        let health = match gubernator {
            // Its health is about the last five minutes.
            true => HealthSettings { memory: Duration::from_secs(300), forgive: false, ..defaults.health },
            false => defaults.health,
        };
        let unreachable = match (self.cluster.owner_unreachable, gubernator) {
            (Some(OwnerUnreachable::LocalShare), _) | (None, false) => Unreachable::LocalShare,
            (Some(OwnerUnreachable::Error), _) | (None, true) => Unreachable::Error,
            (Some(OwnerUnreachable::Local), _) => Unreachable::Local,
            (Some(OwnerUnreachable::Deny), _) => Unreachable::Deny,
        };
        ClusterSettings {
            ring,
            batching: !self.batch.disabled,
            batch: BatchSettings {
                window: self.batch.wait,
                items_max: (self.batch.limit as usize).clamp(1, flyball::ITEMS_MAX),
                ..defaults.batch
            },
            forward_timeout: self.batch.timeout,
            global: GlobalSettings { sync_wait: self.global.sync_wait, items_max: keys, ..defaults.global },
            global_timeout: self.global.timeout,
            health,
            unreachable,
            connections: self.cluster.peer_connections as usize,
            access: PeerAccess {
                open: self.cluster.peer_guard == PeerGuard::Open,
                secret: self.cluster.peer_secret.clone(),
                certificate: self.peers_are_certified(),
            },
        }
    }

    /// Where spans are exported to; `None` when nobody asked for it. The endpoint of a configuration that was
    /// loaded is a complete URL; one that was put together by hand may be anything.
    pub fn exporter(&self) -> Option<OtlpExporter> {
        self.otel.is_on().then(|| OtlpExporter {
            protocol: self.otel.protocol,
            endpoint: self.otel.address().unwrap_or_else(|wrong| wrong.endpoint),
            headers: self.otel.headers.0.clone(),
            timeout: self.otel.timeout.duration(),
            compression: self.otel.compression,
        })
    }

    /// The service's name in traces.
    pub fn service_name(&self) -> &str {
        let attribute = || {
            let mut pairs = self.otel.resource_attributes.0.iter();
            pairs.find(|(name, _)| name == "service.name").map(|(_, value)| value.as_str())
        };
        self.otel.service_name.as_deref().or_else(attribute).unwrap_or("gubernator")
    }
}

/// Whole milliseconds, cut off; the longest duration that is parsed fits.
fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
