//! A key has one owner, and its bucket there changes by the owner's checks alone.
//!
//! While all nodes see the same, a check is applied where the ring says. And at a node that owns a key by its own view,
//! what a check is told is what the [reference](crate::reference) tells it, which knows the checks and nothing
//! else: no copy, no broadcast, no read and no expiry may have touched the bucket.
//!
//! With originals that is looked at only while nobody comes or goes: what an original told of a key as its owner is kept
//! under the joined text, begins when it was received, and may count as newer than the pair's own bucket.

use std::collections::BTreeMap;

use flyball_core::cluster::OwnedKey;
use flyball_core::time::Instant;

use super::{Facts, Happened, Invariant};
use crate::message::{Applied, CheckId, NodeId, Note, Origin};
use crate::reference::Reference;

#[derive(Debug, Default)]
pub(super) struct OneOwner {
    asked: BTreeMap<CheckId, Instant>,
    /// By node, its run and what it sees: with any of them the history begins anew.
    references: BTreeMap<(NodeId, OwnedKey), (u64, u64, Reference)>,
}

impl OneOwner {
    fn applied(&mut self, node: NodeId, applied: &Applied, facts: &Facts) -> Result<(), String> {
        let key = &applied.asked.key;
        let asked = applied.check.and_then(|check| self.asked.get(&check));
        let calm = asked.is_some_and(|at| facts.calm_since < *at) && facts.agree();
        if calm && !applied.owns && applied.origin != Origin::Rehomed {
            return Err(format!("node {node} applied a check of {key:?}, which it does not own"));
        }
        let view = facts.view_changes[node];
        let place = (node, key.clone());
        if !applied.owns || applied.alone || (facts.legacy && !facts.is_first_calm()) {
            self.references.remove(&place);
            return Ok(());
        }
        let run = facts.runs[node];
        let begun = self.references.get_mut(&place).filter(|(r, v, _)| (*r, *v) == (run, view));
        let Some((_, _, reference)) = begun else {
            let reference = Reference::new(applied.after, applied.wall);
            self.references.insert(place, (run, view, reference));
            return Ok(());
        };
        let expected = reference.apply(applied, &facts.settings.rules);
        match expected {
            Some(expected) if expected != applied.answer => Err(format!(
                "{key:?} at its owner, node {node}: told {:?}, the reference says {expected:?}; the bucket was {:?}",
                applied.answer, applied.before
            )),
            _ => Ok(()),
        }
    }
}

impl Invariant for OneOwner {
    fn name(&self) -> &'static str {
        "one_owner"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        match happened {
            Happened::Asked(check, _) => {
                self.asked.insert(*check, facts.now);
            }
            Happened::Answered(check, _) | Happened::Disconnected(check) => {
                self.asked.remove(check);
            }
            Happened::Noted(Note::Applied(applied)) => return self.applied(node, applied, facts),
            Happened::Stopped(_) | Happened::Noted(_) => {}
        }
        Ok(())
    }
}
