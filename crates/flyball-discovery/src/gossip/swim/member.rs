//! What is known of another node.

use std::net::SocketAddr;

use flyball_core::cluster::PeerInfo;
use flyball_core::time::Instant;

use crate::gossip::codec::message::{Record, State, Versions};

/// See [the module](self).
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Where gossip to it goes.
    pub(crate) address: SocketAddr,
    /// What it says of itself.
    pub(crate) meta: Vec<u8>,
    pub(crate) versions: Versions,
    pub(crate) incarnation: u32,
    pub(crate) state: State,
    /// Since when it is in that state.
    pub(crate) since: Instant,
    /// The peer it said it is, the last time it said so properly.
    pub(crate) peer: Option<PeerInfo>,
}

impl Member {
    /// Whether it takes part; a suspect does.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.state, State::Alive | State::Suspect)
    }

    /// As it is told to others.
    pub(crate) fn record(&self, name: &str) -> Record {
        Record {
            name: name.to_owned(),
            address: self.address,
            meta: self.meta.clone(),
            incarnation: self.incarnation,
            state: self.state,
            versions: self.versions,
        }
    }
}
