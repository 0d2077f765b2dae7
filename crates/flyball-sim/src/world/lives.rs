//! How nodes begin, end and stand still.

use super::*;

impl World {
    /// Starts a node; it knows nobody.
    pub fn start(&mut self, node: NodeId) {
        let seat = &mut self.seats[node];
        seat.run += 1;
        let session = ((node as u64 + 1) << 16) | seat.run;
        let settings = &self.settings;
        seat.node = Some(if seat.legacy {
            Box::new(Legacy::new(node, session, settings))
        } else {
            Box::new(Node::new(node, session, settings))
        });
        (seat.woken, seat.frozen_until, seat.stopping) = (None, None, None);
        self.trace.note(format_args!("{} start {node}", self.now.0));
        self.facts.started(node, self.now);
    }

    /// Asks a node to end, as SIGTERM does. It takes no client any more and sends what it owes, for as long as a call may
    /// take.
    pub fn stop(&mut self, node: NodeId) -> Result<(), Violation> {
        let clear = self.is_clear(node);
        let seat = &mut self.seats[node];
        if seat.node.is_none() || seat.stopping.is_some() || seat.frozen_until.is_some() {
            return Ok(());
        }
        (seat.stopping, seat.woken) = (Some(clear), None);
        let run = seat.run;
        self.trace.note(format_args!("{} stop {node}", self.now.0));
        self.plan(self.now.saturating_add(TIMEOUT), Event::Ends { node, run });
        self.act(node, |node, now, out| {
            node.stop(now, out);
            None
        })
    }

    /// Whether whatever this node sends to the others arrives soon.
    fn is_clear(&self, node: NodeId) -> bool {
        let Network { loss, slow, cut, .. } = &self.network;
        let all_there = self.seats.iter().all(|seat| {
            seat.node.is_some() && seat.stopping.is_none() && seat.frozen_until.is_none() && !seat.legacy
        });
        let up = |node: &Node| node.links().values().all(|link| link.health.is_up());
        let sees_them = self.seats[node].node.as_ref().and_then(|node| node.flyball()).is_some_and(up);
        let quiet = *loss == 0 && *slow == 0 && cut.is_empty();
        quiet && all_there && sees_them && self.facts.agree() && self.facts.is_settled()
    }

    /// Whether it was still so for who just ended.
    fn is_clear_without(&self, node: NodeId) -> bool {
        let there = |(id, seat): (NodeId, &Seat)| {
            id == node || (seat.node.is_some() && seat.stopping.is_none() && seat.frozen_until.is_none())
        };
        self.network.cut.is_empty() && self.facts.is_settled() && self.seats.iter().enumerate().all(there)
    }

    /// Ends a node at once. Its clients see their connections close.
    pub fn crash(&mut self, node: NodeId) -> Result<(), Violation> {
        let Some(dead) = self.seats[node].node.take() else { return Ok(()) };
        self.trace.note(format_args!("{} crash {node}", self.now.0));
        let stats = dead.flyball().map(|dead| dead.hits().stats()).unwrap_or_default();
        let left = stats.pending + stats.under_way;
        if self.seats[node].stopping == Some(true) && self.is_clear_without(node) {
            self.see(node, &Happened::Stopped(left))?;
        }
        self.facts.crashed(left + stats.lost + stats.ended + stats.dropped);
        let lost: Vec<CheckId> =
            self.open.iter().filter(|(_, asked)| **asked == node).map(|(check, _)| *check).collect();
        for check in lost {
            self.open.remove(&check);
            self.see(node, &Happened::Disconnected(check))?;
        }
        Ok(())
    }

    /// Stops a node for a while; what comes for it waits.
    pub fn freeze(&mut self, node: NodeId, time: Duration) {
        let until = self.now.saturating_add(time);
        let seat = &mut self.seats[node];
        if seat.node.is_none() || seat.frozen_until.is_some() {
            return;
        }
        seat.frozen_until = Some(until);
        self.trace.note(format_args!("{} freeze {node} until {}", self.now.0, until.0));
        self.facts.froze(node, time);
        self.plan(until, Event::Thaw { node });
    }
}
