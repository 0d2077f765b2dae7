//! What every source of peers looks like to the daemon.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;

/// Most peers of one set. A larger set is an error and the one before stays: a list that long is no list of
/// nodes, and each peer costs connections and points on the ring.
pub const PEERS_MAX: usize = 10_000;

/// What [`Source::next`] returns.
pub type NextPeers<'a> = Pin<Box<dyn Future<Output = Result<Vec<PeerInfo>, SourceError>> + Send + 'a>>;

/// Somebody who knows the peers.
///
/// Pulled, not pushed: a source does nothing while nobody awaits it, so it needs no task, no queue and no bound
/// of its own, and dropping it ends it. (Gossip has a task, since its neighbours do not wait; dropping it ends it.)
pub trait Source: fmt::Debug + Send {
    /// The kind as it is configured (`static`, `file`, `dns`, `etcd`, …), for metrics and logs.
    fn kind(&self) -> &'static str;

    /// What it goes by, for people: the file's name, the names that are looked up.
    fn origin(&self) -> String;

    /// The next full set, sorted, each address once; waits until there is news. Sources that see differences
    /// keep the set themselves.
    ///
    /// Never ends: a source without further news stays pending. Cancel safe: a call that is dropped and
    /// repeated loses nothing. After an error it may be called again, not sooner than
    /// [`SourceError::retry_after`] asks for.
    fn next(&mut self) -> NextPeers<'_>;

    /// Tells the others that this node goes, when it was by this source that they knew: the node serves on until this is
    /// done, so that nobody asks it who could have asked another. Called once; the caller bounds it. Afterwards
    /// [`next`](Self::next) tells who else there is, or nothing more.
    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

/// A source could not tell the peers, or could tell only some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    /// What was wrong, with what, and what to do.
    pub message: String,
    /// When to ask again. `None` leaves it to the caller's backoff; zero says that the source paces itself, as
    /// one does that waits for a change.
    pub retry_after: Option<Duration>,
}

impl SourceError {
    /// An error after which the caller backs off.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_after: None }
    }

    /// An error of a source that waits by itself for something to change.
    pub fn paced(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_after: Some(Duration::ZERO) }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SourceError {}
