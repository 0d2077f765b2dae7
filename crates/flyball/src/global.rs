//! GLOBAL limits between nodes: one task that sends what [`GlobalHits`] and [`GlobalBroadcast`] say is due.
//!
//! Every message has a task of its own, which tells the machine how it ended; the loop waits for none of them, so a
//! slow peer delays nobody else.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use bytes::{Bytes, BytesMut};
use flyball_core::cluster::{
    Broadcast, Dirty, GlobalBroadcast, GlobalHits, HitsBatch, Member, OwnedKey, Senders, SentHits, Stamp,
    has_taken, news_of,
};
use flyball_core::store::Role;
use flyball_core::{Behavior, Source};
use flyball_proto::convert;
use prost::Message;
use prost::encoding::message;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tonic::Code;

use crate::membership::Cluster;
use crate::method::Method;
use crate::metrics::counters::Tally;
use crate::metrics::timing::Timing;
use crate::pb;
use crate::peers::call::PeerError;
use crate::peers::peer::{Peer, client_error};
use crate::service::Inner;
use crate::settings::ClusterSettings;
use crate::trace::PlainSpan;

/// Broadcasts under way at once.
const BROADCASTS_MAX: usize = 100;
/// Nodes whose messages are told apart by their numbers.
const SENDERS_MAX: usize = 8_192;
/// The pause between two looks for what a node that stops still has to send.
const FLUSH_EVERY: Duration = Duration::from_millis(10);
/// How often buckets are read anew for a broadcast when hits were applied meanwhile.
const READS_MAX: usize = 3;

/// The machines of GLOBAL limits, and what is counted about them.
#[derive(Debug)]
pub(crate) struct Globals {
    hits: Mutex<GlobalHits>,
    broadcast: Mutex<GlobalBroadcast>,
    hit_senders: Mutex<Senders>,
    news_senders: Mutex<Senders>,
    /// Tells this run of the node from earlier ones.
    session: u64,
    /// Something is due at another time than it was.
    pub(crate) wake: Notify,
    pub(crate) counts: GlobalCounts,
    broadcasts: Semaphore,
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct GlobalCounts {
    pub(crate) send_errors: AtomicU64,
    pub(crate) broadcast_errors: AtomicU64,
    pub(crate) sends: AtomicU64,
    pub(crate) rounds: AtomicU64,
    pub(crate) keys_told: AtomicU64,
    pub(crate) bytes_told: AtomicU64,
    /// Batches that came twice and were counted once.
    pub(crate) repeated: AtomicU64,
    /// Broadcasts that came late and changed nothing.
    pub(crate) stale: AtomicU64,
    pub(crate) send_time: Timing,
    pub(crate) round_time: Timing,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Globals {
    pub(crate) fn new(settings: &ClusterSettings, session: u64) -> Self {
        Self {
            hits: Mutex::new(GlobalHits::new(settings.global)),
            broadcast: Mutex::new(GlobalBroadcast::new(settings.global)),
            hit_senders: Mutex::new(Senders::new(SENDERS_MAX)),
            news_senders: Mutex::new(Senders::new(SENDERS_MAX)),
            session,
            wake: Notify::new(),
            counts: GlobalCounts::default(),
            broadcasts: Semaphore::new(BROADCASTS_MAX),
        }
    }

    pub(crate) fn hits(&self) -> MutexGuard<'_, GlobalHits> {
        lock(&self.hits)
    }

    pub(crate) fn broadcast(&self) -> MutexGuard<'_, GlobalBroadcast> {
        lock(&self.broadcast)
    }

    pub(crate) fn hit_senders(&self) -> MutexGuard<'_, Senders> {
        lock(&self.hit_senders)
    }

    pub(crate) fn news_senders(&self) -> MutexGuard<'_, Senders> {
        lock(&self.news_senders)
    }

    pub(crate) const fn session(&self) -> u64 {
        self.session
    }

    /// Forgets the numbers of nodes that are gone, once there are many.
    pub(crate) fn forget_senders(&self, keep: impl Fn(&str) -> bool) {
        for mut senders in [self.hit_senders(), self.news_senders()] {
            if senders.len() > SENDERS_MAX / 2 {
                senders.retain(&keep);
            }
        }
    }

    /// Whom broadcasts go to from here on.
    pub(crate) fn set_peers<'a>(&self, peers: impl Iterator<Item = &'a str>) {
        self.broadcast().set_peers(peers);
    }
}

/// Runs until the node closes or its last handle is dropped.
pub(crate) fn spawn(inner: Arc<Inner>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        let closing = inner.closing.clone();
        while !closing.is_cancelled() {
            inner.send_what_is_due(false);
            let next = [inner.globals.hits().poll_timeout(), inner.globals.broadcast().poll_timeout()];
            let next = next.into_iter().flatten().min();
            let sleep = async {
                match next {
                    Some(next) => tokio::time::sleep_until(inner.shared.moment(next)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = inner.globals.wake.notified() => {}
                () = sleep => {}
                () = closing.cancelled() => {}
            }
        }
        for peer in inner.cluster.load().peers() {
            peer.close();
        }
    });
}

impl Inner {
    /// Starts everything that is due; with `all`, everything there is.
    fn send_what_is_due(self: &Arc<Self>, all: bool) {
        // Most of the time there is nothing, and the wall clock is not looked at.
        while !self.globals.hits().is_idle() {
            let (now, wall) = (self.shared.now(), self.clock.now());
            let Some(batch) = self.globals.hits().due(now, wall, all) else { break };
            self.shared.spawn(Arc::clone(self).send_hits(batch));
        }
        loop {
            let Some(broadcast) = self.globals.broadcast().due(self.shared.now(), all) else { break };
            self.shared.spawn(Arc::clone(self).tell(broadcast));
        }
    }

    /// Sends everything that is pending, for as long as the global timeout allows.
    pub(crate) async fn flush(self: &Arc<Self>) {
        let timeout = self.shared.settings.global_timeout;
        let flushed = tokio::time::timeout(timeout, async {
            loop {
                self.send_what_is_due(true);
                if self.globals.hits().is_idle() && self.globals.broadcast().is_empty() {
                    break;
                }
                // Not at once when something ends: who refuses would be asked without a pause.
                tokio::time::sleep(FLUSH_EVERY).await;
            }
        });
        if flushed.await.is_err() {
            let hits = self.globals.hits().stats();
            tracing::warn!(
                keys = hits.pending + hits.under_way,
                untold = self.globals.broadcast().len(),
                "GLOBAL hits or news could not be delivered within {timeout:?}"
            );
        }
    }

    async fn send_hits(self: Arc<Self>, batch: HitsBatch) {
        let globals = &self.globals;
        let HitsBatch { owner, sequence, items } = batch;
        let mut bytes = BytesMut::new();
        for (key, sent) in &items {
            message::encode(1, &convert::hits(key, sent), &mut bytes);
        }
        let stamp = Stamp { session: globals.session, sequence };
        let stamp = Some(convert::stamp(&self.advertise_address, stamp));
        let tail = pb::GetPeerRateLimitsReq { stamp, ..Default::default() };
        bytes.extend_from_slice(&tail.encode_to_vec());

        let cluster = self.cluster.load_full();
        let peer = cluster.at(&owner).filter(|peer| peer.is_up());
        let started = StdInstant::now();
        let sent = match peer {
            Some(peer) => {
                let timeout = self.shared.settings.global_timeout;
                let method = Method::GetPeerRateLimits;
                peer.call::<pb::GetPeerRateLimitsResp>(method, bytes.freeze(), timeout, client_error).await
            }
            None => Err(PeerError::not_sent("the owner is down or gone")),
        };
        let now = StdInstant::now();
        globals.counts.sends.fetch_add(1, Relaxed);
        globals.counts.send_time.record(now - started, 1, now);
        match sent {
            Ok(answer) => {
                if answer.rate_limits.len() != items.len() {
                    tracing::warn!(
                        peer = &*owner,
                        "number of rate limits in peer response does not match request"
                    );
                    self.count(|tally| tally.error(crate::metrics::counters::ErrorKind::ItemMismatch));
                }
                globals.hits().succeeded(
                    &owner,
                    sequence,
                    answer.stamp.map(|told| told.session),
                    self.shared.now(),
                );
            }
            Err(error) => {
                globals.counts.send_errors.fetch_add(1, Relaxed);
                let moved = globals.hits().failed(&owner, sequence, error.failure, self.shared.now());
                // A call that began before the view changed may have noted hits for who is gone.
                if moved || cluster.at(&owner).is_none() {
                    self.rehome_hits(&self.cluster.load_full());
                }
            }
        }
        globals.wake.notify_one();
    }

    /// Hits that wait for an owner that is none any more go to the one that is; those whose owner this node has become
    /// are counted here.
    pub(crate) fn rehome_hits(&self, cluster: &Cluster) {
        let own = self.globals.hits().rehome(&cluster.view, self.shared.now());
        // A reset and the hits after it are two parts of one key, which has a copy for both or for none.
        for parts in own.chunk_by(|a, b| a.0 == b.0) {
            self.take_over(parts);
        }
        self.globals.wake.notify_one();
    }

    /// The copy of a key becomes the bucket that counts, and what this node granted was taken from the copy already. Only
    /// where there is none left are the hits still to be counted.
    fn take_over(&self, parts: &[(OwnedKey, SentHits)]) {
        let wall = self.clock.now();
        let Some((key, _)) = parts.first() else { return };
        let taken = has_taken(&self.store, key.as_key(), wall);
        for (key, sent) in parts {
            let Ok(admitted) = self.rules.admit(&sent.request(key), Source::Peer, wall) else { continue };
            if !taken && self.store.apply(&admitted.check, wall, &self.rules, Role::Owner).is_err() {
                continue;
            }
            if admitted.check.behavior.has(Behavior::GLOBAL) {
                self.globals.broadcast().mark(&admitted.check, self.shared.now());
            }
        }
    }

    /// Tells peers how buckets of this node stand.
    async fn tell(self: Arc<Self>, broadcast: Broadcast) {
        let globals = &self.globals;
        let Broadcast { peers, keys } = broadcast;
        let applied = |address: &str| globals.hit_senders().mark(address);
        let marks = || peers.iter().map(|(address, _)| applied(address)).collect::<Vec<_>>();
        let mut body = BytesMut::new();
        let mut told = 0;
        let mut before = marks();
        let cluster = self.cluster.load_full();
        for read in 1..=READS_MAX {
            body.clear();
            told = 0;
            let wall = self.clock.now();
            // A key that has moved since it was marked is another's to speak of.
            let is_own = |dirty: &&Dirty| cluster.view.owner(dirty.key.as_key()) == Member::Own;
            for dirty in keys.iter().filter(is_own) {
                if let Some(news) = news_of(&self.store, dirty, &self.rules, wall) {
                    message::encode(1, &convert::news(dirty, &news), &mut body);
                    told += 1;
                }
            }
            let after = marks();
            let quiet = before == after && after.iter().flatten().all(|(_, quiet)| *quiet);
            // Of a read that was disturbed to the last, the earlier marks are what it surely includes.
            if quiet || read == READS_MAX {
                break;
            }
            before = after;
        }
        let started = StdInstant::now();
        let mut sends = JoinSet::new();
        let round = self
            .tracing
            .as_ref()
            .filter(|_| told > 0)
            .and_then(|tracing| Some((tracing, tracing.broadcast()?)));
        for ((address, sequence), mark) in peers.into_iter().zip(before) {
            let peer = cluster.at(&address).cloned();
            if told == 0 {
                globals.broadcast().succeeded(&address, sequence, self.shared.now());
                continue;
            }
            let stamp = Stamp { session: globals.session, sequence };
            let tail = pb::UpdatePeerGlobalsReq {
                globals: Vec::new(),
                stamp: Some(convert::stamp(&self.advertise_address, stamp)),
                applied: mark.map(|(applied, _)| convert::stamp("", applied)),
            };
            let mut message = BytesMut::with_capacity(body.len() + 128);
            message.extend_from_slice(&body);
            message.extend_from_slice(&tail.encode_to_vec());
            globals.counts.keys_told.fetch_add(told, Relaxed);
            globals.counts.bytes_told.fetch_add(message.len() as u64, Relaxed);
            let span = round.as_ref().map(|(tracing, round)| tracing.news(round, &address, told as usize));
            sends.spawn(Arc::clone(&self).tell_one(peer, address, sequence, message.freeze(), span));
        }
        while sends.join_next().await.is_some() {}
        let now = StdInstant::now();
        globals.counts.rounds.fetch_add(1, Relaxed);
        globals.counts.round_time.record(now - started, 1, now);
        globals.wake.notify_one();
    }

    async fn tell_one(
        self: Arc<Self>,
        peer: Option<Arc<Peer>>,
        address: Box<str>,
        sequence: u64,
        message: Bytes,
        span: Option<PlainSpan>,
    ) {
        let globals = &self.globals;
        let told = match peer.filter(|peer| peer.is_up()) {
            Some(peer) => {
                let _turn = globals.broadcasts.acquire().await;
                let timeout = self.shared.settings.global_timeout;
                let method = Method::UpdatePeerGlobals;
                let answer =
                    peer.call::<pb::UpdatePeerGlobalsResp>(method, message, timeout, PeerError::rpc_error);
                answer.await.map(drop)
            }
            None => Err(PeerError::not_sent("the peer is down or gone")),
        };
        if let (Some(span), Err(error)) = (span, &told) {
            span.failed(&error.rpc_error());
        }
        let now = self.shared.now();
        match told {
            Ok(()) => globals.broadcast().succeeded(&address, sequence, now),
            // It cannot make sense of this message: another time it will not either.
            Err(error)
                if matches!(error.code, Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented) =>
            {
                globals.counts.broadcast_errors.fetch_add(1, Relaxed);
                globals.broadcast().succeeded(&address, sequence, now);
            }
            Err(_) => {
                globals.counts.broadcast_errors.fetch_add(1, Relaxed);
                globals.broadcast().failed(&address, sequence, now);
            }
        }
        globals.wake.notify_one();
    }

    fn count(&self, note: impl FnOnce(&mut Tally)) {
        let mut tally = Tally::default();
        note(&mut tally);
        self.metrics.slot().add(&tally);
    }
}
