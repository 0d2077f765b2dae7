//! A node that is stopped in order, while its peers are there and listen, owes nobody anything when it ends.

use super::{Facts, Happened, Invariant};
use crate::message::NodeId;

#[derive(Debug)]
pub(super) struct Flushed;

impl Invariant for Flushed {
    fn name(&self) -> &'static str {
        "flushed"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, _: &Facts) -> Result<(), String> {
        match happened {
            Happened::Stopped(left) if *left > 0 => {
                Err(format!("node {node} stopped in order and owes the hits of {left} keys"))
            }
            _ => Ok(()),
        }
    }
}
