//! Spans, as an SDK exports them.

use std::net::SocketAddr;

use flyball::{CallContext, Node, Semantics, TraceLevel, TraceParent, pb};
use opentelemetry::Value;
use opentelemetry::trace::{SpanId, SpanKind, Status, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use tonic::transport::server::TcpConnectInfo;

use crate::common::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

struct Traced {
    node: Node,
    exporter: InMemorySpanExporter,
}

fn traced(level: TraceLevel, sampler: Sampler) -> Traced {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .with_sampler(Sampler::ParentBased(Box::new(sampler)))
        .build();
    let node = Node::builder()
        .settings(settings(Semantics::Exact))
        .clock(clock())
        .tracer(provider.tracer("flyball"), level)
        .build();
    Traced { node, exporter }
}

impl Traced {
    /// What was exported since the last look, in the order in which it ended.
    fn spans(&self) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().unwrap();
        self.exporter.reset();
        spans
    }
}

pub(crate) fn attribute(span: &SpanData, key: &str) -> Option<Value> {
    span.attributes.iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value.clone())
}

pub(crate) fn text(span: &SpanData, key: &str) -> String {
    attribute(span, key).map_or_else(|| panic!("{} has no {key}", span.name), |value| value.to_string())
}

pub(crate) fn exceptions(span: &SpanData) -> Vec<String> {
    let message = |event: &opentelemetry::trace::Event| {
        assert_eq!(event.name, "exception");
        event.attributes[0].value.to_string()
    };
    span.events.iter().map(message).collect()
}

pub(crate) fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

#[tokio::test]
async fn a_call_is_a_server_span_in_its_callers_trace_and_each_item_a_child() {
    let traced = traced(TraceLevel::Info, Sampler::AlwaysOff);
    let parent = traceparent("01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "vendor=x")];
    let mut unknown = item("bad");
    unknown.algorithm = 7;
    call(&traced.node, GET, &headers, &ask(vec![item("a"), unknown])).await.decode::<pb::GetRateLimitsResp>();

    let spans = traced.spans();
    let [first, second, server] = &spans[..] else { panic!("three spans, not {}", spans.len()) };
    assert_eq!(
        (server.name.as_ref(), &server.span_kind),
        ("pb.gubernator.V1/GetRateLimits", &SpanKind::Server)
    );
    assert_eq!(server.span_context.trace_id().to_string(), TRACE);
    assert_eq!(server.parent_span_id.to_string(), PARENT);
    assert_eq!(server.span_context.trace_state().get("vendor"), Some("x"));
    for (key, value) in [
        ("rpc.system", "grpc"),
        ("rpc.service", "pb.gubernator.V1"),
        ("rpc.method", "GetRateLimits"),
        ("rpc.grpc.status_code", "0"),
        ("item.count", "2"),
        ("log.level", "INFO"),
    ] {
        assert_eq!(text(server, key), value);
    }
    let error = "Error while apply rate limit for 'n_bad': during workerPool.GetRateLimit: Invalid rate limit \
                 algorithm '7'";
    // An item's error is told on the server span, which is fine otherwise.
    assert_eq!(exceptions(server), [error]);
    assert_eq!(server.status, Status::Unset);

    for child in [first, second] {
        assert_eq!(
            (child.name.as_ref(), &child.span_kind),
            ("V1Instance.getLocalRateLimit", &SpanKind::Internal)
        );
        assert_eq!(child.parent_span_id, server.span_context.span_id());
        assert_eq!(child.span_context.trace_id(), server.span_context.trace_id());
        assert_eq!(text(child, "log.level"), "INFO");
        assert!(text(child, "file").contains("src/trace/"));
    }
    for (key, value) in [
        ("ratelimit.key", "a"),
        ("ratelimit.name", "n"),
        ("ratelimit.limit", "10"),
        ("ratelimit.hits", "1"),
        ("ratelimit.duration", "60000"),
    ] {
        assert_eq!(text(first, key), value);
    }
    assert_eq!((exceptions(first), &first.status), (vec![], &Status::Unset));
    assert_eq!(exceptions(second), ["Invalid rate limit algorithm '7'"]);
    assert_eq!(second.status, Status::error("Invalid rate limit algorithm '7'"));
}

#[tokio::test]
async fn an_unsampled_caller_leaves_no_span() {
    let traced = traced(TraceLevel::Debug, Sampler::AlwaysOn);
    let parent = traceparent("00");
    call(&traced.node, GET, &[("traceparent", &parent)], &ask(vec![item("a")])).await;
    assert!(traced.spans().is_empty());
    // Without a caller's trace the sampler decides, and a broken header is no header.
    for broken in ["", "00-zz-00-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"] {
        call(&traced.node, GET, &[("traceparent", broken)], &ask(vec![item("a")])).await;
        let spans = traced.spans();
        assert_eq!(spans.len(), 2, "{broken}");
        assert_eq!(spans[1].parent_span_id, SpanId::INVALID);
    }
}

#[tokio::test]
async fn level_error_shows_calls_only() {
    let traced = traced(TraceLevel::Error, Sampler::AlwaysOn);
    call(&traced.node, GET, &[], &ask(vec![item("a"), item("")])).await;
    let spans = traced.spans();
    assert_eq!(spans.len(), 1);
    assert_eq!(exceptions(&spans[0]), ["field 'unique_key' cannot be empty"]);
}

#[tokio::test]
async fn a_forwarded_item_belongs_to_its_own_trace() {
    let traced = traced(TraceLevel::Info, Sampler::AlwaysOff);
    let with = |key: &str, metadata: Option<String>| {
        let mut item = item(key);
        item.metadata = metadata.map(|parent| ("traceparent".to_owned(), parent)).into_iter().collect();
        item
    };
    let items = vec![
        with("sampled", Some(traceparent("01"))),
        with("unsampled", Some(traceparent("00"))),
        with("none", None),
    ];
    call(
        &traced.node,
        PEER_GET,
        &[],
        &pb::GetPeerRateLimitsReq { requests: items.clone(), ..Default::default() },
    )
    .await;
    // The peer's call itself is not sampled here.
    let spans = traced.spans();
    assert_eq!(spans.len(), 1);
    assert_eq!(text(&spans[0], "ratelimit.key"), "sampled");
    assert_eq!(spans[0].parent_span_id.to_string(), PARENT);
    // A client's metadata is its own business.
    call(&traced.node, GET, &[], &ask(items)).await;
    assert!(traced.spans().is_empty());
}

#[tokio::test]
async fn failed_calls_say_why() {
    let traced = traced(TraceLevel::Info, Sampler::AlwaysOn);
    call(&traced.node, GET, &[], &ask(vec![item("a"); 1_001])).await;
    call_raw(&traced.node, GET, &[], frame(&[0x09], false)).await;
    traced.node.close().await;
    call(&traced.node, LIVE, &[], &pb::LiveCheckReq {}).await;
    let spans = traced.spans();
    let seen: Vec<_> = spans
        .iter()
        .map(|span| (text(span, "rpc.grpc.status_code"), span.status.clone(), exceptions(span).len()))
        .collect();
    let too_many = Status::error("Requests.RateLimits list too large; max size is '1000'");
    assert_eq!(seen[0], ("11".to_owned(), too_many, 1));
    assert_eq!(seen[1].0, "13");
    assert_eq!(seen[2], ("14".to_owned(), Status::error("server is shutting down"), 1));
    assert_eq!(spans[2].name, "pb.gubernator.V1/LiveCheck");
}

#[tokio::test]
async fn the_callers_address_and_health_are_told() {
    let traced = traced(TraceLevel::Info, Sampler::AlwaysOn);
    let peer: SocketAddr = "192.0.2.7:5555".parse().unwrap();
    let mut request = post(HEALTH, &[], http_body_util::Full::new(frame(&[], false)));
    request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr: Some(peer) });
    send(traced.node.v1_service(), request).await.decode::<pb::HealthCheckResp>();
    let spans = traced.spans();
    assert_eq!(text(&spans[0], "net.sock.peer.addr"), "192.0.2.7");
    assert_eq!(text(&spans[0], "net.sock.peer.port"), "5555");
    assert_eq!(text(&spans[0], "health.status"), "healthy");
    assert_eq!(text(&spans[0], "health.peerCount"), "1");
}

#[tokio::test]
async fn calls_over_http_are_traced_by_their_headers() {
    let traced = traced(TraceLevel::Error, Sampler::AlwaysOff);
    let mut headers = http::HeaderMap::new();
    headers.insert("traceparent", traceparent("01").parse().unwrap());
    let context = CallContext { trace: TraceParent::from_headers(&headers), ..CallContext::default() };
    traced.node.get_rate_limits(ask(vec![item("a")]), context).await.unwrap();
    let spans = traced.spans();
    assert_eq!(spans[0].parent_span_id.to_string(), PARENT);
    assert_eq!(text(&spans[0], "item.count"), "1");
}
