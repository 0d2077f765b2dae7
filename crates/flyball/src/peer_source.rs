//! Where the sets of peers come from, as whoever tells the node of them reports it.
//!
//! A node is told of its peers and does not know by whom. But whether what it goes by is fresh matters to whoever looks
//! at the node, so a report can be left with it, which is asked for when somebody looks.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::node::Node;

/// How a source of peers is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSource {
    /// `static`, `file`, `dns`, …
    pub kind: &'static str,
    /// What it goes by, for people: the file's name, the names that are looked up.
    pub origin: String,
    /// Peers of the set in force; 0 before the first.
    pub peers: usize,
    /// Time since that set came; `None` before the first.
    pub age: Option<Duration>,
    /// Failures since the start.
    pub failures: u64,
    /// The failure that goes on; `None` while all is well.
    pub failing: Option<PeerSourceFailure>,
}

/// A failure that goes on. The set in force may be as old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSourceFailure {
    /// The last error, for people.
    pub error: String,
    /// Time since the first failure after the last good answer.
    pub lasting: Duration,
    /// Failures in that time.
    pub times: u64,
}

type Ask = Box<dyn Fn() -> PeerSource + Send + Sync>;

/// The report, if one was left.
#[derive(Default)]
pub(crate) struct Report(OnceLock<Ask>);

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Report {
    pub(crate) fn get(&self) -> Option<PeerSource> {
        self.0.get().map(|ask| ask())
    }

    /// Why the node is alone although it has a source of peers; nothing once it has had a set.
    pub(crate) fn missing(&self) -> Option<String> {
        let source = self.get().filter(|source| source.peers == 0)?;
        let why = source.failing.map(|failing| failing.error);
        Some(format!("no peers yet: {}", why.unwrap_or_else(|| format!("{} has not answered", source.kind))))
    }
}

impl Node {
    /// Leaves a report with the node of how the source of its peers is doing, for metrics and the overview. It is asked
    /// whenever somebody looks, and must not wait. The first one counts.
    pub fn report_peer_source(&self, ask: impl Fn() -> PeerSource + Send + Sync + 'static) {
        let _ = self.inner().peer_source.0.set(Box::new(ask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_has_said_nothing_is_what_is_missing() {
        assert_eq!(Report::default().missing(), None, "a node without a source");
        let missing = |peers, error: Option<&str>| {
            let failing = error.map(|error| PeerSourceFailure {
                error: error.to_owned(),
                lasting: Duration::from_secs(1),
                times: 1,
            });
            let source =
                PeerSource { kind: "etcd", origin: String::new(), peers, age: None, failures: 0, failing };
            let report = Report::default();
            let _ = report.0.set(Box::new(move || source.clone()));
            report.missing()
        };
        assert_eq!(missing(0, None).unwrap(), "no peers yet: etcd has not answered");
        assert_eq!(missing(0, Some("refused")).unwrap(), "no peers yet: refused");
        assert_eq!(missing(3, Some("refused")), None);
    }
}
