//! No more is granted than there is.
//!
//! A tame token window of one owner grants its limit and no more, whatever happens around it. So while views are stable
//! (all nodes see the same) a non-GLOBAL key is exact, and each change of owner admits at most one more limit: the new owner's window. A
//! copy of a GLOBAL key grants at most the limit in one window as long as nothing was given up and nobody came or went,
//! which makes limit × nodes for all. Who stands in for an unreachable owner grants its share.

use std::collections::BTreeMap;

use flyball_core::cluster::{OwnedKey, Unreachable, share_of};
use flyball_core::{Behavior, Status};

use super::{Facts, Happened, Invariant};
use crate::message::{Asked, CheckId, NodeId, Note, Via};
use crate::workload::is_tame;

/// Whose window, and which.
type Window = (NodeId, u64, OwnedKey, i64);

#[derive(Debug, Default)]
pub(super) struct AdmissionBound {
    asked: BTreeMap<CheckId, Asked>,
    at_owners: BTreeMap<Window, i64>,
    /// With the disturbances and given-up keys at its beginning.
    on_copies: BTreeMap<Window, (i64, u64, u64)>,
    by_shares: BTreeMap<(NodeId, u64, OwnedKey, i64, u64), i64>,
}

fn is_counted(asked: &Asked) -> bool {
    is_tame(&asked.key) && asked.algorithm == 0 && asked.hits > 0
}

impl Invariant for AdmissionBound {
    fn name(&self) -> &'static str {
        "admission_bound"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        let run = facts.runs[node];
        match happened {
            Happened::Asked(check, asked) => {
                self.asked.insert(*check, (*asked).clone());
            }
            Happened::Disconnected(check) => {
                self.asked.remove(check);
            }
            Happened::Answered(check, told) => {
                let Some(asked) = self.asked.remove(check) else { return Ok(()) };
                let shared =
                    facts.settings.unreachable == Unreachable::LocalShare && told.via == Via::Fallback;
                if let (true, Some(decision)) = (shared && is_counted(&asked), told.answer)
                    && decision.status == Status::UnderLimit
                {
                    let share = share_of(&asked.request(), facts.seen_by(node)).limit;
                    // A peer that was back in between had its shares forgotten.
                    let window = (node, run, asked.key.clone(), decision.reset_time, facts.disturbances);
                    let granted = self.by_shares.entry(window).or_default();
                    *granted += asked.hits;
                    if asked.hits > share {
                        return Err(format!("{:?}: {} at once by a share of {share}", asked.key, asked.hits));
                    }
                }
            }
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
            Happened::Noted(_) => {}
        }
        Ok(())
    }
}
