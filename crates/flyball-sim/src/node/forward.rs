//! Checks of clients: routed, answered here, or on their way to another node.

use std::collections::BTreeMap;

use super::*;

impl Node {
    pub(super) fn walk(
        &mut self,
        items: Vec<Item>,
        round: u8,
        origin: Origin,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let mut groups: BTreeMap<NodeId, Vec<Item>> = BTreeMap::new();
        for mut item in items {
            let Ok(behavior) = self.settings.rules.screen(&item.asked.request(), Source::Client) else {
                tell(&item, Via::Own, None, out);
                continue;
            };
            match route(&self.view, item.asked.key(), behavior) {
                Route::Own => self.apply_own(&item, origin, now, out),
                Route::Replica(owner) => self.apply_replica(&item, owner, now, out),
                Route::Nobody => tell(&item, Via::Own, None, out),
                Route::Forward(owner) => {
                    let Some(peer) = node_at(&self.view.local()[owner].grpc_address) else { continue };
                    let dated = self.settings.rules.date(item.asked.created_at, Source::Client, now.wall).0;
                    item.asked.created_at = Some(dated.ms());
                    let alone = item.asked.max_wait > 0 || behavior.has(Behavior::NO_BATCHING);
                    if alone {
                        self.forward(peer, vec![item], true, round, now, out);
                    } else {
                        groups.entry(peer).or_default().push(item);
                    }
                }
            }
        }
        for (peer, items) in groups {
            self.forward(peer, items, false, round, now, out);
        }
    }

    pub(super) fn forward(
        &mut self,
        peer: NodeId,
        mut items: Vec<Item>,
        alone: bool,
        round: u8,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        for item in &mut items {
            item.hops += 1;
        }
        let group = Group { items, epoch: self.view.epoch(), round };
        let Some(link) = self.links.get_mut(&peer).filter(|link| link.health.is_up()) else {
            self.missed(peer, vec![group], Failure::NotSent, now, out);
            return;
        };
        if alone {
            self.send_batch(peer, vec![group], false, out);
            return;
        }
        match link.push(group, now.instant) {
            Ok(batches) => {
                for batch in batches.into_iter().flatten() {
                    self.send_batch(peer, batch, true, out);
                }
            }
            Err(group) => self.missed(peer, vec![group], Failure::NotSent, now, out),
        }
    }

    pub(super) fn send_batch(
        &mut self,
        peer: NodeId,
        groups: Vec<Group>,
        batched: bool,
        out: &mut Vec<Effect>,
    ) {
        let items = groups.iter().flat_map(|group| group.items.iter().cloned()).collect();
        let link = self.links.get(&peer).filter(|_| batched).map(|link| link.made);
        self.call(peer, Body::Checks(items, None), Call::Forward { groups, link }, out);
    }

    /// Checks whose owner did not answer: routed again if that is safe and of use, else answered here.
    pub(super) fn missed(
        &mut self,
        owner: NodeId,
        groups: Vec<Group>,
        failure: Failure,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        for group in groups {
            let changed = group.epoch != self.view.epoch();
            let again = failure == Failure::NotSent && changed && usize::from(group.round) < REROUTES_MAX;
            if again || (self.fault(Fault::ForwardRepeated) && group.round < 2) {
                let mut items = group.items;
                for item in &mut items {
                    item.hops -= 1;
                }
                self.walk(items, group.round + 1, Origin::Client, now, out);
                continue;
            }
            let nodes = self.view.local().len();
            for item in &group.items {
                let NodeSettings { unreachable, rules, .. } = &self.settings;
                let answer = self.shares.answer(*unreachable, &item.asked.request(), nodes, rules, now.wall);
                tell(item, Via::Fallback, answer.map(Ok), out);
            }
        }
    }

    pub(super) fn forward_ended(
        &mut self,
        peer: NodeId,
        groups: Vec<Group>,
        made: Option<u64>,
        result: Result<Reply, Failure>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let count = groups.iter().map(|group| group.items.len()).sum();
        match result {
            Ok(Reply::Checks(answers, _)) => {
                let items = groups.iter().flat_map(|group| &group.items);
                for (item, answer) in items.zip(answers) {
                    tell(item, Via::Owner, Some(answer), out);
                }
            }
            Ok(Reply::Done) => {}
            Err(failure) => self.missed(peer, groups, failure, now, out),
        }
        let Some(link) = self.links.get_mut(&peer).filter(|link| Some(link.made) == made) else { return };
        if let Some(next) = link.batcher.finished(count) {
            if link.health.is_up() {
                self.send_batch(peer, next, true, out);
            } else {
                let items = next.iter().map(|group| group.items.len()).sum();
                link.batcher.finished(items);
                self.missed(peer, next, Failure::NotSent, now, out);
            }
        }
    }
}
