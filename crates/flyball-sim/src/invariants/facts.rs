//! What the world knows and no node does: who sees what since when, and which troubles there were.

use std::time::Duration;

use flyball_core::time::Instant;

use crate::message::NodeId;
use crate::node::NodeSettings;

/// After a change of views, news of earlier owners may still be about for so long.
const ECHO: Duration = Duration::from_secs(3);

/// See [the module](self).
#[derive(Clone, Debug)]
pub struct Facts {
    /// Simulated time.
    pub now: Instant,
    /// How nodes are set up.
    pub settings: NodeSettings,
    /// The longest a packet takes.
    pub latency_max: Duration,
    /// What each node sees.
    views: Vec<Option<Vec<String>>>,
    /// How often each node's view changed.
    pub view_changes: Vec<u64>,
    /// Since when nobody's view changed and nobody started, ended or had its clock set.
    pub calm_since: Instant,
    /// Times that a view changed, or a node ended or started.
    pub disturbances: u64,
    /// Times a node was started, by node.
    pub runs: Vec<u64>,
    /// How long each node was frozen in all.
    pub frozen: Vec<Duration>,
    /// How far each node's clock was set forward in all, in milliseconds.
    pub forward_ms: Vec<i64>,
    /// There are originals.
    pub legacy: bool,
    /// Keys with hits that died with their node, or were given up by it.
    pub died: u64,
}

impl Facts {
    /// Before anything happened.
    pub fn new(nodes: usize, settings: &NodeSettings, latency_max: Duration) -> Self {
        Self {
            now: Instant(0),
            settings: settings.clone(),
            latency_max,
            views: vec![None; nodes],
            view_changes: vec![0; nodes],
            calm_since: Instant(0),
            disturbances: 0,
            runs: vec![0; nodes],
            frozen: vec![Duration::ZERO; nodes],
            forward_ms: vec![0; nodes],
            legacy: false,
            died: 0,
        }
    }

    fn disturbed(&mut self, now: Instant) {
        self.disturbances += 1;
        self.calm_since = now;
    }

    pub(crate) fn started(&mut self, node: NodeId, now: Instant) {
        self.runs[node] += 1;
        self.views[node] = None;
        self.view_changes[node] += 1;
        self.disturbed(now);
    }

    pub(crate) fn crashed(&mut self, keys: u64) {
        self.died += keys;
        self.disturbed(self.now);
    }

    pub(crate) fn saw(&mut self, node: NodeId, view: Vec<String>, now: Instant) {
        if self.views[node].as_ref() != Some(&view) {
            self.views[node] = Some(view);
            self.view_changes[node] += 1;
            self.disturbed(now);
        }
    }

    pub(crate) fn froze(&mut self, node: NodeId, time: Duration) {
        self.frozen[node] += time;
    }

    pub(crate) fn clock_set(&mut self, node: NodeId, ms: i64) {
        self.forward_ms[node] += ms.abs();
    }

    /// Nothing has changed since all nodes started together, so there are no news of earlier owners.
    pub fn is_first_calm(&self) -> bool {
        self.calm_since == Instant(0)
    }

    /// News of earlier owners have arrived or never will.
    pub fn is_settled(&self) -> bool {
        self.is_first_calm() || self.calm_since.saturating_add(ECHO) < self.now
    }

    /// Whether all who were told of peers were told of the same.
    pub fn agree(&self) -> bool {
        let mut views = self.views.iter().flatten();
        let first = views.next();
        views.all(|view| Some(view) == first)
    }

    /// How many nodes a node sees.
    pub fn seen_by(&self, node: NodeId) -> usize {
        self.views[node].as_ref().map_or(1, Vec::len)
    }
}
