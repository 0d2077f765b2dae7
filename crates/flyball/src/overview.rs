//! Everything about a node at one moment, for somebody who looks at it: the admin page, a command, a test.
//!
//! Plain values, gathered when asked for and bounded in size. Counters are totals since the start: who wants a rate
//! asks twice and divides by the difference of [`Overview::uptime_ms`], which never steps. Like a scrape, it never
//! waits for buckets to expire; numbers of the store are as of the last sweep.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use flyball_core::Semantics;
use flyball_core::cluster::PeerInfo;
use flyball_core::store::StoreStats;

use crate::method::Method;
use crate::metrics::counters::ErrorKind;
use crate::node::Node;
use crate::peer_source::PeerSource;
use crate::peers::peer::Peer;
pub use crate::top_keys::TopKey;

/// The most peers that are listed; [`Overview::peers_total`] tells how many there are.
pub const PEERS_MAX: usize = 1_000;
/// The most keys that are listed.
pub const TOP_MAX: usize = 100;

/// A node at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Overview {
    /// The address under which peers know the node.
    pub advertise_address: String,
    /// Its data center; may be empty.
    pub data_center: String,
    /// Its version.
    pub version: String,
    /// How it judges.
    pub semantics: Semantics,
    /// Whether it wants checks.
    pub ready: bool,
    /// Its clock, Unix milliseconds.
    pub now_ms: i64,
    /// When it was built, by its clock, Unix milliseconds.
    pub started_ms: i64,
    /// Milliseconds since it was built, whatever its clock did.
    pub uptime_ms: u64,
    /// The number of the peer list it goes by; a new list has a larger one.
    pub epoch: u64,
    /// The peers it knows, itself among them, at most [`PEERS_MAX`].
    pub peers: Vec<PeerOverview>,
    /// How many peers it knows.
    pub peers_total: usize,
    /// Who tells it of them; `None` when nobody said.
    pub peer_source: Option<PeerSource>,
    /// What was decided.
    pub checks: ChecksOverview,
    /// Calls by method.
    pub calls: Vec<CallsOverview>,
    /// The keys refused most in the last five to ten minutes, at most [`TOP_MAX`].
    pub top_refused: Vec<TopKey>,
    /// Refused checks that are not in [`Self::top_refused`] because two threads met there.
    pub top_missed: u64,
    /// The exchange of GLOBAL limits.
    pub global: GlobalOverview,
    /// The buckets.
    pub store: StoreOverview,
}

/// Checks since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChecksOverview {
    /// Decided here.
    pub decided: u64,
    /// Of these, token buckets; the others are leaky ones.
    pub token_bucket: u64,
    /// Of these, over the limit, answered as the owner of the key.
    pub refused: u64,
    /// Failed, by cause. Only causes that occurred.
    pub errors: Vec<(&'static str, u64)>,
    /// Answered from a copy of a GLOBAL bucket.
    pub replica: u64,
    /// Handed to the owner of their key.
    pub forwarded: u64,
    /// Answered in the stead of an owner that could not be reached.
    pub fallback: u64,
    /// Calls refused because the unfinished ones hold all the memory they may.
    pub intake_refused: u64,
}

/// Calls of one method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallsOverview {
    /// `GetRateLimits`, `HealthCheck`, …
    pub method: &'static str,
    /// Begun since the start.
    pub started: u64,
    /// Ended well.
    pub succeeded: u64,
    /// Ended otherwise.
    pub failed: u64,
    /// Seconds, of sampled calls of the last five to ten minutes; `None` when there were none.
    pub latency: Option<Latency>,
}

/// How long calls take, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: f64,
    /// Of a hundred, one took longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// What the store holds and what happened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreOverview {
    /// Its own numbers.
    pub stats: StoreStats,
    /// The most bytes it may use.
    pub bytes_max: u64,
    /// The most buckets it may keep, if that is bounded apart from bytes.
    pub entries_max: Option<u64>,
}

/// How a peer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It answers.
    Up,
    /// It does not.
    Down,
    /// It was not asked yet.
    Unknown,
}

impl PeerState {
    /// `up`, `down` or `unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Unknown => "unknown",
        }
    }
}

/// A peer as this node sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerOverview {
    /// Its address, which is its identity.
    pub grpc_address: String,
    /// Its data center; may be empty.
    pub data_center: String,
    /// It is this node.
    pub is_self: bool,
    /// The part of all keys that it owns, 0 to 1.
    pub share: f64,
    /// How it is doing.
    pub state: PeerState,
    /// Since when, Unix milliseconds by this node's clock.
    pub since_ms: i64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// How long ago that was, in milliseconds.
    pub last_error_age_ms: Option<u64>,
    /// Items that wait to be sent to it.
    pub queued: u64,
    /// Items that were sent and are not answered yet.
    pub in_flight: u64,
    /// Calls to it since the start.
    pub calls: u64,
    /// Of these, failed ones.
    pub failures: u64,
    /// Checks it owns that were answered without it.
    pub fallbacks: u64,
}

/// The exchange of GLOBAL limits with peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalOverview {
    /// Keys with hits that their owners lack.
    pub hits_queued_keys: u64,
    /// Keys whose hits are on their way.
    pub hits_in_flight_keys: u64,
    /// Keys whose hits were given up, since the start: nobody knows whether they arrived, or there was no room.
    pub hits_dropped: u64,
    /// Keys whose window ended before their last hits were delivered, since the start. No loss: the new window began
    /// without them anyway.
    pub hits_ended: u64,
    /// Sends of hits, since the start.
    pub sends: u64,
    /// Of these, failed ones.
    pub send_errors: u64,
    /// Keys that peers are yet to be told about.
    pub broadcast_queued_keys: u64,
    /// Broadcasts, since the start.
    pub broadcasts: u64,
    /// Peers that could not be told, since the start.
    pub broadcast_errors: u64,
    /// Items of others' broadcasts that were taken over, since the start.
    pub updates: u64,
}

impl PeerOverview {
    /// A peer nothing is known of.
    fn unknown(info: &PeerInfo, share: f64, since_ms: i64) -> Self {
        Self {
            grpc_address: info.grpc_address.clone(),
            data_center: info.data_center.clone(),
            is_self: false,
            share,
            state: PeerState::Unknown,
            since_ms,
            last_error: None,
            last_error_age_ms: None,
            queued: 0,
            in_flight: 0,
            calls: 0,
            failures: 0,
            fallbacks: 0,
        }
    }
}

impl Node {
    /// How the node is doing, all of it.
    pub fn overview(&self) -> Overview {
        let inner = self.inner();
        let now = inner.clock.now();
        let (started_ms, uptime) = match inner.metrics.started() {
            Some((at, since)) => (at.ms(), Instant::now().saturating_duration_since(since)),
            None => (now.ms(), std::time::Duration::ZERO),
        };
        let store = self.store_overview();
        let mut peers = self.peers();
        let peers_total = peers.len();
        peers.truncate(PEERS_MAX);
        Overview {
            advertise_address: inner.advertise_address.clone(),
            data_center: inner.data_center.clone(),
            version: inner.metrics.version().to_owned(),
            semantics: inner.rules.semantics,
            ready: self.is_ready(),
            now_ms: now.ms(),
            started_ms,
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            epoch: inner.cluster.load().view.epoch(),
            peers,
            peers_total,
            peer_source: inner.peer_source.get(),
            checks: self.checks_overview(&store.stats),
            calls: Method::ALL.map(|method| self.calls_overview(method)).into(),
            top_refused: inner.metrics.top_refused().top(now, TOP_MAX),
            top_missed: inner.metrics.top_refused().missed(),
            global: self.global(),
            store,
        }
    }

    /// The peers, this node among them: first those of the own data center, by address.
    fn peers(&self) -> Vec<PeerOverview> {
        let inner = self.inner();
        let cluster = inner.cluster.load();
        let view = &cluster.view;
        let started_ms = inner.metrics.started().map_or(0, |(at, _)| at.ms());
        let shares = cluster.shares();
        let local = view.local().iter().enumerate().map(|(index, info)| {
            let share = shares.get(index).copied().unwrap_or_default();
            let plain = PeerOverview::unknown(info, share, started_ms);
            match cluster.peer(index) {
                Some(peer) => self.peer(peer, plain),
                None => PeerOverview { is_self: true, state: PeerState::Up, ..plain },
            }
        });
        let far = view.regions().iter().map(|info| PeerOverview::unknown(info, 0.0, started_ms));
        local.chain(far).collect()
    }

    fn peer(&self, peer: &Peer, plain: PeerOverview) -> PeerOverview {
        let inner = self.inner();
        let now = inner.shared.now();
        let ago = |at| now.saturating_since(at).as_millis();
        let (queued, in_flight) = peer.waiting();
        let calls = peer.counts.calls.load(Relaxed);
        let health = peer.health();
        let down_since = health.down_since();
        let last = health.errors(now).next_back();
        PeerOverview {
            state: match down_since {
                Some(_) => PeerState::Down,
                None if calls == 0 => PeerState::Unknown,
                None => PeerState::Up,
            },
            since_ms: down_since.map_or(plain.since_ms, |at| {
                inner.clock.now().ms().saturating_sub(i64::try_from(ago(at)).unwrap_or(i64::MAX))
            }),
            last_error: last.map(|(text, _)| text.to_owned()),
            last_error_age_ms: last.map(|(_, at)| u64::try_from(ago(at)).unwrap_or(u64::MAX)),
            queued: queued as u64,
            in_flight: in_flight as u64,
            calls,
            failures: peer.counts.failures.load(Relaxed),
            fallbacks: peer.counts.fallbacks.load(Relaxed),
            ..plain
        }
    }

    /// The GLOBAL queues.
    fn global(&self) -> GlobalOverview {
        let inner = self.inner();
        let hits = inner.globals.hits().stats();
        let counts = &inner.globals.counts;
        GlobalOverview {
            hits_queued_keys: hits.pending,
            hits_in_flight_keys: hits.under_way,
            hits_dropped: hits.lost + hits.dropped,
            hits_ended: hits.ended,
            sends: counts.sends.load(Relaxed),
            send_errors: counts.send_errors.load(Relaxed),
            broadcast_queued_keys: inner.globals.broadcast().len() as u64,
            broadcasts: counts.rounds.load(Relaxed),
            broadcast_errors: counts.broadcast_errors.load(Relaxed),
            updates: inner.metrics.totals().updates,
        }
    }

    fn store_overview(&self) -> StoreOverview {
        let store = &self.inner().store;
        let (bytes_max, entries_max) = store.bounds();
        StoreOverview {
            stats: store.counted(),
            bytes_max: bytes_max as u64,
            entries_max: entries_max.map(|entries| entries as u64),
        }
    }

    fn checks_overview(&self, stats: &StoreStats) -> ChecksOverview {
        let tally = self.inner().metrics.totals();
        let errors = ErrorKind::ALL.map(|kind| (kind.label(), tally.errors[kind as usize]));
        ChecksOverview {
            decided: tally.token + tally.leaky,
            token_bucket: tally.token,
            refused: stats.over_limit,
            errors: errors.into_iter().filter(|(_, count)| *count > 0).collect(),
            replica: tally.replica,
            forwarded: tally.forwarded,
            fallback: tally.fallback,
            intake_refused: tally.intake_refused,
        }
    }

    fn calls_overview(&self, method: Method) -> CallsOverview {
        let (calls, timing) = self.inner().metrics.calls(method);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|quantile| timing.quantile(quantile));
        CallsOverview {
            method: method.name(),
            started: calls.started,
            succeeded: calls.succeeded,
            failed: calls.failed,
            // Without samples all three are no number.
            latency: p50.is_finite().then_some(Latency { p50, p99, max }),
        }
    }
}
