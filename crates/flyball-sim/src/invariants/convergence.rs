//! When troubles are over and every GLOBAL key was asked once more on each node, all copies soon say what the owner
//! says. With originals that holds while nobody comes or goes: what an original told as owner is kept under the joined
//! text, begins when it was received, and so counts as newer than what the next owner tells of a window that began before.

use std::collections::BTreeSet;

use flyball_core::algorithm::{Bucket, State};
use flyball_core::cluster::{Member, OwnedKey};
use flyball_core::store::StoredKey;
use flyball_core::{Behavior, Timestamp};

use super::{Facts, Happened, Invariant};
use crate::message::{NodeId, node_at};
use crate::node::Node;

#[derive(Debug, Default)]
pub(super) struct Convergence {
    global: BTreeSet<OwnedKey>,
}

/// Free units at `wall`, and when the bucket ends.
fn standing(bucket: &Bucket, wall: Timestamp) -> (f64, i64) {
    match bucket.state {
        State::Token(token) => (token.remaining.max(0) as f64, bucket.expire_at),
        State::Leaky(leaky) => {
            let leaked = wall.ms().saturating_sub(leaky.updated_at).max(0) as f64 / leaky.rate;
            ((leaky.balance + leaked).min(leaky.burst as f64), bucket.expire_at)
        }
    }
}

impl Invariant for Convergence {
    fn name(&self) -> &'static str {
        "convergence"
    }

    fn see(&mut self, _: NodeId, happened: &Happened<'_>, _: &Facts) -> Result<(), String> {
        if let Happened::Asked(_, asked) = happened
            && asked.behavior.has(Behavior::GLOBAL)
            && !self.global.contains(&asked.key)
        {
            self.global.insert(asked.key.clone());
        }
        Ok(())
    }

    fn conclude(&self, nodes: &[(NodeId, &Node, Timestamp)], facts: &Facts) -> Result<(), String> {
        if facts.legacy && !facts.is_first_calm() {
            return Ok(());
        }
        for (owner_id, owner, wall) in nodes {
            let mut owned: Vec<(OwnedKey, Bucket)> = Vec::new();
            owner.store().for_each(|key, bucket| {
                if let StoredKey::Pair(pair) = key
                    && owner.view().owner(pair) == Member::Own
                    && bucket.is_alive(*wall)
                    && self.global.contains(&pair.into())
                {
                    owned.push((pair.into(), *bucket));
                }
            });
            owned.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (key, bucket) in owned {
                for (id, node, _) in nodes.iter().filter(|(id, ..)| id != owner_id) {
                    let Member::Peer(index) = node.view().owner(key.as_key()) else {
                        return Err(format!("nodes {owner_id} and {id} both own {key:?}"));
                    };
                    if node_at(&node.view().local()[index].grpc_address) != Some(*owner_id) {
                        return Err(format!("nodes {owner_id} and {id} do not agree who owns {key:?}"));
                    }
                    let Some(copy) = node.store().get(StoredKey::Pair(key.as_key()), *wall) else { continue };
                    if !copy.is_alive(*wall) {
                        continue;
                    }
                    let (theirs, ours) = (standing(&copy, *wall), standing(&bucket, *wall));
                    if (theirs.0 - ours.0).abs() > 1e-6 || theirs.1 != ours.1 {
                        return Err(format!(
                            "{key:?}: node {id} shows {theirs:?}, its owner, node {owner_id}, {ours:?}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
