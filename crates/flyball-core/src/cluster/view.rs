//! Who there is and who owns what, as this node sees it at one moment.
//!
//! A view is never changed. When discovery reports another set of peers a new one is made, off the path of
//! requests, and takes the old one's place; a call takes one view at its beginning and keeps it. Its number, the
//! *epoch*, counts them on this node and orders them; it is not shared with anybody.
//!
//! Only peers of the own data center are on the ring. The others are known and get no checks: limits of
//! different data centers are independent (spec of the original, section "Regions").

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::peer::PeerInfo;
use crate::check::Key;
use crate::ring::{Hash, Replicas, Ring};

/// How keys are placed. All nodes of a cluster must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSettings {
    /// The hash; FNV-1 by default.
    pub hash: Hash,
    /// Points per peer; 512 by default.
    pub replicas: Replicas,
}

/// Who owns a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// This node.
    Own,
    /// The peer with this index in [`View::local`].
    Peer(usize),
    /// Nobody: there is no peer at all.
    None,
}

/// See [the module](self).
#[derive(Clone, Debug)]
pub struct View {
    epoch: u64,
    own_address: Box<str>,
    data_center: Box<str>,
    ring: Ring,
    /// By index on the ring.
    local: Box<[PeerInfo]>,
    own: Option<usize>,
    regions: Box<[PeerInfo]>,
}

impl View {
    /// The view of a node at `own_address` in `data_center` that has been told of `peers`. An address given twice
    /// counts once, the first time.
    pub fn new(
        epoch: u64,
        own_address: &str,
        data_center: &str,
        peers: impl IntoIterator<Item = PeerInfo>,
        settings: RingSettings,
    ) -> Self {
        let (mut local, mut regions): (Vec<_>, Vec<_>) =
            peers.into_iter().partition(|peer| peer.data_center == data_center);
        for peers in [&mut local, &mut regions] {
            peers.sort_by(|a, b| a.grpc_address.cmp(&b.grpc_address));
            peers.dedup_by(|next, kept| next.grpc_address == kept.grpc_address);
        }
        let ring =
            Ring::new(local.iter().map(|peer| peer.grpc_address.as_str()), settings.hash, settings.replicas);
        // The ring sorts as this does, so its indices are those of `local`.
        debug_assert!(ring.peers().eq(local.iter().map(|peer| peer.grpc_address.as_str())));
        let own = local.iter().position(|peer| peer.grpc_address == own_address);
        Self {
            epoch,
            own_address: own_address.into(),
            data_center: data_center.into(),
            ring,
            local: local.into_boxed_slice(),
            own,
            regions: regions.into_boxed_slice(),
        }
    }

    /// The view of a node that is alone.
    pub fn alone(own_address: &str, data_center: &str, settings: RingSettings) -> Self {
        let own = PeerInfo { data_center: String::from(data_center), ..PeerInfo::new(own_address) };
        Self::new(0, own_address, data_center, [own], settings)
    }

    /// Who owns `key`.
    #[inline]
    pub fn owner(&self, key: Key<'_>) -> Member {
        // Alone there is nothing to hash.
        if self.is_alone() {
            Member::Own
        } else {
            self.member(self.ring.owner_index(key.name, key.unique_key))
        }
    }

    /// Who owns a key of which only the joined text is known.
    pub fn owner_of_joined(&self, joined: &str) -> Member {
        self.member(self.ring.owner_at(self.ring.place_of_joined(joined)))
    }

    #[inline]
    fn member(&self, index: Option<usize>) -> Member {
        match index {
            Some(index) if Some(index) == self.own => Member::Own,
            Some(index) => Member::Peer(index),
            None => Member::None,
        }
    }

    /// Counts the views of this node.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The address under which this node looks for itself.
    pub const fn own_address(&self) -> &str {
        &self.own_address
    }

    /// The node's data center.
    pub const fn data_center(&self) -> &str {
        &self.data_center
    }

    /// Peers of the own data center, this node included, by address.
    pub const fn local(&self) -> &[PeerInfo] {
        &self.local
    }

    /// This node's index in [`View::local`]; `None` when discovery does not know it.
    pub const fn own(&self) -> Option<usize> {
        self.own
    }

    /// Peers of other data centers, by address.
    pub const fn regions(&self) -> &[PeerInfo] {
        &self.regions
    }

    /// The ring of the own data center.
    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// There is nobody else in the own data center.
    pub fn is_alone(&self) -> bool {
        self.local.len() == 1 && self.own.is_some()
    }

    /// Whether `peers` are the members of this view.
    pub fn has_same_members(&self, peers: &[PeerInfo]) -> bool {
        let mut theirs: Vec<&PeerInfo> = peers.iter().collect();
        theirs.sort();
        theirs.dedup_by(|next, kept| next.grpc_address == kept.grpc_address);
        let mut ours: Vec<&PeerInfo> = self.local.iter().chain(&self.regions).collect();
        ours.sort();
        ours == theirs
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn key(unique_key: &str) -> Key<'_> {
        Key { name: "n", unique_key }
    }

    fn view(own: &str, peers: &[&str]) -> View {
        View::new(1, own, "", peers.iter().map(|peer| PeerInfo::new(*peer)), RingSettings::default())
    }

    #[test]
    fn all_nodes_name_the_same_owner() {
        let peers = ["10.0.0.1:1051", "10.0.0.2:1051", "10.0.0.3:1051"];
        let views: Vec<_> = peers.iter().map(|own| view(own, &peers)).collect();
        let mut seen = vec![0; 3];
        for number in 0..1_000 {
            // FNV-1 hardly mixes last bytes: what differs there only shares an owner.
            let text = alloc::format!("{number}-account");
            let owners: Vec<usize> = views
                .iter()
                .map(|view| match view.owner(key(&text)) {
                    Member::Own => view.own().unwrap(),
                    Member::Peer(index) => index,
                    Member::None => unreachable!("there are peers"),
                })
                .collect();
            assert!(owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
            seen[owners[0]] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }

    #[test]
    fn alone_owns_everything_and_nobody_owns_nothing() {
        assert_eq!(View::alone("a:1", "dc", RingSettings::default()).owner(key("k")), Member::Own);
        assert_eq!(view("a:1", &[]).owner(key("k")), Member::None);
        assert_eq!(view("a:1", &["b:1"]).owner(key("k")), Member::Peer(0));
        assert_eq!(view("a:1", &["b:1"]).own(), None);
    }

    #[test]
    fn other_data_centers_are_known_and_own_nothing() {
        let far = PeerInfo { data_center: "far".into(), ..PeerInfo::new("b:1") };
        let near = PeerInfo { data_center: "near".into(), ..PeerInfo::new("a:1") };
        let view = View::new(1, "a:1", "near", [far.clone(), near.clone(), near], RingSettings::default());
        assert_eq!((view.local().len(), view.regions()), (1, &[far][..]));
        assert!(view.is_alone());
        assert_eq!(view.owner(key("k")), Member::Own);
    }

    #[test]
    fn the_same_members_are_recognised_in_any_order() {
        let view = view("a:1", &["a:1", "b:1"]);
        let set = |addresses: &[&str]| addresses.iter().map(|a| PeerInfo::new(*a)).collect::<Vec<_>>();
        assert!(view.has_same_members(&set(&["b:1", "a:1"])));
        assert!(view.has_same_members(&set(&["b:1", "a:1", "b:1"])));
        assert!(!view.has_same_members(&set(&["a:1"])));
        assert!(!view.has_same_members(&set(&["a:1", "c:1"])));
    }
}
