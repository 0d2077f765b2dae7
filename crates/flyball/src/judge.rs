//! Items that this node decides: one after the other or each shard locked once, and everything that follows a decision.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use flyball_core::store::Role;
use flyball_core::{Algorithm, Answer, Behavior, Check, Key, Request, Source, Status, Timestamp};
use flyball_proto::convert;
use flyball_proto::pb;

use crate::call::{Call, CallContext};
use crate::error::CallError;
use crate::metrics::counters::{ErrorKind, Tally};
use crate::metrics::{Metrics, Step};
use crate::service::Inner;
use crate::trace::{ServerSpan, Tracing};

/// Items between two looks at the caller's deadline.
pub(crate) const DEADLINE_EVERY: usize = 64;

impl Inner {
    /// Judges items that this node owns, with everything that follows: spans, the keys refused most, marks for the next
    /// broadcast. `None` for those that were left over because the caller was late.
    pub(crate) fn judge_all<'i>(
        &self,
        count: usize,
        item: impl Fn(usize) -> &'i pb::RateLimitReq,
        judged: Judged<'_>,
        context: &CallContext,
        call: &Call<'_>,
    ) -> Vec<Option<Answer>> {
        let request = |index: usize| convert::request(item(index));
        let (source, now) = (judged.source, judged.now);
        let answers = match &self.tracing {
            None => self.apply_all(count, request, judged, || context.is_late()),
            Some(tracing) => {
                let one = |index: usize| {
                    let late = index > 0 && index.is_multiple_of(DEADLINE_EVERY) && context.is_late();
                    (!late).then(|| {
                        let (tally, server) = (&mut *judged.tally, call.span.as_ref());
                        self.apply_traced(tracing, &request(index), item(index), source, now, tally, server)
                    })
                };
                // Who is late once is late for the rest.
                let mut answers: Vec<_> = (0..count).map_while(one).map(Some).collect();
                answers.resize(count, None);
                answers
            }
        };
        let refused =
            answers.iter().enumerate().filter_map(|(index, answer)| refusal(&request(index), answer));
        self.metrics.top_refused().refused(now, refused);
        self.mark(count, request, |index| matches!(answers[*index], Some(Ok(_))), source, now);
        answers
    }

    /// Tells everybody of GLOBAL hits that were counted here: all of these requests for which `counted` holds.
    fn mark<'r>(
        &self,
        count: usize,
        request: impl Fn(usize) -> Request<'r>,
        counted: impl Fn(&usize) -> bool,
        source: Source,
        now: Timestamp,
    ) {
        let forced = source == Source::Client && self.rules.force_global;
        let is_global = |index: &usize| {
            let request = request(*index);
            request.hits != 0 && (forced || request.behavior.has(Behavior::GLOBAL)) && counted(index)
        };
        let mut marked = (0..count).filter(is_global).peekable();
        if marked.peek().is_none() {
            return;
        }
        let mut due = false;
        let mut broadcast = self.globals.broadcast();
        for index in marked {
            if let Ok(admitted) = self.rules.admit(&request(index), source, now) {
                due |= broadcast.mark(&admitted.check, self.shared.now());
            }
        }
        drop(broadcast);
        if due {
            self.globals.wake.notify_one();
        }
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

/// An item that was not reached before its caller's deadline.
pub(crate) fn too_late(tally: &mut Tally) -> pb::RateLimitResp {
    tally.error(ErrorKind::Timeout);
    convert::item_error(format!("Error while iterating request items: {}", CallError::DeadlineExceeded))
}

/// Key and hits of an item over the limit.
pub(crate) fn refusal<'r>(request: &Request<'r>, answer: &Option<Answer>) -> Option<(Key<'r>, i64)> {
    let over = matches!(answer, Some(Ok(decision)) if decision.status == Status::OverLimit);
    (over && request.hits > 0).then_some((request.key, request.hits))
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

    pub(crate) fn record(&self, metrics: &Metrics, tally: &Tally, weight: u64) {
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
