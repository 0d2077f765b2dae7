//! What each method of the wire answers: the node's parts and the walk through a call.
//!
//! A call reads the clock once, so all its items are judged at the same moment. A check that this node may decide is a
//! locked shard and a pure function: no task, no channel, no await. What belongs to others is in `forward.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwap;
use flyball_core::algorithm::Bucket;
use flyball_core::cluster::{Member, Seen, Stamp, Told, take_news};
use flyball_core::store::{Store, StoredKey};
use flyball_core::time::Clock;
use flyball_core::{Rules, Source, Timestamp};
use flyball_proto::answers::Answers;
use flyball_proto::convert::{self, Update};
use flyball_proto::pb;
use tokio_util::sync::CancellationToken;

use crate::ITEMS_MAX;
use crate::call::{Call, CallContext};
use crate::error::CallError;
use crate::fallback::Fallback;
use crate::global::Globals;
use crate::intake::Intake;
use crate::judge::{ItemTimes, Judged, too_late};
use crate::membership::{Changes, Cluster};
use crate::metrics::counters::{ErrorKind, Tally};
use crate::metrics::{Metrics, Step};
use crate::peer_source::Report;
use crate::peers::guard::Guard;
use crate::peers::peer::PeerShared;
use crate::trace::Tracing;

/// A node's parts.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) advertise_address: String,
    pub(crate) data_center: String,
    pub(crate) rules: Rules,
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) intake: Intake,
    pub(crate) tracing: Option<Tracing>,
    /// Who there is; a call takes it once.
    pub(crate) cluster: ArcSwap<Cluster>,
    /// Held while the view changes.
    pub(crate) changing: tokio::sync::Mutex<Changes>,
    pub(crate) shared: Arc<PeerShared>,
    pub(crate) globals: Globals,
    pub(crate) fallback: Arc<Fallback>,
    pub(crate) guard: Arc<Guard>,
    /// Where the sets of peers come from.
    pub(crate) peer_source: Report,
    /// For jitter.
    pub(crate) seed: u64,
    /// Set once; from then on the node asks not to be sent more.
    pub(crate) draining: AtomicBool,
    pub(crate) closing: CancellationToken,
}

impl Inner {
    pub(crate) async fn get_rate_limits(
        &self,
        mut request: pb::GetRateLimitsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<Answers, CallError> {
        let items = &mut request.requests;
        self.admit_call(items.len(), context, call, CallError::TooManyItems)?;
        let cluster = self.cluster.load();
        let refused = |item| {
            let (entries, bytes) = convert::metadata_size(item);
            self.rules.screen_metadata(entries, bytes).is_err()
        };
        let answers = if cluster.view.is_alone() && !items.iter().any(refused) {
            self.own_items(items, Source::Client, context, call).into()
        } else {
            // An owned handle: the guard belongs to this thread, and the call may go on elsewhere.
            let cluster = Arc::clone(&cluster);
            self.items_of_many(cluster, items, context, call).await
        };
        call.step(Step::GetRateLimits);
        Ok(answers)
    }

    pub(crate) fn get_peer_rate_limits(
        &self,
        request: &pb::GetPeerRateLimitsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<pb::GetPeerRateLimitsResp, CallError> {
        let items = &request.requests;
        self.admit_call(items.len(), context, call, CallError::TooManyPeerItems)?;
        let numbered = request.stamp.as_ref().map(|told| {
            let stamp = Stamp { session: told.session, sequence: told.sequence };
            (told, stamp, self.globals.hit_senders().begin(&told.sender, stamp))
        });
        if let Some((told, _, Seen::Before)) = numbered {
            // Counted already; whoever sends GLOBAL hits does not look at the answers.
            self.globals.counts.repeated.fetch_add(1, Relaxed);
            let rate_limits = vec![pb::RateLimitResp::default(); items.len()];
            let stamp = Some(self.counted_by_this_run(told));
            return Ok(pb::GetPeerRateLimitsResp { rate_limits, stamp });
        }
        // What is numbered is applied whole or not at all: its sender takes an answer for all of it, and whatever a
        // deadline left out would be gone.
        let whole = CallContext::default();
        let context = if numbered.is_some() { &whole } else { context };
        let rate_limits = self.own_items(items, Source::Peer, context, call);
        let stamp = match numbered {
            Some((told, stamp, Seen::New)) => {
                self.globals.hit_senders().applied(&told.sender, stamp);
                Some(self.counted_by_this_run(told))
            }
            _ => None,
        };
        call.step(Step::GetPeerRateLimits);
        Ok(pb::GetPeerRateLimitsResp { rate_limits, stamp })
    }

    /// Answers a stamp with this node's own: it would know the batch again, for as long as this run lasts.
    fn counted_by_this_run(&self, told: &pb::PeerStamp) -> pb::PeerStamp {
        let stamp = Stamp { session: self.globals.session(), sequence: told.sequence };
        convert::stamp(&self.advertise_address, stamp)
    }

    pub(crate) fn update_peer_globals(
        &self,
        request: &pb::UpdatePeerGlobalsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<pb::UpdatePeerGlobalsResp, CallError> {
        if let Some(span) = &mut call.span {
            span.set_items(request.globals.len());
        }
        if context.is_late() {
            return Err(CallError::DeadlineExceeded);
        }
        let mut tally = Tally::default();
        self.take_broadcast(request, &mut tally);
        self.metrics.slot().add(&tally);
        call.step(Step::UpdatePeerGlobals);
        Ok(pb::UpdatePeerGlobalsResp {})
    }

    fn take_broadcast(&self, request: &pb::UpdatePeerGlobalsReq, tally: &mut Tally) {
        let now = self.clock.now();
        let cluster = self.cluster.load();
        let sender = request.stamp.as_ref().map(|told| told.sender.as_str());
        let session = self.globals.session();
        let applied = request.applied.as_ref().filter(|applied| applied.session == session);
        // Told by a peer of our own kind, nothing applied means just that.
        let applied = sender.map(|_| applied.map_or(0, |applied| applied.sequence));
        // Held from the number to the last bucket: a later message that came in between would be undone.
        let mut hits = self.globals.hits();
        let is_late = request.stamp.as_ref().is_some_and(|told| {
            let stamp = Stamp { session: told.session, sequence: told.sequence };
            self.globals.news_senders().begin(&told.sender, stamp) == Seen::Before
        });
        if is_late {
            self.globals.counts.stale.fetch_add(1, Relaxed);
            return;
        }
        if let (Some(stamp), Some(sender), Some(applied)) = (&request.stamp, sender, applied) {
            hits.spoke(sender, stamp.session);
            hits.confirmed(sender, applied);
        }
        for item in &request.globals {
            let Some((key, bucket)) = told(item, now) else {
                tally.updates_skipped += 1;
                continue;
            };
            let owner = match key {
                StoredKey::Pair(pair) => cluster.view.owner(pair),
                StoredKey::Joined(text) => cluster.view.owner_of_joined(text),
            };
            let owner = match owner {
                // This node counts for the key: what others think of it is older.
                Member::Own if !cluster.view.is_alone() => {
                    tally.updates_skipped += 1;
                    continue;
                }
                Member::Peer(index) => sender.unwrap_or(&cluster.view.local()[index].grpc_address),
                _ => sender.unwrap_or_default(),
            };
            take_news(&self.store, &hits, Told { owner, key, bucket, applied }, now);
            tally.updates += 1;
        }
    }

    pub(crate) fn health(&self, call: &mut Call<'_>) -> Result<pb::HealthCheckResp, CallError> {
        if self.closing.is_cancelled() {
            return Err(CallError::ShuttingDown);
        }
        let cluster = self.cluster.load();
        let view = &cluster.view;
        let mut problems = Vec::new();
        let now = self.shared.now();
        for peer in cluster.peers() {
            for (text, _) in peer.health().errors(now) {
                let host = peer.address();
                problems.push(format!("error returned from local peer.GetLastErr: from host {host}: {text}"));
            }
        }
        problems.extend(self.peer_source.missing());
        if view.own().is_none() {
            problems.push("this instance is not found in the peer list".to_owned());
        }
        let told = |peers: &[flyball_core::cluster::PeerInfo]| {
            let health = peers.iter().map(|peer| pb::PeerHealthResp {
                grpc_address: peer.grpc_address.clone(),
                data_center: peer.data_center.clone(),
            });
            health.collect::<Vec<_>>()
        };
        let (local_peers, region_peers) = (told(view.local()), told(view.regions()));
        let answer = pb::HealthCheckResp {
            status: if problems.is_empty() { "healthy" } else { "unhealthy" }.to_owned(),
            message: problems.join("|"),
            peer_count: i32::try_from(local_peers.len() + region_peers.len()).unwrap_or(i32::MAX),
            advertise_address: self.advertise_address.clone(),
            local_peers,
            region_peers,
        };
        if let Some(span) = &mut call.span {
            span.set_health(&answer.status, answer.peer_count);
        }
        if problems.is_empty() { Ok(answer) } else { Err(CallError::Unhealthy(answer.message)) }
    }

    pub(crate) fn live(&self) -> Result<pb::LiveCheckResp, CallError> {
        if self.closing.is_cancelled() { Err(CallError::ShuttingDown) } else { Ok(pb::LiveCheckResp {}) }
    }

    /// Whether a call is looked at at all.
    fn admit_call(
        &self,
        items: usize,
        context: &CallContext,
        call: &mut Call<'_>,
        too_many: CallError,
    ) -> Result<(), CallError> {
        if let Some(span) = &mut call.span {
            span.set_items(items);
        }
        let (kind, error) = if items > ITEMS_MAX {
            (ErrorKind::RequestTooLarge, too_many)
        } else if context.is_late() {
            (ErrorKind::Timeout, CallError::DeadlineExceeded)
        } else {
            return Ok(());
        };
        let mut tally = Tally::default();
        tally.error(kind);
        self.metrics.slot().add(&tally);
        Err(error)
    }

    /// All items of a call as their owner, at one moment; those of one key in their order.
    fn own_items(
        &self,
        items: &[pb::RateLimitReq],
        source: Source,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Vec<pb::RateLimitResp> {
        let mut tally = Tally::default();
        let now = self.clock.now();
        let mut times = call.sample.map(|_| ItemTimes::default());
        let judged = Judged { source, now, tally: &mut tally, times: times.as_mut() };
        let answers = self.judge_all(items.len(), |index| &items[index], judged, context, call);
        let mut responses = Vec::with_capacity(items.len());
        for (item, answer) in items.iter().zip(&answers) {
            let response = match answer {
                Some(answer) => convert::answer(answer, convert::request(item).key, source),
                None => too_late(&mut tally),
            };
            if let (Some(span), false) = (&mut call.span, response.error.is_empty()) {
                span.item_failed(&response.error);
            }
            responses.push(response);
        }
        if let (Some(sample), Some(times)) = (call.sample, times) {
            times.record(&self.metrics, &tally, sample.weight);
        }
        self.metrics.slot().add(&tally);
        responses
    }
}

/// What one line of a broadcast says of its key; nothing without a status.
fn told(item: &pb::UpdatePeerGlobal, now: Timestamp) -> Option<(StoredKey<'_>, Option<Bucket>)> {
    if let (Some(_), Some(exact)) = (&item.status, &item.bucket) {
        let (pair, bucket) = convert::exact_bucket(exact);
        return Some((StoredKey::Pair(pair), bucket));
    }
    Some(match convert::update(item, now)? {
        Update::Replace(key, bucket) => (StoredKey::Joined(key), Some(bucket)),
        Update::Forget(key) => (StoredKey::Joined(key), None),
    })
}
