//! Spans of what a node does with others: an item on its way to the owner, an answer from a copy, a round of news.
//!
//! An item that is forwarded has two: `asyncRequest` for the whole way, and below it `sendBatch`, whose context travels in
//! the item's metadata, so that the owner's spans are its children. Each item has its own pair, whatever travels with
//! it.

use opentelemetry::trace::Link;

use super::*;

/// An item on its way to its owner. Ends when dropped, well unless [`failed`](Self::failed) was told.
pub(crate) struct ForwardSpan {
    // The inner one first: spans end in the order in which they are dropped.
    send: BoxedSpan,
    request: BoxedSpan,
}

impl ForwardSpan {
    pub(crate) fn failed(mut self, error: &str) {
        // As the server span is told of items' errors.
        let message = KeyValue::new("exception.message", error.to_owned());
        for span in [&mut self.send, &mut self.request] {
            span.add_event("exception", vec![message.clone()]);
            span.set_status(Status::error(error.to_owned()));
        }
    }

    /// What the owner's spans are children of.
    fn context(&self) -> &SpanContext {
        self.send.span_context()
    }
}

/// Anything else that is told of others. Ends when dropped.
pub(crate) struct PlainSpan(BoxedSpan);

impl PlainSpan {
    pub(crate) fn failed(mut self, error: &str) {
        let message = KeyValue::new("exception.message", error.to_owned());
        self.0.add_event("exception", vec![message]);
        self.0.set_status(Status::error(error.to_owned()));
    }
}

impl Tracing {
    /// Opens the spans of an item that goes to a peer, if the call is sampled, and writes into the item's metadata which
    /// trace it belongs to. `alone`: it does not wait for a batch.
    pub(crate) fn forward(
        &self,
        server: &ServerSpan,
        item: &mut flyball_proto::pb::RateLimitReq,
        alone: bool,
    ) -> Option<ForwardSpan> {
        if self.level < TraceLevel::Info {
            inject(server.0.span_context(), &mut item.metadata);
            return None;
        }
        let parent = server.0.span_context().clone();
        let request = self.child("V1Instance.asyncRequest", parent, named(&item.unique_key, &item.name));
        let parent = request.span_context().clone();
        // What goes alone has its own parent as a link too: the original's way to tell the two apart.
        let link = alone.then(|| Link::with_context(parent.clone()));
        let context = Context::new().with_remote_span_context(parent);
        let builder = SpanBuilder::from_name("PeerClient.sendBatch")
            .with_attributes([level_info(), source(concat!(file!(), ":", line!()))])
            .with_links(link.into_iter().collect());
        let span = ForwardSpan { send: self.tracer.build_with_context(builder, &context), request };
        inject(span.context(), &mut item.metadata);
        Some(span)
    }

    /// Opens the span of an item that is answered from a copy, if the call is sampled.
    pub(crate) fn replica(&self, server: Option<&ServerSpan>, request: &Request<'_>) -> Option<PlainSpan> {
        let server = server.filter(|_| self.level >= TraceLevel::Info)?;
        let parent = server.0.span_context().clone();
        let attributes = named(request.key.unique_key, request.key.name);
        Some(PlainSpan(self.child("V1Instance.getGlobalRateLimit", parent, attributes)))
    }

    /// Opens the span of a round of news, a trace of its own, if the tracer samples it.
    pub(crate) fn broadcast(&self) -> Option<PlainSpan> {
        if self.level < TraceLevel::Info {
            return None;
        }
        let builder = SpanBuilder::from_name("globalManager.broadcastPeers").with_attributes([level_info()]);
        let span = self.tracer.build_with_context(builder, &Context::new());
        span.is_recording().then_some(PlainSpan(span))
    }

    /// Opens the span of one message of a round.
    pub(crate) fn news(&self, round: &PlainSpan, peer: &str, items: usize) -> PlainSpan {
        let items = i64::try_from(items).unwrap_or(i64::MAX);
        let attributes = vec![KeyValue::new("peer", peer.to_owned()), KeyValue::new("item_count", items)];
        PlainSpan(self.child("PeerClient.UpdatePeerGlobals", round.0.span_context().clone(), attributes))
    }

    fn child(&self, name: &'static str, parent: SpanContext, mut attributes: Vec<KeyValue>) -> BoxedSpan {
        attributes.extend([level_info(), source(concat!(file!(), ":", line!()))]);
        let builder = SpanBuilder::from_name(name).with_attributes(attributes);
        self.tracer.build_with_context(builder, &Context::new().with_remote_span_context(parent))
    }
}

fn named(unique_key: &str, name: &str) -> Vec<KeyValue> {
    vec![
        KeyValue::new("ratelimit.key", unique_key.to_owned()),
        KeyValue::new("ratelimit.name", name.to_owned()),
    ]
}

/// Writes a context into the metadata of an item that goes to a peer, as W3C headers would say it.
fn inject(context: &SpanContext, metadata: &mut BTreeMap<String, String>) {
    let flags = context.trace_flags().to_u8();
    let parent = format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id());
    metadata.insert("traceparent".to_owned(), parent);
    let state = context.trace_state().header();
    if !state.is_empty() {
        metadata.insert("tracestate".to_owned(), state);
    }
}
