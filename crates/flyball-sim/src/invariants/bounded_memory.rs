//! Every queue and table of a node stays within its bound, after every single event.

use super::{Facts, Invariant};
use crate::message::NodeId;
use crate::node::Node;

/// Calls one node may wait for: the batches that a batcher may have under way are bounded by its items.
const CALLS_MAX: usize = 20_000;

#[derive(Debug)]
pub(super) struct BoundedMemory;

impl Invariant for BoundedMemory {
    fn name(&self) -> &'static str {
        "bounded_memory"
    }

    fn check_node(&self, id: NodeId, node: &Node, facts: &Facts) -> Result<(), String> {
        let settings = &facts.settings;
        let waiting = node.links().values().map(|link| link.batcher.waiting()).max().unwrap_or(0);
        for (what, is, bound) in [
            ("pending GLOBAL hits", node.hits().stats().pending as usize, settings.hits.keys_max),
            ("GLOBAL news", node.broadcast().len(), settings.broadcast.keys_max),
            ("forwards to one peer", waiting, settings.batch.waiting_max),
            ("calls", node.calls(), CALLS_MAX),
        ] {
            if is > bound {
                return Err(format!("node {id} keeps {is} {what}, the bound is {bound}"));
            }
        }
        Ok(())
    }
}
