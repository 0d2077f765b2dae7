//! What each method of the wire answers: the node's parts and the walk through a call.
//!
//! A call reads the clock once, so all its items are judged at the same moment, and takes them in order. A
//! check is a locked shard and a pure function: no task, no channel, no await.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use flyball_core::store::{Role, Store, StoredKey};
use flyball_core::time::Clock;
use flyball_core::{Algorithm, Answer, Check, Key, Request, Rules, Source, Status, Timestamp};
use flyball_proto::convert::{self, Update};
use flyball_proto::pb;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ITEMS_MAX;
use crate::call::{Call, CallContext};
use crate::error::CallError;
use crate::intake::Intake;
use crate::metrics::counters::{ErrorKind, Tally};
use crate::metrics::{Metrics, Step};
use crate::trace::{ServerSpan, Tracing};

/// Items between two looks at the caller's deadline.
const DEADLINE_EVERY: usize = 64;

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
    /// Set once; from then on the node asks not to be sent more.
    pub(crate) draining: AtomicBool,
    pub(crate) closing: CancellationToken,
    pub(crate) _stop: DropGuard,
}

impl Inner {
    pub(crate) fn get_rate_limits(
        &self,
        request: &pb::GetRateLimitsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<pb::GetRateLimitsResp, CallError> {
        let items = &request.requests;
        let responses = self.items(items, Source::Client, context, call, CallError::TooManyItems)?;
        call.step(Step::GetRateLimits);
        Ok(pb::GetRateLimitsResp { responses })
    }

    pub(crate) fn get_peer_rate_limits(
        &self,
        request: &pb::GetPeerRateLimitsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<pb::GetPeerRateLimitsResp, CallError> {
        let items = &request.requests;
        let rate_limits = self.items(items, Source::Peer, context, call, CallError::TooManyPeerItems)?;
        call.step(Step::GetPeerRateLimits);
        Ok(pb::GetPeerRateLimitsResp { rate_limits })
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
        let now = self.clock.now();
        let mut tally = Tally::default();
        for item in &request.globals {
            match convert::update(item, now) {
                Some(Update::Replace(key, bucket)) => {
                    self.store.insert(StoredKey::Joined(key), bucket, now);
                    tally.updates += 1;
                }
                Some(Update::Forget(key)) => {
                    self.store.remove(StoredKey::Joined(key));
                    tally.updates += 1;
                }
                None => tally.updates_skipped += 1,
            }
        }
        self.metrics.slot().add(&tally);
        call.step(Step::UpdatePeerGlobals);
        Ok(pb::UpdatePeerGlobalsResp {})
    }

    pub(crate) fn health(&self, call: &mut Call<'_>) -> Result<pb::HealthCheckResp, CallError> {
        if self.closing.is_cancelled() {
            return Err(CallError::ShuttingDown);
        }
        let own = pb::PeerHealthResp {
            grpc_address: self.advertise_address.clone(),
            data_center: self.data_center.clone(),
        };
        let answer = pb::HealthCheckResp {
            status: "healthy".to_owned(),
            message: String::new(),
            peer_count: 1,
            advertise_address: self.advertise_address.clone(),
            local_peers: vec![own],
            region_peers: Vec::new(),
        };
        if let Some(span) = &mut call.span {
            span.set_health(&answer.status, answer.peer_count);
        }
        Ok(answer)
    }

    pub(crate) fn live(&self) -> Result<pb::LiveCheckResp, CallError> {
        if self.closing.is_cancelled() { Err(CallError::ShuttingDown) } else { Ok(pb::LiveCheckResp {}) }
    }

    /// All items of a call, in order, at one moment.
    fn items(
        &self,
        items: &[pb::RateLimitReq],
        source: Source,
        context: &CallContext,
        call: &mut Call<'_>,
        too_many: CallError,
    ) -> Result<Vec<pb::RateLimitResp>, CallError> {
        let mut tally = Tally::default();
        if let Some(span) = &mut call.span {
            span.set_items(items.len());
        }
        let refusal = if items.len() > ITEMS_MAX {
            Some((ErrorKind::RequestTooLarge, too_many))
        } else if context.is_late() {
            Some((ErrorKind::Timeout, CallError::DeadlineExceeded))
        } else {
            None
        };
        if let Some((kind, error)) = refusal {
            tally.error(kind);
            self.metrics.slot().add(&tally);
            return Err(error);
        }
        let now = self.clock.now();
        let mut times = call.sample.map(|_| ItemTimes::default());
        let request = |index: usize| convert::request(&items[index]);
        let answers = match &self.tracing {
            None => {
                let judged = Judged { source, now, tally: &mut tally, times: times.as_mut() };
                self.apply_all(items.len(), request, judged, || context.is_late())
            }
            Some(tracing) => {
                let mut one = |(index, item): (usize, &pb::RateLimitReq)| {
                    let late = index > 0 && index.is_multiple_of(DEADLINE_EVERY) && context.is_late();
                    (!late).then(|| {
                        let server = call.span.as_ref();
                        self.apply_traced(tracing, &request(index), item, source, now, &mut tally, server)
                    })
                };
                // Who is late once is late for the rest.
                let mut answers: Vec<_> =
                    items.iter().enumerate().map_while(|it| one(it).map(Some)).collect();
                answers.resize(items.len(), None);
                answers
            }
        };
        self.metrics.top_refused().refused(now, refusals(items, &answers));
        let mut responses = Vec::with_capacity(items.len());
        for (item, answer) in items.iter().zip(&answers) {
            let response = match answer {
                Some(answer) => convert::answer(answer, convert::request(item).key, source),
                None => {
                    tally.error(ErrorKind::Timeout);
                    convert::item_error(format!(
                        "Error while iterating request items: {}",
                        CallError::DeadlineExceeded
                    ))
                }
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
        Ok(responses)
    }

    /// One item: no await, one shard locked for as long as it takes to decide.
    #[inline]
    pub(crate) fn apply(
        &self,
        request: &Request<'_>,
        source: Source,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Answer {
        self.judge(request, source, now, tally, |check| {
            self.store.apply(check, now, &self.rules, Role::Owner)
        })
    }

    #[inline]
    fn judge(
        &self,
        request: &Request<'_>,
        source: Source,
        now: Timestamp,
        tally: &mut Tally,
        apply: impl FnOnce(&Check<'_>) -> Answer,
    ) -> Answer {
        let answer = self.rules.admit(request, source, now).and_then(|admitted| {
            tally.clamped += u64::from(admitted.clamped);
            let decision = apply(&admitted.check)?;
            match admitted.check.algorithm {
                Algorithm::TokenBucket => tally.token += 1,
                Algorithm::LeakyBucket => tally.leaky += 1,
            }
            Ok(decision)
        });
        if let Err(error) = answer {
            tally.error(error.into());
        }
        answer
    }

    /// Many items, each shard locked once. `None` for those that were left over because the caller was late.
    pub(crate) fn apply_all<'r>(
        &self,
        count: usize,
        request: impl Fn(usize) -> Request<'r>,
        mut judged: Judged<'_>,
        is_late: impl Fn() -> bool,
    ) -> Vec<Option<Answer>> {
        let mut answers = vec![None; count];
        let mut done = 0;
        self.store.visit(
            count,
            |index| request(index).key,
            |index, mut bucket| {
                if done > 0 && done % DEADLINE_EVERY == 0 && is_late() {
                    return ControlFlow::Break(());
                }
                done += 1;
                let request = request(index);
                let started = judged.times.as_mut().and_then(|times| times.start(request.algorithm));
                answers[index] =
                    Some(self.judge(&request, judged.source, judged.now, judged.tally, |check| {
                        bucket.apply(check, judged.now, &self.rules, Role::Owner)
                    }));
                if let (Some(times), Some(started)) = (judged.times.as_mut(), started) {
                    times.stop(request.algorithm, started);
                }
                ControlFlow::Continue(())
            },
        );
        answers
    }

    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn apply_traced(
        &self,
        tracing: &Tracing,
        request: &Request<'_>,
        item: &pb::RateLimitReq,
        source: Source,
        now: Timestamp,
        tally: &mut Tally,
        server: Option<&ServerSpan>,
    ) -> Answer {
        // A client's own metadata is not a parent; a peer's is.
        let metadata = (source == Source::Peer).then_some(&item.metadata);
        let span = tracing.item(request, metadata, server);
        let answer = self.apply(request, source, now, tally);
        if let Some(span) = span {
            span.finish(&answer);
        }
        answer
    }
}

/// Keys and hits of the items over the limit.
fn refusals<'i>(
    items: &'i [pb::RateLimitReq],
    answers: &'i [Option<Answer>],
) -> impl Iterator<Item = (Key<'i>, i64)> + Clone {
    let over = |answer: &Option<Answer>| matches!(answer, Some(Ok(it)) if it.status == Status::OverLimit);
    let refused = items.iter().zip(answers).filter(move |(item, answer)| item.hits > 0 && over(answer));
    refused.map(|(item, _)| (convert::request(item).key, item.hits))
}

/// How the items of a call are judged, and where that is noted.
pub(crate) struct Judged<'a> {
    pub(crate) source: Source,
    pub(crate) now: Timestamp,
    pub(crate) tally: &'a mut Tally,
    pub(crate) times: Option<&'a mut ItemTimes>,
}

/// Of a sampled call, how long the first item of each algorithm took; it stands for the others.
#[derive(Debug, Default)]
pub(crate) struct ItemTimes {
    token: Option<Duration>,
    leaky: Option<Duration>,
}

impl ItemTimes {
    fn slot(&mut self, algorithm: i32) -> &mut Option<Duration> {
        if algorithm == 0 { &mut self.token } else { &mut self.leaky }
    }

    fn start(&mut self, algorithm: i32) -> Option<Instant> {
        self.slot(algorithm).is_none().then(Instant::now)
    }

    fn stop(&mut self, algorithm: i32, started: Instant) {
        *self.slot(algorithm) = Some(started.elapsed());
    }

    fn record(&self, metrics: &Metrics, tally: &Tally, weight: u64) {
        for (took, step, items) in
            [(self.token, Step::TokenBucket, tally.token), (self.leaky, Step::LeakyBucket, tally.leaky)]
        {
            if let (Some(took), 1..) = (took, items) {
                metrics.step_took(step, took, weight * items);
                metrics.step_took(Step::LocalRateLimit, took, weight * items);
            }
        }
    }
}
