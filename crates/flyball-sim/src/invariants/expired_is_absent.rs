//! A bucket whose window is over is as good as none: no answer names a window that had ended when the check was made.

use flyball_core::Behavior;

use super::{Facts, Happened, Invariant};
use crate::message::{Asked, NodeId, Note};

#[derive(Debug)]
pub(super) struct ExpiredIsAbsent;

fn check(asked: &Asked, at: i64, decision: &flyball_core::Decision) -> Result<(), String> {
    let reset = asked.behavior.has(Behavior::RESET_REMAINING) && decision.reset_time == 0;
    if asked.algorithm == 0 && !reset && decision.reset_time < at {
        return Err(format!("{:?} at {at}: the answer's window ended at {}", asked.key, decision.reset_time));
    }
    Ok(())
}

impl Invariant for ExpiredIsAbsent {
    fn name(&self) -> &'static str {
        "expired_is_absent"
    }

    fn see(&mut self, _: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        match happened {
            Happened::Noted(Note::Applied(applied)) => match (&applied.answer, applied.asked.created_at) {
                (Ok(decision), Some(at)) => check(&applied.asked, at, decision),
                _ => Ok(()),
            },
            Happened::Noted(Note::OnCopy(asked, decision, _)) if !facts.legacy => match asked.created_at {
                Some(at) => check(asked, at, decision),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
