//! No more is granted than there is.
//!
//! A tame token window of one owner grants its limit and no more, whatever happens around it. So while views are stable
//! (all nodes see the same) a non-GLOBAL key is exact, and each change of owner admits at most one more limit: the new owner's window. A
//! copy of a GLOBAL key grants at most the limit in one window as long as nothing was given up and nobody came or went,
//! which makes limit × nodes for all. What is granted in the stead of an unreachable owner is `share_bound`'s.

use std::collections::BTreeMap;

use flyball_core::cluster::OwnedKey;
use flyball_core::{Behavior, Status};

use super::{Facts, Happened, Invariant};
use crate::message::{Asked, NodeId, Note};
use crate::workload::is_tame;

/// Whose window, and which.
type Window = (NodeId, u64, OwnedKey, i64);

#[derive(Debug, Default)]
pub(super) struct AdmissionBound {
    at_owners: BTreeMap<Window, i64>,
    /// With the disturbances and given-up keys at its beginning.
    on_copies: BTreeMap<Window, (i64, u64, u64)>,
}

/// Hits of which no more than the limit can be granted in a window.
pub(super) fn is_counted(asked: &Asked) -> bool {
    is_tame(&asked.key) && asked.algorithm == 0 && asked.hits > 0
}

impl Invariant for AdmissionBound {
    fn name(&self) -> &'static str {
        "admission_bound"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        let run = facts.runs[node];
        match happened {
            Happened::Noted(Note::Applied(applied)) => {
                let Ok(decision) = applied.answer else { return Ok(()) };
                let asked = &applied.asked;
                let global = asked.behavior.has(Behavior::GLOBAL);
                if !global && applied.owns && is_counted(asked) && decision.status == Status::UnderLimit {
                    let window = (node, run, asked.key.clone(), decision.reset_time);
                    let granted = self.at_owners.entry(window).or_default();
                    *granted += asked.hits;
                    if *granted > asked.limit {
                        return Err(format!("{:?}: {granted} of {} in one window", asked.key, asked.limit));
                    }
                }
            }
            Happened::Noted(Note::OnCopy(asked, decision, given_up)) => {
                if !facts.legacy && is_counted(asked) && decision.status == Status::UnderLimit {
                    let window = (node, run, asked.key.clone(), decision.reset_time);
                    // News of an earlier owner may still be on their way.
                    let settled = facts.is_settled();
                    // A clock that is set may end a window early, or begin it late.
                    let set: i64 = facts.forward_ms.iter().sum();
                    let now = (facts.disturbances + set.unsigned_abs(), *given_up + facts.died);
                    let (granted, disturbances, lost) = self.on_copies.entry(window).or_insert((
                        0,
                        if settled { now.0 } else { u64::MAX },
                        now.1,
                    ));
                    *granted += asked.hits;
                    if *granted > asked.limit && (*disturbances, *lost) == now && facts.agree() {
                        return Err(format!("{:?}: {granted} of {} on one copy", asked.key, asked.limit));
                    }
                }
            }
            Happened::Noted(_)
            | Happened::Asked(..)
            | Happened::Answered(..)
            | Happened::Disconnected(_)
            | Happened::Stopped(_) => {}
        }
        Ok(())
    }
}
