//! One node: the glue between the machines, restated without tasks, locks and sockets.
//!
//! The production glue does the same with channels and futures. What is decided is decided in `flyball-core`; what is
//! here is the order in which the machines are asked. Everything a node wants done is an [`Effect`].

mod forward;
mod global;

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_core::cluster::{
    BatchSettings, Broadcast, Failure, GlobalBroadcast, GlobalHits, GlobalSettings, HitsBatch, Member,
    OwnedKey, PeerInfo, REROUTES_MAX, Replica, RingSettings, Route, Seen, Senders, SentHits, Stamp,
    Told as ToldNews, Unreachable, View, has_taken, news_of, route, take_news,
};
use flyball_core::store::{Role, Store, StoreSettings, StoredKey};
use flyball_core::time::Instant;
use flyball_core::{Behavior, Rules, Source, Status, Timestamp};

use crate::fault::Fault;
use crate::link::{Group, Link};
use crate::message::{
    Applied, Asked, Body, CheckId, Effect, Item, Line, NodeId, Note, Origin, Reply, Told, Via, address,
    node_at,
};
use crate::shares::Shares;

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
    pub hits: GlobalSettings,
    /// GLOBAL news.
    pub broadcast: GlobalSettings,
    /// What a check gets whose owner cannot be reached.
    pub unreachable: Unreachable,
    /// What nodes do wrong.
    pub fault: Option<Fault>,
}

/// A call under way, as its sender remembers it.
#[derive(Debug)]
enum Call {
    Forward(Forwarded),
    Hits { owner: Box<str>, sequence: u64 },
    News { peer: Box<str>, sequence: u64 },
    Probe,
}

/// A message with checks, of which this link's batcher knows.
#[derive(Debug)]
struct Forwarded {
    groups: Vec<Group>,
    link: Option<u64>,
    alone: bool,
}

/// One pass over the checks of a call: what its owners did not get is looked at when all of them are through, as the
/// production glue waits for one after the other.
#[derive(Debug, Default)]
struct Walk {
    /// Groups that are not through.
    open: usize,
    /// Of whom, how, and what.
    missed: Vec<(NodeId, Failure, Group)>,
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
    /// It is to end, and sends what it owes.
    fn stop(&mut self, now: Now, out: &mut Vec<Effect>);
    /// It was asked to stop, and has nothing left to do.
    fn is_done(&self) -> bool;
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
    shares: Shares,
    hits: GlobalHits,
    broadcast: GlobalBroadcast,
    hit_senders: Senders,
    news_senders: Senders,
    calls: BTreeMap<u64, (NodeId, Call)>,
    next_call: u64,
    /// Calls of clients, some of whose checks are with others.
    walks: BTreeMap<u64, Walk>,
    next_walk: u64,
    /// Once it is asked to stop: when it next sends whatever there is.
    flush_at: Option<Instant>,
    /// Of batches that a fault gives another number with every attempt.
    renumbered: u64,
}

/// While a node stops, it tries again to send what it owes after this.
const FLUSH_EVERY: Duration = Duration::from_millis(20);

/// More than there are nodes. The production node forgets senders that are gone once they are more than there can be peers,
/// thousands, which no run reaches. It is no small thing: a batch that was counted and not answered, and comes again after
/// its sender was forgotten, is counted twice, as runs with room for three showed.
const SENDERS_MAX: usize = 64;

fn small_store() -> Store {
    Store::new(&StoreSettings { shards: 1, bytes_max: 4 << 20, ..StoreSettings::default() })
}

impl Node {
    /// A node that knows nobody yet.
    pub fn new(id: NodeId, session: u64, settings: &NodeSettings) -> Self {
        let hits = match settings.fault {
            Some(Fault::Unbounded) => GlobalSettings { keys_max: usize::MAX, ..settings.hits },
            _ => settings.hits,
        };
        Self {
            id,
            session,
            store: small_store(),
            view: View::alone(&address(id), "", settings.ring),
            links: BTreeMap::new(),
            shares: Shares::new(small_store()),
            hits: GlobalHits::new(hits),
            broadcast: GlobalBroadcast::new(settings.broadcast),
            hit_senders: Senders::new(SENDERS_MAX),
            news_senders: Senders::new(SENDERS_MAX),
            calls: BTreeMap::new(),
            next_call: session << 32,
            walks: BTreeMap::new(),
            next_walk: 0,
            flush_at: None,
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

    fn send_what_is_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        let all = self.flush_at.is_some_and(|at| at <= now.instant);
        if all {
            self.flush_at = Some(now.instant.saturating_add(FLUSH_EVERY));
        }
        let mut batches = Vec::new();
        while let Some(batch) = self.hits.due(now.instant, now.wall, all) {
            batches.push(batch);
        }
        for batch in batches {
            self.send_hits(batch, now, out);
        }
        let mut broadcasts = Vec::new();
        while let Some(broadcast) = self.broadcast.due(now.instant, all) {
            broadcasts.push(broadcast);
        }
        for broadcast in broadcasts {
            self.tell(broadcast, now, out);
        }
        self.store.sweep(now.wall);
        self.shares.sweep(now.wall);
    }

    fn call(&mut self, to: NodeId, body: Body, call: Call, out: &mut Vec<Effect>) {
        self.next_call += 1;
        self.calls.insert(self.next_call, (to, call));
        out.push(Effect::Send { to, call: self.next_call, body });
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
}

impl Actor for Node {
    fn poll_timeout(&self) -> Option<Instant> {
        let links = self.links.values().filter_map(Link::poll_timeout);
        let globals = self.hits.poll_timeout().into_iter().chain(self.broadcast.poll_timeout());
        links.chain(globals).chain(self.flush_at).min()
    }

    fn wake(&mut self, now: Now, out: &mut Vec<Effect>) {
        let peers: Vec<NodeId> = self.links.keys().copied().collect();
        for peer in peers {
            let Some(link) = self.links.get_mut(&peer) else { continue };
            let (batch, probe) =
                (link.batcher.handle_timeout(now.instant), link.health.handle_timeout(now.instant));
            if let Some(groups) = batch {
                self.send_batch(peer, groups, false, out);
            }
            if probe {
                self.call(peer, Body::Probe, Call::Probe, out);
            }
        }
        self.send_what_is_due(now, out);
    }

    fn ask(&mut self, items: Vec<(CheckId, Asked)>, now: Now, out: &mut Vec<Effect>) {
        let items = items.into_iter().map(|(check, asked)| Item { check: Some(check), asked, hops: 0 });
        self.walk(items.collect(), 0, Origin::Client, now, out);
        self.send_what_is_due(now, out);
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
        self.send_what_is_due(now, out);
        Some(reply)
    }

    fn answered(&mut self, call: u64, result: Result<Reply, Failure>, now: Now, out: &mut Vec<Effect>) {
        let Some((peer, call)) = self.calls.remove(&call) else { return };
        let mut is_back = false;
        if let Some(link) = self.links.get_mut(&peer) {
            match &result {
                Ok(_) => is_back = link.health.succeeded(),
                Err(failure) => {
                    link.health.failed(*failure, "no answer", now.instant);
                }
            }
        }
        if is_back && self.fault(Fault::ShareForgotten) {
            self.shares = Shares::new(small_store());
        }
        if let Err(failure) = result {
            out.push(Effect::Note(Note::Failed(peer, failure)));
        }
        match call {
            Call::Probe => {}
            Call::Forward(ended) => self.forward_ended(peer, ended, result, now, out),
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
        self.send_what_is_due(now, out);
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
            self.links.entry(peer).or_insert_with(|| Link::new(epoch, self.settings.batch, seed));
        }
        self.rehome(now, out);
        self.send_what_is_due(now, out);
    }

    fn stop(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.flush_at = Some(now.instant);
        if !self.fault(Fault::NotFlushed) {
            self.send_what_is_due(now, out);
        }
    }

    fn is_done(&self) -> bool {
        let owes_nothing = self.hits.is_idle() && self.broadcast.is_empty() && self.walks.is_empty();
        self.flush_at.is_some() && (owes_nothing || self.fault(Fault::NotFlushed))
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
