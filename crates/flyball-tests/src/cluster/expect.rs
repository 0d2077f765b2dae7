//! What tests expect of a cluster after something happened to it.

use std::time::{Duration, Instant};

use super::Cluster;
use crate::wait::poll;

/// A node that does not say what is missing by then does not say it.
const SAID: Duration = Duration::from_secs(20);

impl Cluster {
    /// Each of these nodes is healthy within `most`, and knows `count`.
    ///
    /// # Panics
    /// When one is not.
    #[track_caller]
    pub fn all_know(&mut self, nodes: &[usize], count: usize, most: Duration) {
        let until = Instant::now() + most;
        for &node in nodes {
            let left = until.saturating_duration_since(Instant::now());
            if let Err(error) = self.wait_until_healthy(node, count, left) {
                panic!("{error:#}\nall of them:\n{}", self.logs());
            }
        }
    }

    /// A node that does not run is started, is itself healthy within `most`, and all others within as much from then; all
    /// nodes run. Gives the moment it was healthy.
    ///
    /// # Panics
    /// When one is not.
    #[track_caller]
    pub fn returns(&mut self, node: usize, most: Duration) -> Instant {
        self.start_again(node).unwrap_or_else(|error| panic!("{error:#}"));
        let all: Vec<usize> = (0..self.nodes().len()).collect();
        self.all_know(&[node], all.len(), most);
        let returned = Instant::now();
        self.all_know(&all, all.len(), most);
        returned
    }

    /// A node without peers says so, and what is missing in these words.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn says_missing(&self, node: usize, words: &str) {
        let mut last = String::new();
        let said = poll(SAID, || {
            let (status, text) = self.node(node).said().ok()?;
            last = text;
            (status == 503 && last.contains("no peers yet") && last.contains(words)).then_some(())
        });
        assert!(said.is_some(), "not '{words}' but {last}\n{}", self.logs());
    }
}
