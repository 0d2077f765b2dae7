//! What copies granted reaches an owner once, or is counted as given up.
//!
//! For tame keys never more is delivered than was recorded. After quiet as much was, but for as many keys as nodes say
//! they gave up, or took with them when they ended.

use std::collections::BTreeMap;

use flyball_core::Timestamp;
use flyball_core::cluster::OwnedKey;

use super::{Facts, Happened, Invariant};
use crate::message::{NodeId, Note, Origin};
use crate::node::Node;
use crate::workload::is_tame;

#[derive(Debug, Default)]
pub(super) struct HitsConserved {
    /// Recorded, delivered.
    sums: BTreeMap<OwnedKey, (i64, i64)>,
    /// Delivered, by node and its run. What was counted by a run that ended before it could say so comes again.
    by_run: BTreeMap<(NodeId, u64, OwnedKey), i64>,
}

impl HitsConserved {
    fn delivered(&mut self, node: NodeId, key: &OwnedKey, hits: i64, facts: &Facts) -> Result<(), String> {
        *self.by_run.entry((node, facts.runs[node], key.clone())).or_default() += hits;
        let (recorded, delivered) = self.sums.entry(key.clone()).or_default();
        *delivered += hits;
        let is_dead = |(node, run, of): &(NodeId, u64, OwnedKey)| of == key && *run < facts.runs[*node];
        let died = || self.by_run.iter().filter(|(of, _)| is_dead(of)).map(|(_, hits)| hits).sum::<i64>();
        if delivered > recorded && *delivered - died() > *recorded {
            return Err(format!(
                "{key:?}: {delivered} delivered of {recorded}, the last {} to node {node}",
                hits
            ));
        }
        Ok(())
    }
}

impl Invariant for HitsConserved {
    fn name(&self) -> &'static str {
        "hits_conserved"
    }

    fn see(&mut self, node: NodeId, happened: &Happened<'_>, facts: &Facts) -> Result<(), String> {
        match happened {
            Happened::Noted(Note::Recorded(key, hits)) if is_tame(key) => {
                self.sums.entry(key.clone()).or_default().0 += hits;
            }
            Happened::Noted(Note::Applied(applied))
                if matches!(applied.origin, Origin::Hits | Origin::Rehomed)
                    && is_tame(&applied.asked.key) =>
            {
                return self.delivered(node, &applied.asked.key, applied.asked.hits, facts);
            }
            Happened::Noted(Note::TakenOver(key, hits)) if is_tame(key) => {
                return self.delivered(node, key, *hits, facts);
            }
            _ => {}
        }
        Ok(())
    }

    fn conclude(&self, nodes: &[(NodeId, &Node, Timestamp)], facts: &Facts) -> Result<(), String> {
        let mut given_up = facts.died;
        for (id, node, _) in nodes {
            let stats = node.hits().stats();
            if stats.pending + stats.under_way > 0 {
                return Err(format!("node {id} still has hits to deliver: {stats:?}"));
            }
            given_up += stats.lost + stats.ended + stats.dropped;
        }
        if facts.legacy {
            return Ok(());
        }
        let short: Vec<_> =
            self.sums.iter().filter(|(_, (recorded, delivered))| recorded > delivered).collect();
        if short.len() as u64 > given_up {
            return Err(format!(
                "hits (recorded, delivered) are missing, {given_up} keys were given up: {short:?}"
            ));
        }
        Ok(())
    }
}
