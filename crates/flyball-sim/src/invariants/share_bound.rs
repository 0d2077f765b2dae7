//! However often owners come and go, a node grants at most one share of a key in one window.
//!
//! A window is that of the share's bucket, and its end tells it. The share is the largest that the node had while the window
//! lasted: the fewer nodes it sees, the larger its part. Nothing is said across a restart, which forgets everything.

use std::collections::BTreeMap;

use flyball_core::Status;
use flyball_core::cluster::{OwnedKey, Unreachable, share_of};

use super::admission_bound::is_counted;
use super::{Facts, Happened, Invariant};
use crate::message::{Asked, CheckId, NodeId, Via};

/// Whose window, in which of its runs, of what, and its end.
type Window = (NodeId, u64, OwnedKey, i64);

#[derive(Debug, Default)]
pub(super) struct ShareBound {
    asked: BTreeMap<CheckId, Asked>,
    /// What was granted, and the largest share.
    windows: BTreeMap<Window, (i64, i64)>,
}

impl Invariant for ShareBound {
    fn name(&self) -> &'static str {
        "share_bound"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        match happened {
            Happened::Asked(check, asked) => {
                if is_counted(asked) {
                    self.asked.insert(*check, (*asked).clone());
                }
            }
            Happened::Disconnected(check) => {
                self.asked.remove(check);
            }
            Happened::Answered(check, told) => {
                let Some(asked) = self.asked.remove(check) else { return Ok(()) };
                let share = match facts.settings.unreachable {
                    Unreachable::LocalShare => share_of(&asked.request(), facts.seen_by(node)).limit,
                    Unreachable::Local => asked.limit,
                    Unreachable::Deny | Unreachable::Error => 0,
                };
                let Some(decision) = told.answer.filter(|_| told.via == Via::Fallback) else { return Ok(()) };
                if decision.status != Status::UnderLimit {
                    return Ok(());
                }
                let window = (node, facts.runs[node], asked.key.clone(), decision.reset_time);
                let (granted, largest) = self.windows.entry(window).or_default();
                *granted += asked.hits;
                *largest = share.max(*largest);
                if granted > largest {
                    return Err(format!("{:?}: {granted} granted by a share of {largest}", asked.key));
                }
            }
            Happened::Stopped(_) | Happened::Noted(_) => {}
        }
        Ok(())
    }
}
