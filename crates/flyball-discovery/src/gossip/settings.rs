//! What has to be known before gossip can begin.

use flyball_core::cluster::PeerInfo;

use super::Keyring;
use super::seeds::Seeds;
use super::swim::timing::Timing;

/// The port of gossip where none is given.
pub const GOSSIP_PORT: u16 = 7946;

/// Who a node is and whom it knows.
#[derive(Clone, Debug)]
pub struct GossipSettings {
    /// Its name, different from that of every other node.
    pub name: String,
    /// `host:port` to listen on, for packets and for connections; port 0 lets the system choose.
    pub bind: String,
    /// The host that others send gossip to: a name is looked up, and its first address counts.
    pub advertise_host: String,
    /// The port that others send gossip to; `None` is the one that is listened on.
    pub advertise_port: Option<u16>,
    /// Whom to ask first.
    pub seeds: Seeds,
    /// The peer that this node is.
    pub peer: PeerInfo,
    /// What gossip is encrypted with; without keys it is not.
    pub keys: Keyring,
    /// With keys: refuse what is not encrypted.
    pub verify_incoming: bool,
    /// With keys: encrypt what is sent.
    pub verify_outgoing: bool,
    /// How long things take.
    pub timing: Timing,
    /// Decides whom this node asks and tells, in which order. Different on each node and each time.
    pub random: u64,
}
