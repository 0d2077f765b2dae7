//! Spans of calls and items, for a tracer that was given to the node. Without one, a call costs one
//! comparison here and allocates nothing.
//!
//! Every call is a server span whose parent is the caller's. Items get spans of their own only inside a
//! sampled call: a thousand spans that the SDK throws away are not free. Items that a peer forwarded are the
//! exception: each belongs to its own client's trace and carries it in its metadata, so each is judged by
//! that trace's flag. The SDK that exports spans is not known here, only OpenTelemetry's API.
//!
//! Rejected: the `tracing` crate's spans with a bridge. They go through a global subscriber, and two nodes in
//! one process must be able to report to two places.

mod peers;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use flyball_core::{Answer, Request};
use opentelemetry::global::{BoxedSpan, BoxedTracer, ObjectSafeTracer};
use opentelemetry::trace::{
    Span, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};
use tonic::Code;

use crate::method::Method;
pub(crate) use peers::{ForwardSpan, PlainSpan};

/// The trace a call belongs to, as its caller told in the W3C headers. None by default.
#[derive(Clone, Debug, Default)]
pub struct TraceParent(Option<SpanContext>);

impl TraceParent {
    /// Reads `traceparent` and `tracestate` from HTTP headers or gRPC metadata, which travels as headers.
    /// Anything malformed counts as absent, as the W3C recommendation asks.
    pub fn from_headers(headers: &http::HeaderMap) -> Self {
        Self::parse(|name| headers.get(name)?.to_str().ok())
    }

    /// Reads the same two entries from the metadata of a forwarded item.
    pub(crate) fn from_metadata(metadata: &BTreeMap<String, String>) -> Self {
        if metadata.is_empty() {
            return Self::default();
        }
        Self::parse(|name| metadata.get(name).map(String::as_str))
    }

    fn parse<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self(get("traceparent").and_then(|parent| parse_parent(parent, get("tracestate"))))
    }

    fn context(&self) -> Context {
        match &self.0 {
            Some(remote) => Context::new().with_remote_span_context(remote.clone()),
            None => Context::new(),
        }
    }
}

/// `version "-" trace id "-" parent id "-" flags`, lowercase hexadecimal. Later versions may append fields.
fn parse_parent(parent: &str, state: Option<&str>) -> Option<SpanContext> {
    let mut fields = parent.trim().split('-');
    let mut hex = |digits: usize| {
        let field = fields.next()?;
        let well_formed =
            field.len() == digits && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        well_formed.then_some(field)
    };
    let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    if version == "ff" || (version == "00" && fields.next().is_some()) {
        return None;
    }
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED,
        true,
        state.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default(),
    );
    context.is_valid().then_some(context)
}

/// How much of a sampled call is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceLevel {
    /// Only the server span of each call.
    Error,
    /// A span for each item as well.
    #[default]
    Info,
    /// Calls to peers as well.
    Debug,
}

/// A tracer and how much to tell it.
pub(crate) struct Tracing {
    tracer: BoxedTracer,
    level: TraceLevel,
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Tracing {
    pub(crate) fn new(tracer: Box<dyn ObjectSafeTracer + Send + Sync>, level: TraceLevel) -> Self {
        Self { tracer: BoxedTracer::new(tracer), level }
    }

    /// Opens the span of a call, or nothing when the call is not sampled.
    pub(crate) fn server(
        &self,
        method: Method,
        parent: &TraceParent,
        peer: Option<SocketAddr>,
    ) -> Option<ServerSpan> {
        let mut attributes = vec![
            level_info(),
            KeyValue::new("rpc.system", "grpc"),
            KeyValue::new("rpc.service", method.service()),
            KeyValue::new("rpc.method", method.name()),
        ];
        if let Some(peer) = peer {
            attributes.push(KeyValue::new("net.sock.peer.addr", peer.ip().to_string()));
            attributes.push(KeyValue::new("net.sock.peer.port", i64::from(peer.port())));
        }
        let builder = SpanBuilder::from_name(method.span_name())
            .with_kind(SpanKind::Server)
            .with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, &parent.context());
        span.is_recording().then(|| ServerSpan(span))
    }

    /// Opens the span of one item, or nothing when its trace is not sampled.
    pub(crate) fn item(
        &self,
        request: &Request<'_>,
        metadata: Option<&BTreeMap<String, String>>,
        server: Option<&ServerSpan>,
    ) -> Option<ItemSpan> {
        if self.level < TraceLevel::Info {
            return None;
        }
        let forwarded = metadata.and_then(|metadata| TraceParent::from_metadata(metadata).0);
        let parent = forwarded.or_else(|| server.map(|server| server.0.span_context().clone()))?;
        if !parent.is_sampled() {
            return None;
        }
        let builder = SpanBuilder::from_name("V1Instance.getLocalRateLimit").with_attributes([
            level_info(),
            source(concat!(file!(), ":", line!())),
            KeyValue::new("ratelimit.key", request.key.unique_key.to_owned()),
            KeyValue::new("ratelimit.name", request.key.name.to_owned()),
            KeyValue::new("ratelimit.limit", request.limit),
            KeyValue::new("ratelimit.hits", request.hits),
            KeyValue::new("ratelimit.duration", request.duration),
        ]);
        let context = Context::new().with_remote_span_context(parent);
        Some(ItemSpan(self.tracer.build_with_context(builder, &context)))
    }
}

/// The span of a sampled call.
pub(crate) struct ServerSpan(BoxedSpan);

impl ServerSpan {
    pub(crate) fn set_items(&mut self, count: usize) {
        self.0.set_attribute(KeyValue::new("item.count", i64::try_from(count).unwrap_or(i64::MAX)));
    }

    pub(crate) fn set_health(&mut self, status: &str, peers: i32) {
        self.0.set_attribute(KeyValue::new("health.status", status.to_owned()));
        self.0.set_attribute(KeyValue::new("health.peerCount", i64::from(peers)));
    }

    /// An item got an error; the call itself is still fine.
    pub(crate) fn item_failed(&mut self, error: &str) {
        self.0.add_event("exception", vec![KeyValue::new("exception.message", error.to_owned())]);
    }

    pub(crate) fn finish(mut self, code: Code, error: Option<&str>) {
        self.0.set_attribute(KeyValue::new("rpc.grpc.status_code", i64::from(code as i32)));
        if let Some(error) = error {
            self.item_failed(error);
        }
        if code != Code::Ok {
            self.0.set_status(Status::error(error.unwrap_or_default().to_owned()));
        }
        self.0.end();
    }
}

/// The span of one item.
pub(crate) struct ItemSpan(BoxedSpan);

impl ItemSpan {
    pub(crate) fn finish(mut self, answer: &Answer) {
        if let Err(error) = answer {
            self.0.record_error(error);
            self.0.set_status(Status::error(error.to_string()));
        }
        self.0.end();
    }
}

/// The original marks every span with the level at which it is shown.
fn level_info() -> KeyValue {
    KeyValue::new("log.level", "INFO")
}

/// Every span but a server's tells where it is made.
fn source(position: &'static str) -> KeyValue {
    KeyValue::new("file", position)
}
