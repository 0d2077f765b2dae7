//! A check is forwarded once at most: who receives it from a peer applies it, whatever its own view says.

use super::{Facts, Happened, Invariant};
use crate::message::{NodeId, Note};

#[derive(Debug)]
pub(super) struct OneHop;

impl Invariant for OneHop {
    fn name(&self) -> &'static str {
        "one_hop"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, _: &Facts) -> Result<(), String> {
        match happened {
            Happened::Noted(Note::Applied(applied)) if applied.hops > 1 => {
                Err(format!("node {node} applied {:?} after {} hops", applied.asked.key, applied.hops))
            }
            _ => Ok(()),
        }
    }
}
