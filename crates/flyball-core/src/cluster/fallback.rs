//! What a check is told whose owner cannot be reached.
//!
//! A dead owner must not stop the service it protects, and must not stop protecting it either. By default the node
//! that was asked decides by itself, with its *share* of the limit: every node may grant the n-th part, so that
//! all of them together grant what the owner would have, and nobody needs to talk to anybody. Shares live in a
//! table of their own until their windows end, and an owner that is back does not hear of them; merging them would charge
//! callers for a time in which the owner may itself have been counting. Forgetting them when it is back would give
//! callers a new share with every outage within a window.

use crate::check::Request;

/// What is done with a check whose owner cannot be reached. A `max_wait` check always gets the error: a place in
/// a queue can be promised by one node only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreachable {
    /// Decided here by this node's share of the limit.
    #[default]
    LocalShare,
    /// Decided here by the full limit.
    Local,
    /// Refused.
    Deny,
    /// Answered with an item error, as the original does.
    Error,
}

impl Unreachable {
    /// The name of the setting's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalShare => "local-share",
            Self::Local => "local",
            Self::Deny => "deny",
            Self::Error => "error",
        }
    }
}

/// `request` with this node's part of its limit and burst: each divided by the number of nodes on the ring, the
/// dead included (who knows who else sees them dead?), rounded up, so that a limit below the number of nodes
/// still lets one through.
pub fn share_of<'a>(request: &Request<'a>, nodes: usize) -> Request<'a> {
    let nodes = i64::try_from(nodes).unwrap_or(i64::MAX).max(1);
    let part = |whole: i64| if whole > 0 { (whole - 1) / nodes + 1 } else { whole };
    Request { limit: part(request.limit), burst: part(request.burst), ..*request }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Behavior, Key};

    #[test]
    fn shares_are_rounded_up_and_together_at_least_the_whole() {
        let request = Request {
            key: Key { name: "a", unique_key: "b" },
            hits: 1,
            limit: 10,
            duration: 1,
            algorithm: 0,
            behavior: Behavior::default(),
            burst: 0,
            created_at: None,
            max_wait: 0,
        };
        for (limit, nodes, expected) in [
            (10, 3, 4),
            (10, 1, 10),
            (10, 0, 10),
            (1, 30, 1),
            (0, 3, 0),
            (-5, 3, -5),
            (i64::MAX, 2, i64::MAX / 2 + 1),
            (9, 3, 3),
        ] {
            let share = share_of(&Request { limit, burst: limit, ..request }, nodes);
            assert_eq!((share.limit, share.burst), (expected, expected), "{limit} over {nodes}");
        }
        assert_eq!(share_of(&request, 3).burst, 0, "an unset burst stays unset");
    }
}
