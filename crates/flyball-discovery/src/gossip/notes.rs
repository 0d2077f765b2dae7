//! What is written to the log about gossip: each kind of trouble rarely, however often it happens.

use std::time::Duration;

use flyball_core::Telling;
use tokio::time::Instant;

use super::swim::Event;
use crate::address::quoted;

/// A kind of trouble is told no more often than this.
const PAUSE: Duration = Duration::from_secs(10);

/// Kinds of trouble.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    /// A packet that cannot be read.
    Packet,
    /// A connection that leads to nothing.
    Stream,
    /// A state that is refused.
    State,
    /// Two nodes with one name.
    Conflict,
    /// A node that does not say who it is.
    Meta,
    /// Too many nodes.
    Full,
    /// A node that packets do not reach.
    StreamOnly,
    /// This node does not run.
    Stall,
    /// Sockets that refuse to work.
    Socket,
}

const KINDS: usize = 9;

/// What was told, and when.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// When each kind of trouble was told last, and how often it happened since.
    troubles: [(Option<Instant>, u64); KINDS],
    /// Who comes and goes.
    nodes: Telling,
}

impl Notes {
    /// Warns of trouble, or counts it.
    pub(super) fn warn(&mut self, trouble: Trouble, what: impl FnOnce() -> String) {
        let (told, hidden) = &mut self.troubles[trouble as usize];
        let now = Instant::now();
        if told.is_some_and(|told| now.duration_since(told) < PAUSE) {
            *hidden = hidden.saturating_add(1);
            return;
        }
        *told = Some(now);
        match std::mem::take(hidden) {
            0 => tracing::warn!("gossip: {}", what()),
            hidden => tracing::warn!("gossip: {} (and {hidden} times the like before)", what()),
        }
    }

    /// Tells an event of the protocol, or counts it where many like it were told just now.
    pub(super) fn event(&mut self, now: flyball_core::time::Instant, event: Event) {
        let comes_or_goes = matches!(
            event,
            Event::Joined { .. }
                | Event::Updated { .. }
                | Event::Left { .. }
                | Event::Died { .. }
                | Event::Suspected { .. }
                | Event::Refuted
        );
        if comes_or_goes {
            match self.nodes.tell(now) {
                None => return,
                Some(0) => {}
                Some(untold) => tracing::info!(untold, "gossip: nodes came and went more often than is told"),
            }
        }
        match event {
            Event::Joined { node, address } => {
                tracing::info!(node = quoted(&node), %address, "gossip: a node is there");
            }
            Event::Updated { node } => tracing::info!(node = quoted(&node), "gossip: a node is another peer"),
            Event::Left { node } => tracing::info!(node = quoted(&node), "gossip: a node has left"),
            Event::Died { node } => tracing::warn!(node = quoted(&node), "gossip: a node is dead"),
            Event::Suspected { node, by } => {
                tracing::info!(node = quoted(&node), by = quoted(&by), "gossip: a node does not answer");
            }
            Event::Refuted => tracing::info!("gossip: this node was taken for dead, and said that it is not"),
            Event::Conflict { node, known, claimed } => self.warn(Trouble::Conflict, || {
                let node = quoted(&node);
                format!(
                    "two nodes are called {node}, on {known} and on {claimed}: the second is ignored until the \
                     first is forgotten, a minute or two after its end; names have to be different \
                     (GUBER_MEMBERLIST_NODE_NAME)"
                )
            }),
            Event::BadMeta { node, why } => self.warn(Trouble::Meta, || {
                let node = quoted(&node);
                format!("node {node} does not say which peer it is: {why}; it is no peer until it does")
            }),
            Event::Full { node } => self.warn(Trouble::Full, || {
                let (node, most) = (quoted(&node), super::swim::MEMBERS_MAX);
                format!("node {node} is not taken in, since {most} others are known")
            }),
            Event::StreamOnly { node } => self.warn(Trouble::StreamOnly, || {
                let node = quoted(&node);
                format!("node {node} answers over TCP but not over UDP; let UDP through on the gossip port")
            }),
            Event::Stalled { lasted } => self.warn(Trouble::Stall, || {
                format!("this node did not run for {lasted:?}; it blames nobody for that time")
            }),
        }
    }
}
