//! What must hold, one file each. Every invariant sees everything that happens and what the world knows about it, and
//! says when something cannot be.

mod admission_bound;
mod bounded_memory;
mod convergence;
mod expired_is_absent;
mod facts;
mod flushed;
mod hits_conserved;
mod one_answer;
mod one_hop;
mod one_owner;
mod reset_monotonic;
mod share_bound;

use std::fmt;

use flyball_core::Timestamp;

pub use facts::Facts;

use crate::message::{Asked, CheckId, NodeId, Note, Told};
use crate::node::Node;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub invariant: &'static str,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

impl std::error::Error for Violation {}

/// Something that happened at a node.
#[derive(Debug)]
pub enum Happened<'a> {
    /// A client asked it.
    Asked(CheckId, &'a Asked),
    /// It answered a client.
    Answered(CheckId, Told),
    /// It went away under its client.
    Disconnected(CheckId),
    /// It stopped in order, with nothing in its way, and left so many keys with hits that it owed.
    Stopped(u64),
    /// It said so itself.
    Noted(&'a Note),
}

/// A rule. `Ok` means: nothing against it.
trait Invariant: fmt::Debug {
    fn name(&self) -> &'static str;

    fn see(&mut self, _node: NodeId, _happened: &Happened<'_>, _facts: &Facts) -> Result<(), String> {
        Ok(())
    }

    /// After a node did something.
    fn check_node(&self, _id: NodeId, _node: &Node, _facts: &Facts) -> Result<(), String> {
        Ok(())
    }

    /// At the end, when everything has been quiet for a while.
    fn conclude(&self, _nodes: &[(NodeId, &Node, Timestamp)], _facts: &Facts) -> Result<(), String> {
        Ok(())
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Invariants(Vec<Box<dyn Invariant>>);

impl Invariants {
    pub(crate) fn new() -> Self {
        Self(vec![
            Box::new(one_answer::OneAnswer::default()),
            Box::new(one_hop::OneHop),
            Box::new(one_owner::OneOwner::default()),
            Box::new(admission_bound::AdmissionBound::default()),
            Box::new(share_bound::ShareBound::default()),
            Box::new(hits_conserved::HitsConserved::default()),
            Box::new(flushed::Flushed),
            Box::new(reset_monotonic::ResetMonotonic::default()),
            Box::new(expired_is_absent::ExpiredIsAbsent),
            Box::new(bounded_memory::BoundedMemory),
            Box::new(convergence::Convergence::default()),
        ])
    }

    pub(crate) fn see(
        &mut self,
        node: NodeId,
        happened: &Happened<'_>,
        facts: &Facts,
    ) -> Result<(), Violation> {
        for rule in &mut self.0 {
            rule.see(node, happened, facts).map_err(|text| Violation { invariant: rule.name(), text })?;
        }
        Ok(())
    }

    pub(crate) fn check_node(&self, id: NodeId, node: &Node, facts: &Facts) -> Result<(), Violation> {
        for rule in &self.0 {
            rule.check_node(id, node, facts).map_err(|text| Violation { invariant: rule.name(), text })?;
        }
        Ok(())
    }

    pub(crate) fn conclude(
        &self,
        nodes: &[(NodeId, &Node, Timestamp)],
        facts: &Facts,
    ) -> Result<(), Violation> {
        for rule in &self.0 {
            rule.conclude(nodes, facts).map_err(|text| Violation { invariant: rule.name(), text })?;
        }
        Ok(())
    }
}
