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
        // Those that must not wait have a message of their own.
        let mut groups: BTreeMap<(NodeId, bool), Vec<Item>> = BTreeMap::new();
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
                    groups.entry((peer, alone)).or_default().push(item);
                }
            }
        }
        if groups.is_empty() {
            return;
        }
        self.next_walk += 1;
        let (walk, epoch) = (self.next_walk, self.view.epoch());
        self.walks.insert(walk, Walk { open: groups.len(), missed: Vec::new() });
        for ((peer, alone), items) in groups {
            self.forward(peer, Group { items, epoch, round, walk }, alone, now, out);
        }
    }

    fn forward(&mut self, peer: NodeId, mut group: Group, alone: bool, now: Now, out: &mut Vec<Effect>) {
        for item in &mut group.items {
            item.hops += 1;
        }
        let Some(link) = self.links.get_mut(&peer).filter(|link| link.health.is_up()) else {
            self.missed(peer, vec![group], Failure::NotSent, now, out);
            return;
        };
        if alone {
            if link.batcher.alone(group.items.len()) {
                self.send_batch(peer, vec![group], true, out);
            } else {
                self.missed(peer, vec![group], Failure::NotSent, now, out);
            }
            return;
        }
        match link.push(group, now.instant) {
            Ok(batches) => {
                for batch in batches.into_iter().flatten() {
                    self.send_batch(peer, batch, false, out);
                }
            }
            Err(group) => self.missed(peer, vec![group], Failure::NotSent, now, out),
        }
    }

    pub(super) fn send_batch(
        &mut self,
        peer: NodeId,
        groups: Vec<Group>,
        alone: bool,
        out: &mut Vec<Effect>,
    ) {
        let items = groups.iter().flat_map(|group| group.items.iter().cloned()).collect();
        let link = self.links.get(&peer).map(|link| link.made);
        self.call(peer, Body::Checks(items, None), Call::Forward(Forwarded { groups, link, alone }), out);
    }

    /// Groups whose owner did not answer.
    pub(super) fn missed(
        &mut self,
        owner: NodeId,
        groups: Vec<Group>,
        failure: Failure,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        for group in groups {
            let number = group.walk;
            if let Some(walk) = self.walks.get_mut(&number) {
                walk.missed.push((owner, failure, group));
            }
            self.is_through(number, now, out);
        }
    }

    /// One group of this walk is through. After the last one, what was missed is routed again if that is safe and of use,
    /// else answered here.
    fn is_through(&mut self, number: u64, now: Now, out: &mut Vec<Effect>) {
        let Some(walk) = self.walks.get_mut(&number) else { return };
        walk.open -= 1;
        if walk.open > 0 {
            return;
        }
        let Walk { missed, .. } = self.walks.remove(&number).unwrap_or_default();
        let mut again: BTreeMap<u8, Vec<Item>> = BTreeMap::new();
        for (owner, failure, mut group) in missed {
            let changed = group.epoch != self.view.epoch() && usize::from(group.round) < REROUTES_MAX;
            let is_back = group.round == 0
                && failure == Failure::NotSent
                && self.links.get(&owner).is_some_and(|link| link.health.is_up());
            let repeated = self.fault(Fault::ForwardRepeated) && group.round < 2;
            if failure.is_without_trace() && (changed || is_back) || repeated {
                for item in &mut group.items {
                    item.hops -= 1;
                }
                again.entry(group.round + 1).or_default().extend(group.items);
                continue;
            }
            let nodes = self.view.local().len();
            for item in &group.items {
                let NodeSettings { unreachable, rules, .. } = &self.settings;
                let answer = self.shares.answer(*unreachable, &item.asked.request(), nodes, rules, now.wall);
                tell(item, Via::Fallback, answer.map(Ok), out);
            }
        }
        for (round, items) in again {
            self.walk(items, round, Origin::Client, now, out);
        }
    }

    pub(super) fn forward_ended(
        &mut self,
        peer: NodeId,
        ended: Forwarded,
        result: Result<Reply, Failure>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Forwarded { groups, link: made, alone } = ended;
        let count = groups.iter().map(|group| group.items.len()).sum();
        match result {
            Ok(Reply::Checks(answers, _)) => {
                let items = groups.iter().flat_map(|group| &group.items);
                for (item, answer) in items.zip(answers) {
                    tell(item, Via::Owner, Some(answer), out);
                }
                for group in groups {
                    self.is_through(group.walk, now, out);
                }
            }
            Ok(Reply::Done) => {}
            Err(failure) => self.missed(peer, groups, failure, now, out),
        }
        let Some(link) = self.links.get_mut(&peer).filter(|link| Some(link.made) == made) else { return };
        if alone {
            link.batcher.alone_finished(count);
            return;
        }
        if let Some(next) = link.batcher.finished(count) {
            if link.health.is_up() {
                self.send_batch(peer, next, false, out);
            } else {
                let items = next.iter().map(|group| group.items.len()).sum();
                link.batcher.finished(items);
                self.missed(peer, next, Failure::NotSent, now, out);
            }
        }
    }
}
