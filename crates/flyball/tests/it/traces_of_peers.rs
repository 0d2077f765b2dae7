//! Spans of items that go to other nodes, of answers from copies, and of broadcasts.

use flyball::{CallContext, PeerInfo, TraceLevel, TraceParent, Unreachable, pb};
use opentelemetry::trace::{SpanId, Status, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};

use crate::cluster::{GLOBAL, Member, NO_BATCHING, eventually, introduce, key_of, member_with, quick};
use crate::common::{ask, item};
use crate::traces::{exceptions, text, traceparent};

/// A node whose spans are exported to `exporter`; it opens none by itself, or all.
async fn traced(exporter: &InMemorySpanExporter, level: TraceLevel, roots: Sampler) -> Member {
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .with_sampler(Sampler::ParentBased(Box::new(roots)))
        .build();
    let settings = |settings: &mut flyball::Settings| {
        quick(settings);
        settings.cluster.unreachable = Unreachable::Error;
    };
    member_with(settings, |builder| builder.tracer(provider.tracer("flyball"), level)).await
}

/// Two nodes, and a key of the second.
async fn pair(exporter: &InMemorySpanExporter, level: TraceLevel, roots: Sampler) -> (Vec<Member>, String) {
    let members = vec![traced(exporter, level, roots.clone()).await, traced(exporter, level, roots).await];
    introduce(&members).await;
    let key = key_of(&members, 1).await;
    exporter.reset();
    (members, key)
}

async fn get(member: &Member, flags: &str, items: Vec<pb::RateLimitReq>) -> Vec<pb::RateLimitResp> {
    let mut headers = http::HeaderMap::new();
    headers.insert("traceparent", traceparent(flags).parse().unwrap());
    let context = CallContext { trace: TraceParent::from_headers(&headers), ..CallContext::default() };
    member.node.get_rate_limits(ask(items), context).await.unwrap().responses
}

fn named<'s>(spans: &'s [SpanData], name: &str) -> Vec<&'s SpanData> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_item_has_a_span_for_its_way_and_the_owners_is_below_it() {
    let exporter = InMemorySpanExporter::default();
    let (members, key) = pair(&exporter, TraceLevel::Info, Sampler::AlwaysOff).await;
    let alone = pb::RateLimitReq { behavior: NO_BATCHING, ..item(&key) };
    get(&members[0], "01", vec![item(&key), alone]).await;
    let spans = exporter.get_finished_spans().unwrap();
    let server = named(&spans, "pb.gubernator.V1/GetRateLimits")[0];
    let (requests, sends) = (named(&spans, "V1Instance.asyncRequest"), named(&spans, "PeerClient.sendBatch"));
    let locals = named(&spans, "V1Instance.getLocalRateLimit");
    assert_eq!((requests.len(), sends.len(), locals.len()), (2, 2, 2), "{spans:?}");
    for request in &requests {
        assert_eq!(request.parent_span_id, server.span_context.span_id());
        assert_eq!(
            (text(request, "ratelimit.key"), text(request, "ratelimit.name")),
            (key.clone(), "n".into())
        );
        assert_eq!(request.status, Status::Unset);
        assert!(text(request, "file").contains("src/trace/") && text(request, "log.level") == "INFO");
        let below = |spans: &[&SpanData], parent: &SpanData| -> SpanId {
            let is_below = |span: &&&SpanData| span.parent_span_id == parent.span_context.span_id();
            let [one] = spans.iter().filter(is_below).collect::<Vec<_>>()[..] else {
                panic!("not one: {spans:?}")
            };
            assert_eq!(one.span_context.trace_id(), server.span_context.trace_id());
            one.span_context.span_id()
        };
        let send = below(&sends, request);
        let send = sends.iter().find(|span| span.span_context.span_id() == send).unwrap();
        below(&locals, send);
    }
    let mut links: Vec<_> = sends.iter().map(|send| send.links.iter().count()).collect();
    links.sort_unstable();
    assert_eq!(links, [0, 1], "who goes alone has a link");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forward_that_fails_says_so_on_its_spans() {
    let exporter = InMemorySpanExporter::default();
    let (members, key) = pair(&exporter, TraceLevel::Info, Sampler::AlwaysOff).await;
    // Nobody listens there.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    members[0].node.set_peers(vec![PeerInfo::new(closed.to_string())]).await;
    exporter.reset();
    let answer = get(&members[0], "01", vec![item(&key)]).await.remove(0);
    assert!(answer.error.contains("connection refused"), "{answer:?}");
    let spans = exporter.get_finished_spans().unwrap();
    for name in ["V1Instance.asyncRequest", "PeerClient.sendBatch"] {
        let span = named(&spans, name)[0];
        assert!(matches!(span.status, Status::Error { .. }), "{span:?}");
        assert!(exceptions(span)[0].contains("connection refused"), "{span:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_and_broadcasts_have_spans() {
    let exporter = InMemorySpanExporter::default();
    let (members, key) = pair(&exporter, TraceLevel::Info, Sampler::AlwaysOn).await;
    get(&members[0], "01", vec![pb::RateLimitReq { behavior: GLOBAL, ..item(&key) }]).await;
    eventually("the owner has told", || async {
        !named(&exporter.get_finished_spans().unwrap(), "globalManager.broadcastPeers").is_empty()
    })
    .await;
    let spans = exporter.get_finished_spans().unwrap();
    let server = named(&spans, "pb.gubernator.V1/GetRateLimits")[0];
    let copy = named(&spans, "V1Instance.getGlobalRateLimit")[0];
    assert_eq!(copy.parent_span_id, server.span_context.span_id());
    assert_eq!((text(copy, "ratelimit.key"), text(copy, "ratelimit.name")), (key, "n".into()));
    let round = named(&spans, "globalManager.broadcastPeers")[0];
    assert_eq!(round.parent_span_id, SpanId::INVALID);
    let told = named(&spans, "PeerClient.UpdatePeerGlobals")[0];
    assert_eq!(told.parent_span_id, round.span_context.span_id());
    assert_eq!((text(told, "peer"), text(told, "item_count")), (members[0].address.clone(), "1".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_of_what_is_not_sampled_or_not_wanted() {
    for (level, flags, left) in [
        (TraceLevel::Debug, "00", 0),
        // The calls themselves, and the owner's part of them.
        (TraceLevel::Error, "01", 1),
    ] {
        let exporter = InMemorySpanExporter::default();
        let (members, key) = pair(&exporter, level, Sampler::AlwaysOff).await;
        let global = pb::RateLimitReq { behavior: GLOBAL, ..item(&key) };
        get(&members[0], flags, vec![item(&key), global]).await;
        eventually("the owner has counted both", || async {
            let look = pb::RateLimitReq { hits: 0, ..item(&key) };
            get(&members[1], "00", vec![look]).await[0].remaining == 8
        })
        .await;
        let spans = exporter.get_finished_spans().unwrap();
        assert_eq!(spans.len(), left, "{spans:?}");
    }
}
