//! The values a user of a node sets. Components (clock, metrics, tracer) go to the builder instead.

use std::time::Duration;

use flyball_core::Rules;
use flyball_core::cluster::{BatchSettings, GlobalSettings, HealthSettings, RingSettings, Unreachable};
use flyball_core::store::StoreSettings;

use crate::peers::guard::PeerAccess;

/// Everything about a node that is a plain value.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `host:port` under which peers reach this node, exactly as they will write it. It is the node's
    /// identity: its place on the ring, and what health answers show. Default empty.
    pub advertise_address: String,
    /// The data center this node belongs to; may be empty, the default.
    pub data_center: String,
    /// How checks are judged. One thing is said twice, here and in [`StoreSettings::semantics`]; the builder
    /// takes the one given here.
    pub rules: Rules,
    /// Size and shape of the bucket store.
    pub store: StoreSettings,
    /// How the node deals with others.
    pub cluster: ClusterSettings,
}

/// How a node deals with its peers.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// How keys are placed. All nodes of a cluster must agree.
    pub ring: RingSettings,
    /// Forwarded checks travel in batches. Default yes.
    pub batching: bool,
    /// How batches are cut.
    pub batch: BatchSettings,
    /// The longest a forwarded check is under way. Default 500 ms.
    pub forward_timeout: Duration,
    /// How hits on GLOBAL keys are gathered for their owners, and an owner's news for the others.
    pub global: GlobalSettings,
    /// The longest such a message is under way, and the longest a stop waits for the last ones. Default 500 ms.
    pub global_timeout: Duration,
    /// When a peer counts as down, and how it is looked after.
    pub health: HealthSettings,
    /// What is done with a check whose owner cannot be reached.
    pub unreachable: Unreachable,
    /// HTTP/2 connections to each peer. Default 1.
    pub connections: usize,
    /// Who may call the peers' service.
    pub access: PeerAccess,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            ring: RingSettings::default(),
            batching: true,
            batch: BatchSettings::default(),
            forward_timeout: Duration::from_millis(500),
            global: GlobalSettings::default(),
            global_timeout: Duration::from_millis(500),
            health: HealthSettings::default(),
            unreachable: Unreachable::default(),
            connections: 1,
            access: PeerAccess::default(),
        }
    }
}
