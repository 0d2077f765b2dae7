//! One call on its way through the node: who asks and until when, and the books that are kept about it.

use std::net::SocketAddr;

use tokio::time::Instant;
use tonic::Code;

use crate::error::CallError;
use crate::method::Method;
use crate::metrics::counters::{Sample, Slot};
use crate::metrics::{Metrics, Step};
use crate::trace::{ServerSpan, TraceParent, Tracing};

/// What a caller says besides its request. The default is no deadline and no trace.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// When the caller stops waiting. Items that are not reached by then get an error and are not applied.
    pub deadline: Option<Instant>,
    /// The trace the call belongs to. Looked at only by a node with a tracer.
    pub trace: TraceParent,
}

impl CallContext {
    /// The deadline is here.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Counts, times and traces one call from beginning to end.
///
/// The end is [`finish`](Self::finish), or being dropped when the caller goes away first; so each call is
/// counted exactly once, whatever becomes of its future.
pub(crate) struct Call<'a> {
    metrics: &'a Metrics,
    slot: &'a Slot,
    method: Method,
    pub(crate) sample: Option<Sample>,
    pub(crate) span: Option<ServerSpan>,
    code: Code,
}

impl<'a> Call<'a> {
    /// Begins a call. `trace` is asked only when there is a tracer.
    #[inline]
    pub(crate) fn begin(
        metrics: &'a Metrics,
        tracing: Option<&Tracing>,
        method: Method,
        trace: impl FnOnce() -> (TraceParent, Option<SocketAddr>),
    ) -> Self {
        let slot = metrics.slot();
        let span = tracing.and_then(|tracing| {
            let (parent, peer) = trace();
            tracing.server(method, &parent, peer)
        });
        Self { metrics, slot, method, sample: slot.start(method), span, code: Code::Cancelled }
    }

    /// The whole call up to here was this step.
    #[inline]
    pub(crate) fn step(&self, step: Step) {
        if let Some(sample) = self.sample {
            self.metrics.step_took(step, sample.started.elapsed(), sample.weight);
        }
    }

    /// Ends a call that got an answer or an error.
    #[inline]
    pub(crate) fn finish<T>(mut self, result: Result<T, CallError>) -> Result<T, CallError> {
        match &result {
            Ok(_) => self.close(Code::Ok, None),
            Err(error) => self.close(error.code(), Some(&error.to_string())),
        }
        result
    }

    /// Ends a call with a status.
    pub(crate) fn close(&mut self, code: Code, error: Option<&str>) {
        self.code = code;
        if let Some(span) = self.span.take() {
            span.finish(code, error);
        }
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.finish(self.method, self.code == Code::Ok);
        if let Some(sample) = self.sample {
            self.metrics.call_took(self.method, sample);
        }
        if let Some(span) = self.span.take() {
            span.finish(self.code, None);
        }
    }
}
