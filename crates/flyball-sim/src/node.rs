//! One node: the glue between the machines, restated without tasks, locks and sockets.
//!
//! The production glue does the same with channels and futures. What is decided is decided in `flyball-core`; what is
//! here is the order in which the machines are asked. Everything a node wants done is an [`Effect`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use flyball_core::cluster::{
    BatchSettings, Broadcast, BroadcastSettings, Failure, GlobalBroadcast, GlobalHits, HitsBatch,
    HitsSettings, OwnedKey, PeerInfo, Replica, RingSettings, Route, Senders, SentHits, Stamp,
    Told as ToldNews, Unreachable, View, news_of, route, take_news,
};
use flyball_core::cluster::{Member, Seen};
use flyball_core::store::{Role, Store, StoreSettings, StoredKey};
use flyball_core::time::Instant;
use flyball_core::{Behavior, Rules, Source, Status, Timestamp};

use crate::fault::Fault;
use crate::link::{Group, Link};
use crate::message::{
    Applied, Asked, Body, CheckId, Effect, Item, Line, NodeId, Note, Origin, Reply, Told, Via, address,
    node_at,
};

/// How often a check that was not sent is routed again.
const REROUTES_MAX: u8 = 5;

/// How nodes are set up; the same for all.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// How checks are judged.
    pub rules: Rules,
    /// How keys are placed.
    pub ring: RingSettings,
    /// Forwards.
    pub batch: BatchSettings,
    /// GLOBAL hits.
    pub hits: HitsSettings,
    /// GLOBAL news.
    pub broadcast: BroadcastSettings,
    /// What a check gets whose owner cannot be reached.
    pub unreachable: Unreachable,
    /// What nodes do wrong.
    pub fault: Option<Fault>,
}

/// A call under way, as its sender remembers it.
#[derive(Debug)]
enum Call {
    /// Items of a batch that this link's batcher knows of, or of one that went alone.
    Forward {
        groups: Vec<Group>,
        link: Option<u64>,
    },
    Hits {
        owner: Box<str>,
        sequence: u64,
    },
    News {
        peer: Box<str>,
        sequence: u64,
    },
    Probe,
}

/// The moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Simulated time.
    pub instant: Instant,
    /// The node's wall clock.
    pub wall: Timestamp,
}

/// Whoever sits in the cluster, a node of flyball's or an [original](crate::legacy).
pub trait Actor: std::fmt::Debug {
    /// When [`wake`](Self::wake) is wanted.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Whatever is due is done.
    fn wake(&mut self, now: Now, out: &mut Vec<Effect>);
    /// A client asks.
    fn ask(&mut self, items: Vec<(CheckId, Asked)>, now: Now, out: &mut Vec<Effect>);
    /// Another node calls. The answer, unless it is still to come.
    fn called(&mut self, from: NodeId, body: Body, now: Now, out: &mut Vec<Effect>) -> Option<Reply>;
    /// A call ended.
    fn answered(&mut self, call: u64, result: Result<Reply, Failure>, now: Now, out: &mut Vec<Effect>);
    /// Discovery reports who there is.
    fn set_peers(&mut self, peers: &[NodeId], now: Now, out: &mut Vec<Effect>);
    /// What it sees.
    fn view(&self) -> &View;
    /// It, if it is flyball's.
    fn flyball(&self) -> Option<&Node>;
}

/// See [the module](self).
#[derive(Debug)]
pub struct Node {
    id: NodeId,
    /// Tells this run of the node from earlier ones.
    pub session: u64,
    settings: NodeSettings,
    store: Store,
    view: View,
    links: BTreeMap<NodeId, Link>,
    hits: GlobalHits,
    broadcast: GlobalBroadcast,
    hit_senders: Senders,
    news_senders: Senders,
    calls: BTreeMap<u64, (NodeId, Call)>,
    next_call: u64,
    /// Of batches that a fault gives another number with every attempt.
    renumbered: u64,
}

fn small_store() -> Store {
    Store::new(&StoreSettings { shards: 1, bytes_max: 4 << 20, ..StoreSettings::default() })
}

impl Node {
    /// A node that knows nobody yet.
    pub fn new(id: NodeId, session: u64, settings: &NodeSettings) -> Self {
        let hits = match settings.fault {
            Some(Fault::Unbounded) => HitsSettings { keys_max: usize::MAX, ..settings.hits },
            _ => settings.hits,
        };
        Self {
            id,
            session,
            store: small_store(),
            view: View::alone(&address(id), "", settings.ring),
            links: BTreeMap::new(),
            hits: GlobalHits::new(hits),
            broadcast: GlobalBroadcast::new(settings.broadcast),
            hit_senders: Senders::new(64),
            news_senders: Senders::new(64),
            calls: BTreeMap::new(),
            next_call: session << 32,
            renumbered: 0,
            settings: settings.clone(),
        }
    }

    fn fault(&self, fault: Fault) -> bool {
        self.settings.fault == Some(fault)
    }

    /// What the node sees.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Its buckets.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its GLOBAL hits.
    pub fn hits(&self) -> &GlobalHits {
        &self.hits
    }

    /// Its GLOBAL news.
    pub fn broadcast(&self) -> &GlobalBroadcast {
        &self.broadcast
    }

    /// Its peers.
    pub fn links(&self) -> &BTreeMap<NodeId, Link> {
        &self.links
    }

    /// Calls it waits for.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    fn send_what_is_due(&mut self, now: Now, all: bool, out: &mut Vec<Effect>) {
        while let Some(batch) = self.hits.due(now.instant, now.wall, all) {
            self.send_hits(batch, now, out);
        }
        while let Some(broadcast) = self.broadcast.due(now.instant, all) {
            self.tell(broadcast, now, out);
        }
        self.store.sweep(now.wall);
    }

    fn call(&mut self, to: NodeId, body: Body, call: Call, out: &mut Vec<Effect>) {
        self.next_call += 1;
        self.calls.insert(self.next_call, (to, call));
        out.push(Effect::Send { to, call: self.next_call, body });
    }

    fn walk(&mut self, items: Vec<Item>, round: u8, origin: Origin, now: Now, out: &mut Vec<Effect>) {
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

    fn apply_own(&mut self, item: &Item, origin: Origin, now: Now, out: &mut Vec<Effect>) {
        let answer = self.apply(item, origin, now, out);
        tell(item, Via::Own, answer, out);
    }

    /// Applies a check as the owner that counts it.
    fn apply(
        &mut self,
        item: &Item,
        origin: Origin,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Option<flyball_core::Answer> {
        let rules = &self.settings.rules;
        let source = if origin == Origin::Client { Source::Client } else { Source::Peer };
        let request = item.asked.request();
        let check = match rules.admit(&request, source, now.wall) {
            Ok(admitted) => admitted.check,
            Err(error) => return Some(Err(error)),
        };
        let key = StoredKey::Pair(check.key);
        let before = self.store.get(key, now.wall);
        let answer = self.store.apply(&check, now.wall, rules, Role::Owner);
        let after = self.store.get(key, now.wall);
        if check.behavior.has(Behavior::GLOBAL) && check.hits != 0 && answer.is_ok() {
            self.broadcast.mark(&check, now.instant);
        }
        let asked =
            Asked { behavior: check.behavior, created_at: Some(check.created_at.ms()), ..item.asked.clone() };
        let owns = self.view.owner(check.key) == Member::Own;
        let (check, hops, wall) = (item.check, item.hops, now.wall);
        let alone = self.view.is_alone();
        let applied = Applied { check, asked, origin, hops, owns, alone, before, after, answer, wall };
        out.push(Effect::Note(Note::Applied(Box::new(applied))));
        Some(answer)
    }

    fn apply_replica(&mut self, item: &Item, owner: usize, now: Now, out: &mut Vec<Effect>) {
        let owner = &self.view.local()[owner].grpc_address;
        let request = item.asked.request();
        let stats = self.hits.stats();
        let mut replica =
            Replica { rules: &self.settings.rules, hits: &mut self.hits, wall: now.wall, now: now.instant };
        let mut answer = None;
        self.store.visit(
            1,
            |_| request.key,
            |_, mut bucket| {
                answer = Some(replica.apply(&mut bucket, &request, owner).answer);
                ControlFlow::Continue(())
            },
        );
        if let Some(Ok(decision)) = answer {
            let told_anyway = [Behavior::DRAIN_OVER_LIMIT, Behavior::RESET_REMAINING];
            let granted = decision.status != Status::OverLimit;
            if request.hits != 0 && (granted || told_anyway.iter().any(|flag| request.behavior.has(*flag))) {
                out.push(Effect::Note(Note::Recorded(item.asked.key.clone(), request.hits)));
            }
            let given_up = stats.lost + stats.ended + stats.dropped;
            out.push(Effect::Note(Note::OnCopy(item.asked.clone(), decision, given_up)));
        }
        tell(item, Via::Replica, answer, out);
    }

    fn forward(
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

    fn send_batch(&mut self, peer: NodeId, groups: Vec<Group>, batched: bool, out: &mut Vec<Effect>) {
        let items = groups.iter().flat_map(|group| group.items.iter().cloned()).collect();
        let link = self.links.get(&peer).filter(|_| batched).map(|link| link.made);
        self.call(peer, Body::Checks(items, None), Call::Forward { groups, link }, out);
    }

    /// Checks whose owner did not answer: routed again if that is safe and of use, else answered here.
    fn missed(
        &mut self,
        owner: NodeId,
        groups: Vec<Group>,
        failure: Failure,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        for group in groups {
            let changed = group.epoch != self.view.epoch();
            let again = failure == Failure::NotSent && changed && group.round < REROUTES_MAX;
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
                let policy = self.settings.unreachable;
                let answer = match self.links.get_mut(&owner) {
                    Some(link) => {
                        link.fall_back(policy, &item.asked.request(), nodes, &self.settings.rules, now.wall)
                    }
                    None => None,
                };
                tell(item, Via::Fallback, answer.map(Ok), out);
            }
        }
    }

    fn peer_checks(
        &mut self,
        from: NodeId,
        items: &[Item],
        stamp: Option<Stamp>,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Option<Vec<flyball_core::Answer>> {
        let sender = address(from);
        let fine = || items.iter().map(|_| Ok(flyball_core::Decision::default())).collect();
        if let Some(stamp) = stamp
            && self.hit_senders.begin(&sender, stamp) == Seen::Before
        {
            return Some(fine());
        }
        let origin = if stamp.is_some() { Origin::Hits } else { Origin::Peer };
        if self.fault(Fault::RoutingLoop) && stamp.is_none() {
            let elsewhere = |item: &&Item| !matches!(self.view.owner(item.asked.key()), Member::Own);
            let mut lost: Vec<Item> = items.iter().filter(elsewhere).cloned().collect();
            if !lost.is_empty() && lost.iter().all(|item| item.hops < 9) {
                lost.truncate(1);
                self.walk(lost, 0, Origin::Peer, now, out);
                return None;
            }
        }
        let answers = items.iter().map(|item| {
            let answer = self.apply(item, origin, now, out);
            answer.unwrap_or(Ok(flyball_core::Decision::default()))
        });
        let answers = answers.collect();
        if let Some(stamp) = stamp {
            self.hit_senders.applied(&sender, stamp);
        }
        Some(answers)
    }

    fn news(&mut self, from: NodeId, lines: &[Line], stamp: Option<Stamp>, applied: Option<Stamp>, now: Now) {
        let owner = address(from);
        if let Some(stamp) = stamp {
            let seen = self.news_senders.begin(&owner, stamp);
            if seen == Seen::Before && !self.fault(Fault::StaleBroadcast) {
                return;
            }
            self.news_senders.applied(&owner, stamp);
            self.hits.spoke(&owner, stamp.session);
        }
        // What it says of an earlier run of this node is about other numbers.
        let applied = match (stamp, applied) {
            (Some(_), Some(applied)) if applied.session == self.session => Some(applied.sequence),
            (Some(_), _) => Some(0),
            (None, _) => None,
        };
        for line in lines {
            let key = line.dirty.key.as_key();
            let mine = self.view.owner(key) == Member::Own && !self.view.is_alone();
            if mine && !self.fault(Fault::OwnOverwritten) {
                continue;
            }
            let joined = key.to_string();
            // An original tells no more.
            let key = if stamp.is_some() { StoredKey::Pair(key) } else { StoredKey::Joined(&joined) };
            // Its token bucket without a window is what a reset left: none.
            let bucket = line.bucket.filter(|bucket| stamp.is_some() || bucket.expire_at != 0);
            let none = GlobalHits::new(self.settings.hits);
            let hits = if self.fault(Fault::NotSubtracted) { &none } else { &self.hits };
            take_news(&self.store, hits, ToldNews { owner: &owner, key, bucket, applied }, now.wall);
        }
        if let Some(applied) = applied {
            self.hits.confirmed(&owner, applied);
        }
    }

    fn send_hits(&mut self, batch: HitsBatch, now: Now, out: &mut Vec<Effect>) {
        let HitsBatch { owner, sequence, items } = batch;
        let peer =
            node_at(&owner).filter(|peer| self.links.get(peer).is_some_and(|link| link.health.is_up()));
        let Some(peer) = peer else {
            self.hits_failed(&owner, sequence, Failure::NotSent, now, out);
            return;
        };
        let items =
            items.iter().map(|(key, sent)| Item { check: None, asked: Asked::of_hits(key, sent), hops: 0 });
        let number = if self.fault(Fault::Renumbered) {
            self.renumbered += 1;
            self.renumbered
        } else {
            sequence
        };
        let stamp = Stamp { session: self.session, sequence: number };
        self.call(peer, Body::Checks(items.collect(), Some(stamp)), Call::Hits { owner, sequence }, out);
    }

    fn hits_failed(&mut self, owner: &str, sequence: u64, failure: Failure, now: Now, out: &mut Vec<Effect>) {
        if self.fault(Fault::LostHits) {
            self.hits.succeeded(owner, sequence, Some(0), now.instant);
        } else if self.hits.failed(owner, sequence, failure, now.instant) {
            self.rehome(now, out);
        }
    }

    fn rehome(&mut self, now: Now, out: &mut Vec<Effect>) {
        let own: Vec<(OwnedKey, SentHits)> = self.hits.rehome(&self.view, now.instant);
        for parts in own.chunk_by(|a, b| a.0 == b.0) {
            let copy = self.store.get(StoredKey::Pair(parts[0].0.as_key()), now.wall);
            let has_copy = copy.is_some_and(|bucket| bucket.is_alive(now.wall) || bucket.in_debt(now.wall));
            for (key, sent) in parts {
                let asked = Asked::of_hits(key, sent);
                if has_copy {
                    if let Ok(admitted) = self.settings.rules.admit(&asked.request(), Source::Peer, now.wall)
                    {
                        self.broadcast.mark(&admitted.check, now.instant);
                    }
                    out.push(Effect::Note(Note::TakenOver(key.clone(), sent.hits)));
                } else {
                    self.apply(&Item { check: None, asked, hops: 0 }, Origin::Rehomed, now, out);
                }
            }
        }
    }

    fn tell(&mut self, broadcast: Broadcast, now: Now, out: &mut Vec<Effect>) {
        let mut lines = Vec::new();
        for dirty in broadcast.keys {
            if self.view.owner(dirty.key.as_key()) != Member::Own {
                // Its owner now is another, and tells how it stands there.
                continue;
            }
            if self.fault(Fault::ResetInRead) {
                let asked = Asked {
                    key: dirty.key.clone(),
                    hits: 0,
                    limit: dirty.limit,
                    duration: dirty.duration,
                    algorithm: dirty.algorithm,
                    behavior: dirty.behavior,
                    burst: dirty.burst,
                    created_at: Some(dirty.created_at.ms()),
                    max_wait: 0,
                };
                if let Ok(admitted) = self.settings.rules.admit(&asked.request(), Source::Peer, now.wall) {
                    let _ = self.store.apply(&admitted.check, now.wall, &self.settings.rules, Role::Replica);
                }
            }
            if let Some(news) = news_of(&self.store, &dirty, &self.settings.rules, now.wall) {
                lines.push(Line { dirty, bucket: news.bucket, status: news.status });
            }
        }
        for (peer, sequence) in broadcast.peers {
            if lines.is_empty() {
                self.broadcast.succeeded(&peer, sequence, now.instant);
                continue;
            }
            let up =
                node_at(&peer).filter(|peer| self.links.get(peer).is_some_and(|link| link.health.is_up()));
            let Some(to) = up else {
                self.broadcast.failed(&peer, sequence, now.instant);
                continue;
            };
            let stamp = Stamp { session: self.session, sequence };
            let applied = self.hit_senders.mark(&peer).map(|(stamp, _)| stamp);
            self.call(
                to,
                Body::News(lines.clone(), Some(stamp), applied),
                Call::News { peer, sequence },
                out,
            );
        }
    }

    fn forward_ended(
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

impl Actor for Node {
    fn poll_timeout(&self) -> Option<Instant> {
        let links = self.links.values().filter_map(Link::poll_timeout);
        links.chain(self.hits.poll_timeout()).chain(self.broadcast.poll_timeout()).min()
    }

    fn wake(&mut self, now: Now, out: &mut Vec<Effect>) {
        let peers: Vec<NodeId> = self.links.keys().copied().collect();
        for peer in peers {
            let Some(link) = self.links.get_mut(&peer) else { continue };
            let (batch, probe) =
                (link.batcher.handle_timeout(now.instant), link.health.handle_timeout(now.instant));
            if let Some(groups) = batch {
                self.send_batch(peer, groups, true, out);
            }
            if probe {
                self.call(peer, Body::Probe, Call::Probe, out);
            }
        }
        self.send_what_is_due(now, false, out);
    }

    fn ask(&mut self, items: Vec<(CheckId, Asked)>, now: Now, out: &mut Vec<Effect>) {
        let items = items.into_iter().map(|(check, asked)| Item { check: Some(check), asked, hops: 0 });
        self.walk(items.collect(), 0, Origin::Client, now, out);
        self.send_what_is_due(now, false, out);
    }

    fn called(&mut self, from: NodeId, body: Body, now: Now, out: &mut Vec<Effect>) -> Option<Reply> {
        let reply = match body {
            Body::Probe => Reply::Done,
            Body::Checks(items, stamp) => {
                Reply::Checks(self.peer_checks(from, &items, stamp, now, out)?, Some(self.session))
            }
            Body::News(lines, stamp, applied) => {
                self.news(from, &lines, stamp, applied, now);
                Reply::Done
            }
        };
        self.send_what_is_due(now, false, out);
        Some(reply)
    }

    fn answered(&mut self, call: u64, result: Result<Reply, Failure>, now: Now, out: &mut Vec<Effect>) {
        let Some((peer, call)) = self.calls.remove(&call) else { return };
        if let Some(link) = self.links.get_mut(&peer) {
            match &result {
                Ok(_) => {
                    if link.health.succeeded() {
                        link.forget_shares();
                    }
                }
                Err(failure) => {
                    link.health.failed(*failure, "no answer", now.instant);
                }
            }
        }
        if let Err(failure) = result {
            out.push(Effect::Note(Note::Failed(peer, failure)));
        }
        match call {
            Call::Probe => {}
            Call::Forward { groups, link } => self.forward_ended(peer, groups, link, result, now, out),
            Call::Hits { owner, sequence } => match result {
                Ok(Reply::Checks(_, session)) => self.hits.succeeded(&owner, sequence, session, now.instant),
                Ok(Reply::Done) => {}
                Err(failure) => self.hits_failed(&owner, sequence, failure, now, out),
            },
            Call::News { peer, sequence } => match result {
                Ok(_) => self.broadcast.succeeded(&peer, sequence, now.instant),
                Err(_) => self.broadcast.failed(&peer, sequence, now.instant),
            },
        }
        self.send_what_is_due(now, false, out);
    }

    fn set_peers(&mut self, peers: &[NodeId], now: Now, out: &mut Vec<Effect>) {
        let infos: Vec<PeerInfo> = peers.iter().map(|peer| PeerInfo::new(address(*peer))).collect();
        if self.view.has_same_members(&infos) {
            return;
        }
        self.view = View::new(self.view.epoch() + 1, &address(self.id), "", infos, self.settings.ring);
        let others: Vec<NodeId> = peers.iter().copied().filter(|peer| *peer != self.id).collect();
        let addresses: Vec<String> = others.iter().map(|peer| address(*peer)).collect();
        self.broadcast.set_peers(addresses.iter().map(String::as_str));
        let gone: Vec<NodeId> = self.links.keys().copied().filter(|peer| !others.contains(peer)).collect();
        for peer in gone {
            if let Some(mut link) = self.links.remove(&peer) {
                self.missed(peer, link.batcher.close(), Failure::NotSent, now, out);
            }
        }
        for peer in others {
            let (epoch, seed) = (self.view.epoch(), self.session ^ peer as u64);
            self.links
                .entry(peer)
                .or_insert_with(|| Link::new(epoch, self.settings.batch, seed, small_store()));
        }
        self.rehome(now, out);
        self.send_what_is_due(now, false, out);
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn flyball(&self) -> Option<&Node> {
        Some(self)
    }
}

fn tell(item: &Item, via: Via, answer: Option<flyball_core::Answer>, out: &mut Vec<Effect>) {
    if let Some(check) = item.check {
        out.push(Effect::Tell(check, Told { via, answer: answer.and_then(Result::ok) }));
    }
}
