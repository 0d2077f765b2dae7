//! Peers by gossip: the membership protocol of Gubernator's `member-list`, so that both find each other.
//!
//! Each node listens for packets and connections on one port, knows a few others to begin with, and tells with its
//! name which peer it is. Whatever happens after that is the protocol's: [`swim`] decides, [`codec`] reads and writes,
//! [`driver`] has the sockets.
//!
//! Unlike other sources this one does its work while nobody asks: whoever does not answer its neighbours is taken for
//! dead. So it has a task, which ends when the source is dropped. What the task finds out is kept as one value, the
//! newest, and told when somebody asks.
//!
//! Peers are known by the names of their nodes. The original goes by the address that gossip comes from, so that of
//! several nodes on one address it sees only one (D1).

mod codec;
mod driver;
mod fuzz;
mod meta;
mod notes;
mod seeds;
mod settings;
mod sockets;
mod streams;
mod swim;

use std::fmt;
use std::pin::Pin;

use flyball_core::cluster::PeerInfo;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

pub use self::codec::crypto::Keyring;
pub use self::seeds::{SEEDS_MAX, Seeds};
pub use self::settings::{GOSSIP_PORT, GossipSettings};
pub use self::swim::timing::Timing;

#[doc(hidden)]
pub use self::fuzz::judge;

use self::driver::Driver;
use self::sockets::Sockets;
use crate::source::{NextPeers, Source, SourceError};

/// What the task found out last: the peers, or why it knows none yet.
type Found = Option<Result<Vec<PeerInfo>, String>>;

/// Somebody who wants to hear when all was said.
type Leave = oneshot::Sender<()>;

/// The nodes that gossip tells of.
pub struct Gossip {
    seeds: String,
    /// Where gossip is listened for.
    local: std::net::SocketAddr,
    found: watch::Receiver<Found>,
    leave: mpsc::Sender<Leave>,
    _task: AbortOnDropHandle<()>,
}

impl Gossip {
    /// Listens, and begins to look for the others. To be called in a tokio runtime.
    ///
    /// # Errors
    /// The port cannot be opened, or what this node has to say of itself is too long.
    pub fn new(settings: GossipSettings) -> Result<Self, SourceError> {
        let meta = meta::write(&settings.peer).map_err(SourceError::new)?;
        if settings.name.is_empty() || settings.name.len() > codec::message::NAME_MAX {
            let most = codec::message::NAME_MAX;
            let length = settings.name.len();
            return Err(SourceError::new(format!(
                "the node's name has {length} bytes; expected 1 to {most} (GUBER_MEMBERLIST_NODE_NAME)"
            )));
        }
        let sockets = Sockets::bind(&settings.bind)?;
        let local = sockets.local();
        let seeds = settings.seeds.to_string();
        let (found_to, found) = watch::channel(None);
        // Who leaves twice waits for the first time.
        let (leave, leave_from) = mpsc::channel(1);
        let driver = Driver::new(settings, meta, sockets, found_to, leave_from);
        let task = AbortOnDropHandle::new(tokio::spawn(driver.run()));
        Ok(Self { seeds, local, found, leave, _task: task })
    }

    /// Where this node listens for gossip: the real port when 0 was asked for.
    pub fn local_address(&self) -> std::net::SocketAddr {
        self.local
    }
}

impl fmt::Debug for Gossip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gossip")
            .field("local", &self.local)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

impl Source for Gossip {
    fn kind(&self) -> &'static str {
        "member-list"
    }

    fn origin(&self) -> String {
        match self.seeds.is_empty() {
            true => format!("gossip on {}", self.local),
            false => format!("gossip on {} with {}", self.local, self.seeds),
        }
    }

    fn next(&mut self) -> NextPeers<'_> {
        Box::pin(async {
            loop {
                if self.found.changed().await.is_err() {
                    return Err(SourceError::new("gossip has stopped; restart the node"));
                }
                match self.found.borrow_and_update().clone() {
                    Some(Ok(peers)) => return Ok(peers),
                    Some(Err(why)) => return Err(SourceError::paced(why)),
                    None => {}
                }
            }
        })
    }

    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let (said, all) = oneshot::channel();
            if self.leave.send(said).await.is_ok() {
                let _ = all.await;
            }
        })
    }
}
