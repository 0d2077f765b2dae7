//! Who is in the cluster: takes sets of peers, makes views of them, starts and ends peers.
//!
//! A set is always complete; usually it is the one that is known, and then nothing happens. Otherwise a new view is
//! made, off the path of requests (a thousand peers have half a million points), peers that stay keep their connections
//! and what they have gathered, and the new view takes the old one's place in one step. Calls that have
//! begun keep theirs. Changes are made one at a time and are never waited for by a request.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use flyball_core::Telling;
use flyball_core::cluster::{PeerInfo, View};

use crate::peers::peer::Peer;
use crate::service::Inner;

/// More peers than this are not taken: a thousand nodes tell each other a million things. The rest of a
/// larger set, in the order of addresses, is left out, by all nodes alike.
const PEERS_MAX: usize = 4_096;

/// Up to here a ring is made at once; more peers go to a thread for long work.
const PEERS_AT_ONCE: usize = 32;

/// Up to here a connection to a new peer is tried at once where connections are secured.
const PEERS_GREETED: usize = 32;

/// The changes of the view so far.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// How many there were: the number of the view.
    epoch: u64,
    telling: Telling,
}

/// One view and the peers in it.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) view: View,
    /// As [`View::local`]; nobody at the node's own place.
    peers: Box<[Option<Arc<Peer>>]>,
    /// The part of all keys that each of them owns; counted when somebody asks.
    shares: OnceLock<Box<[f64]>>,
}

impl Cluster {
    /// A node by itself.
    pub(crate) fn alone(view: View) -> Self {
        let peers = view.local().iter().map(|_| None).collect();
        Self { view, peers, shares: OnceLock::new() }
    }

    /// The peer with this index in the view; nobody for the node's own.
    pub(crate) fn peer(&self, index: usize) -> Option<&Arc<Peer>> {
        self.peers.get(index)?.as_ref()
    }

    /// The peer at this address.
    pub(crate) fn at(&self, address: &str) -> Option<&Arc<Peer>> {
        let index =
            self.view.local().binary_search_by(|peer| peer.grpc_address.as_str().cmp(address)).ok()?;
        self.peer(index)
    }

    /// The part of all keys that each node of the own data center owns, by its index in the view.
    pub(crate) fn shares(&self) -> &[f64] {
        self.shares.get_or_init(|| self.view.ring().shares())
    }

    /// All peers of the own data center but the node itself.
    pub(crate) fn peers(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.peers.iter().flatten()
    }
}

/// Says who there is now. `untold`: changes since the last that was told.
fn tell(view: &View, before: usize, untold: u64) {
    tracing::info!(
        epoch = view.epoch(),
        peers = view.local().len(),
        before,
        elsewhere = view.regions().len(),
        "the cluster has changed"
    );
    if untold > 0 {
        tracing::warn!(untold, "the cluster changes more often than is told: a peer may be coming and going");
    }
    if view.own().is_none() {
        tracing::warn!(
            address = view.own_address(),
            "this node is not among its peers: they know it under another address, or not at all"
        );
    }
}

impl Inner {
    /// Takes the set of peers that there are now, the node itself included.
    pub(crate) async fn set_peers(self: &Arc<Self>, mut peers: Vec<PeerInfo>) {
        let mut changes = self.changing.lock().await;
        peers.sort();
        peers.dedup_by(|next, kept| next.grpc_address == kept.grpc_address);
        if peers.len() > PEERS_MAX {
            tracing::error!(peers = peers.len(), "more than {PEERS_MAX} peers; the rest is left out");
            peers.truncate(PEERS_MAX);
        }
        let old = self.cluster.load_full();
        if old.view.has_same_members(&peers) {
            return;
        }
        changes.epoch += 1;
        let addresses: Vec<String> = peers.iter().map(|peer| peer.grpc_address.clone()).collect();
        let cluster = Arc::new(self.cluster_of(changes.epoch, peers, &old).await);
        let view = &cluster.view;
        if let Some(untold) = changes.telling.tell(self.shared.now()) {
            tell(view, old.view.local().len(), untold);
        }
        // First who may call, then who is called.
        self.guard.set_peers(&addresses);
        self.globals.set_peers(cluster.peers().map(|peer| peer.address()));
        self.cluster.store(Arc::clone(&cluster));
        self.rehome_hits(&cluster);
        self.globals.forget_senders(|address| cluster.at(address).is_some() || old.at(address).is_some());
        if cluster.peers().count() <= PEERS_GREETED {
            let new = |peer: &&Arc<Peer>| old.at(peer.address()).is_none_or(|old| !Arc::ptr_eq(old, peer));
            cluster.peers().filter(new).for_each(Peer::greet);
        }
        for peer in old.peers() {
            if cluster.at(peer.address()).is_none_or(|stays| !Arc::ptr_eq(stays, peer)) {
                peer.close();
            }
        }
    }

    async fn cluster_of(self: &Arc<Self>, epoch: u64, peers: Vec<PeerInfo>, old: &Cluster) -> Cluster {
        let many = peers.len() > PEERS_AT_ONCE;
        let inner = Arc::clone(self);
        let make = move || {
            let settings = inner.shared.settings.ring;
            View::new(epoch, &inner.advertise_address, &inner.data_center, peers, settings)
        };
        let view = if many {
            let made = tokio::task::spawn_blocking(make).await;
            made.expect("making a ring of addresses does not panic")
        } else {
            make()
        };
        let mut known: HashMap<&PeerInfo, &Arc<Peer>> = old.peers().map(|peer| (peer.info(), peer)).collect();
        let place = |(index, info): (usize, &PeerInfo)| {
            let other = Some(index) != view.own();
            other.then(|| match known.remove(info) {
                Some(peer) => Arc::clone(peer),
                None => Arc::new(Peer::new(info.clone(), &self.shared, self.seed ^ index as u64)),
            })
        };
        let peers = view.local().iter().enumerate().map(place).collect();
        Cluster { view, peers, shares: OnceLock::new() }
    }
}
