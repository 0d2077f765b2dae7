//! For a client that stays on one node `remaining` never rises within a window: a broadcast does not give back what the
//! node has granted since. Excepted: wild keys (refunds, resets, changed limits), leaky ones, and whenever hits were given
//! up or a node came or went, since then the owner rightly knows of less.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_core::cluster::OwnedKey;
use flyball_core::time::Instant;

use super::{Facts, Happened, Invariant};
use crate::message::{NodeId, Note};
use crate::workload::is_tame;

/// The circumstances of a window. What was given up, or who came, shows only later, so those of its beginning count.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    reset_time: i64,
    disturbances: u64,
    given_up: u64,
    clock: i64,
}

#[derive(Debug)]
struct Shown {
    window: Window,
    remaining: i64,
    /// The cluster had agreed and been calm for a while when it began, and the node had given nothing up.
    calm: bool,
}

/// What a copy shows is from news that is about so old.
const NEWS_AGE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct ResetMonotonic {
    shown: BTreeMap<(NodeId, OwnedKey), Shown>,
    /// When a node last said that it gave hits up, and how many keys in all.
    given_up: BTreeMap<NodeId, (u64, Instant)>,
}

impl Invariant for ResetMonotonic {
    fn name(&self) -> &'static str {
        "reset_monotonic"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        let Happened::Noted(Note::OnCopy(asked, decision, given_up)) = happened else { return Ok(()) };
        if facts.legacy || !is_tame(&asked.key) || asked.algorithm != 0 {
            return Ok(());
        }
        let window = Window {
            reset_time: decision.reset_time,
            disturbances: facts.disturbances,
            given_up: *given_up + facts.died,
            clock: facts.forward_ms.iter().sum(),
        };
        let (reset_time, remaining) = (window.reset_time, decision.remaining);
        let (known, since) = self.given_up.entry(node).or_insert((window.given_up, facts.now));
        if *known != window.given_up {
            (*known, *since) = (window.given_up, facts.now);
        }
        let quiet = *known == 0 || since.saturating_add(NEWS_AGE) < facts.now;
        let calm = quiet && facts.is_settled() && facts.agree();
        let place = (node, asked.key.clone());
        match self.shown.get_mut(&place).filter(|shown| shown.window.reset_time == reset_time) {
            None => {
                self.shown.insert(place, Shown { window, remaining, calm });
            }
            Some(shown) => {
                let before = std::mem::replace(&mut shown.remaining, remaining);
                if shown.calm && shown.window == window && remaining > before {
                    return Err(format!(
                        "{:?} on node {node}: {remaining} remaining after {before}, in the same window",
                        asked.key
                    ));
                }
            }
        }
        Ok(())
    }
}
