//! Numbers of the program around a node on the node's page: its listeners, its certificates, its source of peers.
//! Labels are the program's to bound.

use std::borrow::Cow;
use std::fmt;

/// Whether a family's values only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// They do.
    Counter,
    /// They come and go.
    Gauge,
}

/// Labels, in the alphabetical order of their names.
pub type FamilyLabels = Vec<(&'static str, Cow<'static, str>)>;

/// A family of series.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name; a counter's ends in `_total`.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: FamilyKind,
    /// Each with its value. A family without series does not appear.
    pub series: Vec<(FamilyLabels, f64)>,
}

/// Who has more to say on the page; see [`Metrics::with`](super::Metrics::with).
pub trait MoreMetrics: Send + Sync + fmt::Debug + 'static {
    /// What it says now. Asked at every scrape; must not wait.
    fn families(&self) -> Vec<Family>;
}
