//! Who are the peers?
//!
//! A [`Source`] answers that with full sets of peers, again and again: [`FixedList`] once, [`WatchedFile`] with
//! every change of a file, [`Dns`] with every change of records, [`Etcd`] with every change of keys, [`Gossip`] with all
//! that nodes tell each other, [`Kubernetes`] with every change of a service. [`Recover`] wraps any of them and keeps the
//! cluster together while the source fails: it retries, holds the last good set and says how stale it is. A
//! daemon holds one `Recover` and gives what comes out of it to the node:
//!
//! ```no_run
//! use flyball_discovery::{Recover, WatchedFile};
//!
//! # async fn run(seed: u64) {
//! let source = WatchedFile::new("/etc/flyball/peers", 1051, "");
//! let mut peers = Recover::new(Box::new(source), seed);
//! let status = peers.status(); // for metrics and the admin page
//! loop {
//!     let set = peers.next().await;
//!     println!("{} peers, {:?}", set.len(), status.snapshot().failing);
//! }
//! # }
//! ```
//!
//! This crate does not know the node, and the node does not know this crate. Nothing here decides which peer is
//! the node itself: that is whoever has its own address, and [`canonical_address`] says how DNS writes it.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod address;
#[cfg(feature = "dns")]
mod dns;
#[cfg(feature = "etcd")]
mod etcd;
mod file;
mod fixed;
#[cfg(feature = "gossip")]
mod gossip;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod list;
mod recover;
mod source;

pub use address::canonical_address;
#[cfg(feature = "dns")]
pub use dns::{Dns, DnsName, DnsServers, DnsSettings, NAMES_MAX, absolute};
#[cfg(feature = "etcd")]
pub use etcd::{Etcd, EtcdEndpoint, EtcdSettings, EtcdTls, EtcdUser};
pub use file::{FILE_BYTES_MAX, WatchedFile};
pub use fixed::{BadList, FixedList};
pub use flyball_core::cluster::PeerInfo;
#[cfg(feature = "gossip")]
#[doc(hidden)]
pub use gossip::judge as judge_gossip;
#[cfg(feature = "gossip")]
pub use gossip::{GOSSIP_PORT, Gossip, GossipSettings, Keyring, SEEDS_MAX, Seeds, Timing};
#[cfg(feature = "kubernetes")]
pub use kubernetes::{Kubernetes, KubernetesSettings, KubernetesWatch};
pub use list::{Fault as PeersFileFault, parse as parse_peers_file};
pub use recover::{Failing, Recover, Snapshot, Status};
pub use source::{NextPeers, PEERS_MAX, Source, SourceError};
