//! What a node shows of its source of peers: it is told sets and asks nobody, but whoever looks at a node wants to know
//! where they come from and whether they still do.

use std::fmt;
use std::sync::OnceLock;

/// How the source of peers is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// Its kind: `etcd`, `dns`.
    pub kind: &'static str,
    /// Peers in the last good set; 0 before the first.
    pub peers: usize,
    /// Failures since the start.
    pub failures: u64,
    /// What is wrong now, for people.
    pub failing: Option<String>,
}

type Ask = Box<dyn Fn() -> SourceReport + Send + Sync>;

/// Whom to ask. Nobody for a node without a source.
#[derive(Default)]
pub(crate) struct SourceOf(OnceLock<Ask>);

impl SourceOf {
    /// The first counts.
    pub(crate) fn set(&self, ask: Ask) {
        let _ = self.0.set(ask);
    }

    pub(crate) fn report(&self) -> Option<SourceReport> {
        self.0.get().map(|ask| ask())
    }

    /// Why the node is alone although it has a source of peers; nothing once it has had a set.
    pub(crate) fn missing(&self) -> Option<String> {
        let report = self.report().filter(|report| report.peers == 0)?;
        let why = report.failing.unwrap_or_else(|| format!("{} has not answered", report.kind));
        Some(format!("no peers yet: {why}"))
    }
}

impl fmt::Debug for SourceOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceOf").field(&self.report()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_has_said_nothing_is_what_is_missing() {
        let source = SourceOf::default();
        assert_eq!((source.report(), source.missing()), (None, None));
        source.set(Box::new(|| SourceReport { kind: "etcd", ..SourceReport::default() }));
        assert_eq!(source.missing().unwrap(), "no peers yet: etcd has not answered");
        let source = SourceOf::default();
        source.set(Box::new(|| SourceReport {
            failing: Some("refused".to_owned()),
            ..SourceReport::default()
        }));
        assert_eq!(source.missing().unwrap(), "no peers yet: refused");
        let source = SourceOf::default();
        let failing = Some("refused".to_owned());
        source.set(Box::new(move || SourceReport {
            peers: 3,
            failing: failing.clone(),
            ..SourceReport::default()
        }));
        assert_eq!(source.missing(), None);
    }
}
