//! For a client that stays on one node `remaining` never rises within a window: a broadcast does not give back what the
//! node has granted since. Excepted: wild keys (refunds, resets, changed limits), leaky ones, and whenever hits were given
//! up or a node came or went, since then the owner rightly knows of less.

use std::collections::BTreeMap;

use flyball_core::cluster::OwnedKey;

use super::{Facts, Happened, Invariant};
use crate::message::{NodeId, Note};
use crate::workload::is_tame;

/// What was shown last, and under which circumstances.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    reset_time: i64,
    disturbances: u64,
    given_up: u64,
    clock: i64,
}

#[derive(Debug, Default)]
pub(super) struct ResetMonotonic {
    shown: BTreeMap<(NodeId, OwnedKey), (Shown, i64)>,
}

impl Invariant for ResetMonotonic {
    fn name(&self) -> &'static str {
        "reset_monotonic"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        let Happened::Noted(Note::OnCopy(asked, decision, given_up)) = happened else { return Ok(()) };
        if !is_tame(&asked.key) || asked.algorithm != 0 {
            return Ok(());
        }
        let circumstances = Shown {
            reset_time: decision.reset_time,
            disturbances: facts.disturbances,
            given_up: *given_up + facts.died,
            clock: facts.forward_ms.iter().sum(),
        };
        let place = (node, asked.key.clone());
        let last = self.shown.insert(place, (circumstances, decision.remaining));
        let Some((before, remaining)) = last else { return Ok(()) };
        let same = self.shown.get(&(node, asked.key.clone())).is_some_and(|(now, _)| *now == before);
        if same && decision.remaining > remaining {
            return Err(format!(
                "{:?} on node {node}: {} remaining after {remaining}, in the same window",
                asked.key, decision.remaining
            ));
        }
        Ok(())
    }
}
