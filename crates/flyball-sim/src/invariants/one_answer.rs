//! Each check is answered exactly once, and in time: a call to its owner, with a new try for each time that it certainly was
//! not sent, and whatever the asked node itself was frozen. Each non-GLOBAL check is applied once at most.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_core::Timestamp;
use flyball_core::time::Instant;

use super::{Facts, Happened, Invariant};
use crate::message::{CheckId, NodeId, Note};
use crate::node::Node;
use crate::world::TIMEOUT;

/// Checks that are not sent are refused within a packet's way, each of the six times.
const TRIES: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct OneAnswer {
    open: BTreeMap<CheckId, (NodeId, Instant, Duration)>,
    applied: BTreeSet<CheckId>,
}

impl Invariant for OneAnswer {
    fn name(&self) -> &'static str {
        "one_answer"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        match happened {
            Happened::Asked(check, _) => {
                self.open.insert(*check, (node, facts.now, facts.frozen[node]));
            }
            Happened::Disconnected(check) => {
                self.open.remove(check);
            }
            Happened::Answered(check, _) => {
                let Some((asked_of, at, frozen)) = self.open.remove(check) else {
                    return Err(format!("check {check} was answered twice"));
                };
                let took = facts.now.saturating_since(at);
                let bound = TIMEOUT * 2 + facts.latency_max * 2 * TRIES + (facts.frozen[asked_of] - frozen);
                if took > bound {
                    return Err(format!("check {check} was answered after {took:?}, the bound is {bound:?}"));
                }
            }
            Happened::Noted(Note::Applied(applied)) => {
                if let Some(check) = applied.check
                    && !self.applied.insert(check)
                {
                    return Err(format!("check {check} on {:?} was applied twice", applied.asked.key));
                }
            }
            Happened::Stopped(_) | Happened::Noted(_) => {}
        }
        Ok(())
    }

    fn conclude(&self, _: &[(NodeId, &Node, Timestamp)], _: &Facts) -> Result<(), String> {
        match self.open.first_key_value() {
            Some((check, (node, at, _))) => {
                Err(format!("check {check}, asked of node {node} at {}, was never answered", at.0))
            }
            None => Ok(()),
        }
    }
}
