//! What travels between nodes, and what a node says about itself: the vocabulary of the simulation.

use flyball_core::algorithm::Bucket;
use flyball_core::cluster::{Dirty, Failure, OwnedKey, Stamp};
use flyball_core::{Answer, Behavior, Key, Request, Timestamp};

/// A node, by its number; its address is [`address`].
pub type NodeId = usize;

/// Numbers the checks of a run.
pub type CheckId = u64;

/// Under which a node is known to the others.
pub fn address(node: NodeId) -> String {
    format!("n{node}:1051")
}

/// The node at an address.
pub fn node_at(address: &str) -> Option<NodeId> {
    address.strip_prefix('n')?.strip_suffix(":1051")?.parse().ok()
}

/// A request that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Limit name and caller.
    pub key: OwnedKey,
    /// Units.
    pub hits: i64,
    /// Units per duration.
    pub limit: i64,
    /// Milliseconds or calendar code.
    pub duration: i64,
    /// As on the wire.
    pub algorithm: i32,
    /// Flags.
    pub behavior: Behavior,
    /// Size of a leaky bucket.
    pub burst: i64,
    /// Filled in by the node that was asked.
    pub created_at: Option<i64>,
    /// Milliseconds.
    pub max_wait: i64,
}

impl Asked {
    /// Borrows it.
    pub fn request(&self) -> Request<'_> {
        Request {
            key: self.key.as_key(),
            hits: self.hits,
            limit: self.limit,
            duration: self.duration,
            algorithm: self.algorithm,
            behavior: self.behavior,
            burst: self.burst,
            created_at: self.created_at,
            max_wait: self.max_wait,
        }
    }

    /// The key, borrowed.
    pub fn key(&self) -> Key<'_> {
        self.key.as_key()
    }
}

impl From<Request<'_>> for Asked {
    fn from(request: Request<'_>) -> Self {
        let Request { key, hits, limit, duration, algorithm, behavior, burst, created_at, max_wait } =
            request;
        Self { key: key.into(), hits, limit, duration, algorithm, behavior, burst, created_at, max_wait }
    }
}

/// A check on its way to another node.
#[derive(Clone, Debug)]
pub struct Item {
    /// Which; `None` for summed GLOBAL hits.
    pub check: Option<CheckId>,
    /// What it asks.
    pub asked: Asked,
    /// How often it was forwarded.
    pub hops: u8,
}

/// One line of a broadcast.
#[derive(Clone, Debug)]
pub struct Line {
    /// The key and how it was read.
    pub dirty: Dirty,
    /// The bucket; `None` after a reset.
    pub bucket: Option<Bucket>,
    /// What an original is told: remaining, reset time and whether it is over.
    pub status: flyball_core::Decision,
}

/// A call from one node to another.
#[derive(Clone, Debug)]
pub enum Body {
    /// `GetPeerRateLimits`. Stamped: a batch of GLOBAL hits.
    Checks(Vec<Item>, Option<Stamp>),
    /// `UpdatePeerGlobals`, with the receiver's batches that it includes. Without a stamp: an original's.
    News(Vec<Line>, Option<Stamp>, Option<Stamp>),
    /// Are you there?
    Probe,
}

/// Its answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// One for each check, and the session of the node if it knows batches by their numbers.
    Checks(Vec<Answer>, Option<u64>),
    /// Nothing to say.
    Done,
}

/// Where a client's answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The node asked owns the key.
    Own,
    /// The node asked answered a GLOBAL check from its copy.
    Replica,
    /// The owner, one hop away.
    Owner,
    /// The owner could not be reached.
    Fallback,
}

/// What a client is told.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Where from.
    pub via: Via,
    /// A decision, or `None`: an error.
    pub answer: Option<flyball_core::Decision>,
}

/// What a node wants done.
#[derive(Debug)]
pub enum Effect {
    /// Call another node. `call` is the caller's number for it.
    Send {
        /// Whom.
        to: NodeId,
        /// The caller's number for the call.
        call: u64,
        /// What.
        body: Body,
    },
    /// Answer a client.
    Tell(CheckId, Told),
    /// For the invariants.
    Note(Note),
}

/// Who had a check applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client of this node.
    Client,
    /// A forwarded check.
    Peer,
    /// Summed GLOBAL hits of another node.
    Hits,
    /// Hits of this node whose owner it has become.
    Rehomed,
}

/// A check that a node applied as owner.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Which, if it was one check.
    pub check: Option<CheckId>,
    /// As it was admitted.
    pub asked: Asked,
    /// By whom.
    pub origin: Origin,
    /// How often it was forwarded.
    pub hops: u8,
    /// The node's own view names it as owner.
    pub owns: bool,
    /// The node sees nobody else, so it owns everything and believes whoever says otherwise.
    pub alone: bool,
    /// What was stored before and after.
    pub before: Option<Bucket>,
    /// What was stored after.
    pub after: Option<Bucket>,
    /// What the check was told.
    pub answer: Answer,
    /// The node's clock.
    pub wall: Timestamp,
}

/// Something an invariant may want to know.
#[derive(Clone, Debug)]
pub enum Note {
    /// A check was applied by an owner.
    Applied(Box<Applied>),
    /// GLOBAL hits were granted on a copy and will be delivered.
    Recorded(OwnedKey, i64),
    /// GLOBAL hits of this node, whose owner it has become, were part of its copy already, which now counts.
    TakenOver(OwnedKey, i64),
    /// A client's check was answered from a copy; with the keys of hits the node had given up before.
    OnCopy(Asked, flyball_core::Decision, u64),
    /// How a call ended, for the trace.
    Failed(NodeId, Failure),
}
