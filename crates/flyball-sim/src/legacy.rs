//! A small model of an original node, for clusters that are half way between.
//!
//! It has no numbers, no retries and no breaker. GLOBAL hits are summed under the first request of an interval and sent once; if
//! that fails they are lost. Broadcasts carry the plain status, are read by applying the last check once more, and replace
//! whatever the receiver has. A forward that fails is an error.
//!
//! What this weakens, whatever flyball does (the invariants say so where they look at `facts.legacy`): hits that meet an
//! original may be lost, so that less is delivered than was recorded; a copy may be given back units and its window may be any;
//! originals themselves promise nothing. One hop, one answer, one owner of each bucket on flyball's nodes, bounds,
//! "nothing twice", and convergence among flyball's nodes for keys that one of them owns hold as ever.

use std::collections::BTreeMap;

use flyball_core::algorithm::{Bucket, State, TokenBucket};
use flyball_core::cluster::{Dirty, Failure, Member, OwnedKey, PeerInfo, RingSettings, Route, View, route};
use flyball_core::store::{Role, Store, StoreSettings, StoredKey};
use flyball_core::time::Instant;
use flyball_core::{Algorithm, Answer, Behavior, Decision, Rules, Semantics, Source, Status};

use crate::message::{Asked, Body, CheckId, Effect, Item, Line, NodeId, Reply, Told, Via, address, node_at};
use crate::node::{Actor, NodeSettings, Now};

/// See [the module](self).
#[derive(Debug)]
pub struct Legacy {
    id: NodeId,
    rules: Rules,
    ring: RingSettings,
    sync_wait: std::time::Duration,
    store: Store,
    view: View,
    hits: BTreeMap<OwnedKey, Asked>,
    news: BTreeMap<OwnedKey, Asked>,
    due: Option<Instant>,
    calls: BTreeMap<u64, Option<Item>>,
    next_call: u64,
}

/// What a plain status says of a bucket, and what it does not, as the original fills it in.
pub fn plain_bucket(algorithm: i32, duration: i64, status: &Decision, now: Now) -> Bucket {
    let state = if algorithm == Algorithm::TokenBucket as i32 {
        State::Token(TokenBucket {
            limit: status.limit,
            remaining: status.remaining,
            duration,
            created_at: now.wall.ms(),
            calendar: (0..=5).contains(&duration),
            over_limit: status.status == Status::OverLimit,
        })
    } else {
        State::Leaky(flyball_core::algorithm::LeakyBucket {
            limit: status.limit,
            duration,
            burst: status.limit,
            balance: status.remaining as f64,
            updated_at: now.wall.ms(),
            rate: duration as f64 / status.limit as f64,
            booked_ms: 0.0,
        })
    };
    Bucket { expire_at: status.reset_time, state }
}

impl Legacy {
    /// A node that knows nobody yet.
    pub fn new(id: NodeId, session: u64, settings: &NodeSettings) -> Self {
        let semantics = Semantics::Gubernator;
        let store = StoreSettings { shards: 1, bytes_max: 4 << 20, semantics, ..StoreSettings::default() };
        Self {
            id,
            rules: Rules { semantics, ..settings.rules.clone() },
            ring: settings.ring,
            sync_wait: settings.hits.sync_wait,
            store: Store::new(&store),
            view: View::alone(&address(id), "", settings.ring),
            hits: BTreeMap::new(),
            news: BTreeMap::new(),
            due: None,
            calls: BTreeMap::new(),
            next_call: session << 32,
        }
    }

    fn call(&mut self, to: NodeId, body: Body, item: Option<Item>, out: &mut Vec<Effect>) {
        self.next_call += 1;
        self.calls.insert(self.next_call, item);
        out.push(Effect::Send { to, call: self.next_call, body });
    }

    fn apply(&mut self, asked: &Asked, source: Source, now: Now) -> Option<Answer> {
        let request = asked.request();
        let check = self.rules.admit(&request, source, now.wall).ok()?.check;
        let answer = self.store.apply(&check, now.wall, &self.rules, Role::Owner);
        if check.behavior.has(Behavior::GLOBAL) && check.hits != 0 {
            let created_at = Some(check.created_at.ms());
            self.news
                .insert(asked.key.clone(), Asked { created_at, behavior: check.behavior, ..asked.clone() });
            self.arm(now);
        }
        Some(answer)
    }

    fn on_copy(&mut self, asked: &Asked, now: Now) -> Option<Answer> {
        let plain = Asked { behavior: Behavior(asked.behavior.0 & !Behavior::GLOBAL.0), ..asked.clone() };
        let request = plain.request();
        let check = self.rules.admit(&request, Source::Client, now.wall).ok()?.check;
        let answer = self.store.apply(&check, now.wall, &self.rules, Role::Replica);
        if answer.is_ok() && asked.hits != 0 {
            let created_at = Some(check.created_at.ms());
            let pending = self.hits.entry(asked.key.clone());
            let sum = pending.or_insert_with(|| Asked { hits: 0, created_at, ..asked.clone() });
            sum.hits += asked.hits;
            if asked.behavior.has(Behavior::RESET_REMAINING) {
                sum.behavior = sum.behavior.with(Behavior::RESET_REMAINING);
            }
            self.arm(now);
        }
        Some(answer)
    }

    fn arm(&mut self, now: Now) {
        if self.due.is_none() {
            self.due = Some(now.instant.saturating_add(self.sync_wait));
        }
    }

    fn peer_of(&self, key: &OwnedKey) -> Option<NodeId> {
        match self.view.owner(key.as_key()) {
            Member::Peer(index) => node_at(&self.view.local()[index].grpc_address),
            Member::Own | Member::None => None,
        }
    }

    fn send_hits(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mut batches: BTreeMap<NodeId, Vec<Item>> = BTreeMap::new();
        for (key, asked) in std::mem::take(&mut self.hits) {
            match self.peer_of(&key) {
                Some(peer) => batches.entry(peer).or_default().push(Item { check: None, asked, hops: 0 }),
                None => drop(self.apply(&asked, Source::Peer, now)),
            }
        }
        for (peer, items) in batches {
            self.call(peer, Body::Checks(items, None), None, out);
        }
    }

    fn send_news(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mut lines = Vec::new();
        for (key, asked) in std::mem::take(&mut self.news) {
            let behavior = Behavior(asked.behavior.0 & !Behavior::GLOBAL.0);
            let read = Asked { hits: 0, behavior, ..asked };
            let request = read.request();
            let Ok(admitted) = self.rules.admit(&request, Source::Peer, now.wall) else { continue };
            let answer = self.store.apply(&admitted.check, now.wall, &self.rules, Role::Replica);
            if let Ok(status) = answer {
                let dirty = Dirty::new(&admitted.check);
                let bucket = Some(plain_bucket(read.algorithm, read.duration, &status, now));
                lines.push(Line { dirty: Dirty { key, ..dirty }, bucket, status });
            }
        }
        if lines.is_empty() {
            return;
        }
        let me = self.id;
        let peers = self.view.local().iter().filter_map(|peer| node_at(&peer.grpc_address));
        let others: Vec<NodeId> = peers.filter(|peer| *peer != me).collect();
        for peer in others {
            self.call(peer, Body::News(lines.clone(), None, None), None, out);
        }
    }
}

fn tell(check: Option<CheckId>, via: Via, answer: Option<Answer>, out: &mut Vec<Effect>) {
    if let Some(check) = check {
        out.push(Effect::Tell(check, Told { via, answer: answer.and_then(Result::ok) }));
    }
}

impl Actor for Legacy {
    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn wake(&mut self, now: Now, out: &mut Vec<Effect>) {
        if self.due.is_some_and(|due| due <= now.instant) {
            self.due = None;
            self.send_hits(now, out);
            self.send_news(now, out);
        }
        self.store.sweep(now.wall);
    }

    fn ask(&mut self, items: Vec<(CheckId, Asked)>, now: Now, out: &mut Vec<Effect>) {
        for (check, mut asked) in items {
            let Ok(behavior) = self.rules.screen(&asked.request(), Source::Client) else {
                tell(Some(check), Via::Own, None, out);
                continue;
            };
            match route(&self.view, asked.key(), behavior) {
                Route::Own => {
                    let answer = self.apply(&asked, Source::Client, now);
                    tell(Some(check), Via::Own, answer, out);
                }
                Route::Replica(_) => {
                    let answer = self.on_copy(&asked, now);
                    tell(Some(check), Via::Replica, answer, out);
                }
                Route::Nobody => tell(Some(check), Via::Own, None, out),
                Route::Forward(_) => {
                    asked.created_at = asked.created_at.or(Some(now.wall.ms()));
                    let Some(peer) = self.peer_of(&asked.key) else { continue };
                    let item = Item { check: Some(check), asked, hops: 1 };
                    self.call(peer, Body::Checks(vec![item.clone()], None), Some(item), out);
                }
            }
        }
    }

    fn called(&mut self, _: NodeId, body: Body, now: Now, _: &mut Vec<Effect>) -> Option<Reply> {
        match body {
            Body::Probe => Some(Reply::Done),
            Body::Checks(items, _) => {
                let answer = |item: &Item| {
                    self.apply(&item.asked, Source::Peer, now).unwrap_or(Ok(Decision::default()))
                };
                Some(Reply::Checks(items.iter().map(answer).collect(), None))
            }
            Body::News(lines, ..) => {
                for line in &lines {
                    let Dirty { key, algorithm, duration, .. } = &line.dirty;
                    let bucket = plain_bucket(*algorithm, *duration, &line.status, now);
                    self.store.insert(StoredKey::Pair(key.as_key()), bucket, now.wall);
                }
                Some(Reply::Done)
            }
        }
    }

    fn answered(&mut self, call: u64, result: Result<Reply, Failure>, _: Now, out: &mut Vec<Effect>) {
        let Some(Some(item)) = self.calls.remove(&call) else { return };
        match result {
            Ok(Reply::Checks(answers, _)) => tell(item.check, Via::Owner, answers.first().copied(), out),
            Ok(Reply::Done) | Err(_) => tell(item.check, Via::Fallback, None, out),
        }
    }

    fn set_peers(&mut self, peers: &[NodeId], _: Now, _: &mut Vec<Effect>) {
        let infos: Vec<PeerInfo> = peers.iter().map(|peer| PeerInfo::new(address(*peer))).collect();
        self.view = View::new(self.view.epoch() + 1, &address(self.id), "", infos, self.ring);
    }

    /// What it owes is dropped.
    fn stop(&mut self, _: Now, _: &mut Vec<Effect>) {}

    fn is_done(&self) -> bool {
        true
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn flyball(&self) -> Option<&crate::node::Node> {
        None
    }
}
