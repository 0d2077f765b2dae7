//! What a caller of the gRPC services sees, down to the texts.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use flyball::{CallContext, CallError, Node, Semantics, pb};
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tonic::Code;

use crate::common::*;

const MIB: usize = 1_048_576;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// A request of exactly this many bytes with one item.
fn request_of(bytes: usize) -> pb::GetRateLimitsReq {
    let mut request = ask(vec![item("k")]);
    let pad = |length| [("pad".to_owned(), "x".repeat(length))].into();
    request.requests[0].metadata = pad(bytes - 200);
    let missing = bytes - request.encoded_len();
    request.requests[0].metadata = pad(bytes - 200 + missing);
    assert_eq!(request.encoded_len(), bytes);
    request
}

#[tokio::test]
async fn items_are_answered_in_order() {
    let node = node();
    let mut leaky = item("leaky");
    leaky.algorithm = 1;
    let request = ask(vec![item("a"), leaky, item("a")]);
    let answer: pb::GetRateLimitsResp = call(&node, GET, &[], &request).await.decode();
    let remaining: Vec<i64> = answer.responses.iter().map(|response| response.remaining).collect();
    assert_eq!(remaining, [9, 9, 8]);
    assert!(answer.responses.iter().all(|response| response.error.is_empty() && response.limit == 10));
    assert_eq!(answer.responses[0].reset_time, NOW.ms() + 60_000);
}

#[tokio::test]
async fn an_empty_list_gets_an_empty_answer() {
    let node = node();
    let answer: pb::GetRateLimitsResp = call(&node, GET, &[], &ask(vec![])).await.decode();
    assert!(answer.responses.is_empty());
    let answer: pb::GetPeerRateLimitsResp =
        call(&node, PEER_GET, &[], &pb::GetPeerRateLimitsReq::default()).await.decode();
    assert!(answer.rate_limits.is_empty());
}

#[tokio::test]
async fn a_thousand_items_are_taken_and_one_more_is_not() {
    let node = node();
    let answer: pb::GetRateLimitsResp = call(&node, GET, &[], &ask(vec![item("k"); 1_000])).await.decode();
    assert_eq!(answer.responses.len(), 1_000);
    assert_eq!(answer.responses[9].remaining, 0);
    assert_eq!(answer.responses[10].status(), pb::Status::OverLimit);

    let too_many = vec![item("other"); 1_001];
    let reply = call(&node, GET, &[], &ask(too_many.clone())).await;
    let text = "Requests.RateLimits list too large; max size is '1000'";
    assert_eq!(reply.error(), (Code::OutOfRange, text));
    let reply =
        call(&node, PEER_GET, &[], &pb::GetPeerRateLimitsReq { requests: too_many, ..Default::default() })
            .await;
    let text = "'PeerRequest.rate_limits' list too large; max size is '1000'";
    assert_eq!(reply.error(), (Code::OutOfRange, text));

    // Nothing of a refused call was applied.
    let answer: pb::GetRateLimitsResp = call(&node, GET, &[], &ask(vec![item("other")])).await.decode();
    assert_eq!(answer.responses[0].remaining, 9);
}

#[tokio::test]
async fn a_mebibyte_is_taken_and_one_byte_more_is_not() {
    // With exact semantics an item of this size has an error of its own.
    let node = Node::builder().settings(settings(Semantics::Gubernator)).clock(clock()).build();
    let answer: pb::GetRateLimitsResp = call(&node, GET, &[], &request_of(MIB)).await.decode();
    assert_eq!(answer.responses[0].remaining, 9);
    let text = "grpc: received message larger than max (1048577 vs. 1048576)";
    let reply = call(&node, GET, &[], &request_of(MIB + 1)).await;
    assert_eq!(reply.error(), (Code::ResourceExhausted, text));
    let peers = pb::GetPeerRateLimitsReq { requests: request_of(MIB + 1).requests, ..Default::default() };
    let reply = call(&node, PEER_GET, &[], &peers).await;
    assert_eq!(reply.error(), (Code::ResourceExhausted, text));
    // The prefix alone is enough to be refused, whatever follows.
    let reply = call_raw(&node, GET, &[], Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff])).await;
    let text = "grpc: received message larger than max (4294967295 vs. 1048576)";
    assert_eq!(reply.error(), (Code::ResourceExhausted, text));
}

#[tokio::test]
async fn the_limit_also_holds_for_callers_in_process() {
    let node = node();
    let error = node.get_rate_limits(request_of(MIB + 1), CallContext::default()).await.unwrap_err();
    assert_eq!(error, CallError::MessageTooLarge(MIB + 1));
    assert_eq!(error.http_status().as_u16(), 429);
    let globals = pb::UpdatePeerGlobal { key: "k".repeat(MIB), ..Default::default() };
    let request = pb::UpdatePeerGlobalsReq { globals: vec![globals], ..Default::default() };
    let error = node.update_peer_globals(request, CallContext::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn gzip_is_read_and_the_limit_counts_what_it_unpacks_to() {
    // With exact semantics an item of this size has an error of its own.
    let node = Node::builder().settings(settings(Semantics::Gubernator)).clock(clock()).build();
    let headers = [("grpc-encoding", "gzip")];
    let packed = |request: &pb::GetRateLimitsReq| frame(&gzip(&request.encode_to_vec()), true);
    let reply = call_raw(&node, GET, &headers, packed(&request_of(MIB))).await;
    assert_eq!(reply.decode::<pb::GetRateLimitsResp>().responses[0].remaining, 9);

    let text = "grpc: received message after decompression larger than max 1048576";
    let reply = call_raw(&node, GET, &headers, packed(&request_of(MIB + 1))).await;
    assert_eq!(reply.error(), (Code::ResourceExhausted, text));
    // 64 MiB in 64 KiB.
    let reply = call_raw(&node, GET, &headers, frame(&gzip(&vec![0; 64 * MIB]), true)).await;
    assert_eq!(reply.error(), (Code::ResourceExhausted, text));
    let reply = call_raw(&node, GET, &headers, frame(b"this is not gzip", true)).await;
    assert_eq!(reply.code, Code::Internal);
    // A call may name gzip and still send plain messages.
    let plain = frame(&ask(vec![item("k")]).encode_to_vec(), false);
    assert_eq!(call_raw(&node, GET, &headers, plain).await.code, Code::Ok);
}

#[tokio::test]
async fn other_compressions_are_named_in_the_refusal() {
    let node = node();
    for path in [GET, PEER_UPDATE] {
        let reply = call(&node, path, &[("grpc-encoding", "snappy")], &ask(vec![item("k")])).await;
        let text = "grpc: Decompressor is not installed for grpc-encoding \"snappy\"";
        assert_eq!(reply.error(), (Code::Unimplemented, text));
        assert_eq!(reply.headers["grpc-accept-encoding"], "gzip,identity");
    }
    let reply = call(&node, GET, &[("grpc-encoding", "identity")], &ask(vec![item("k")])).await;
    assert_eq!(reply.decode::<pb::GetRateLimitsResp>().responses[0].remaining, 9);
}

#[tokio::test]
async fn what_is_no_message_is_an_internal_error() {
    let node = node();
    // Truncated length, wrong wire type, invalid UTF-8, group nesting without end.
    let deep = [0x0b; 4_096];
    let bad: [&[u8]; 4] = [&[0x0a, 0x05, 0x01], &[0x09], &[0x0a, 0x03, 0x0a, 0x01, 0xff], &deep];
    for payload in bad {
        let reply = call_raw(&node, GET, &[], frame(payload, false)).await;
        assert_eq!(reply.code, Code::Internal);
        assert!(reply.message.starts_with("grpc: error unmarshalling request: "), "{}", reply.message);
    }
    // A message that ends too early, and none at all.
    for body in [Bytes::from_static(&[0, 0, 0, 0, 9, 1]), Bytes::new()] {
        assert_eq!(call_raw(&node, GET, &[], body).await.code, Code::Internal);
    }
}

#[tokio::test]
async fn unknown_services_and_methods_are_named() {
    let node = node();
    let cases = [
        ("/pb.gubernator.V1/Nope", "unknown method Nope for service pb.gubernator.V1"),
        ("/pb.gubernator.V1/getratelimits", "unknown method getratelimits for service pb.gubernator.V1"),
        ("/pb.gubernator.V1/", "unknown method  for service pb.gubernator.V1"),
        ("/pb.gubernator.PeersV1/X", "unknown method X for service pb.gubernator.PeersV1"),
        ("/pb.gubernator.V2/GetRateLimits", "unknown service pb.gubernator.V2"),
        ("/a/b/c", "unknown service a/b"),
        // There are no queries in gRPC.
        (
            "/pb.gubernator.V1/GetRateLimits?x=1",
            "unknown method GetRateLimits?x=1 for service pb.gubernator.V1",
        ),
        ("/pb.gubernator.PeersV1/X?", "unknown method X? for service pb.gubernator.PeersV1"),
        ("/pb.gubernator.V1/GetRateLimits?a/b", "unknown service pb.gubernator.V1/GetRateLimits?a"),
        ("/nothing", "malformed method name: \"/nothing\""),
    ];
    for (path, text) in cases {
        let reply = call(&node, path, &[], &ask(vec![])).await;
        assert_eq!(reply.error(), (Code::Unimplemented, text), "{path}");
    }
}

#[tokio::test]
async fn what_is_no_grpc_call_is_refused_by_http_status_too() {
    let node = node();
    let body = frame(&ask(vec![item("k")]).encode_to_vec(), false);
    let refused = async |method: &str, path: &str, content_type: Option<&str>| {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(http_body_util::Full::new(body.clone())).unwrap();
        send(flyball::grpc::routes(&node), request).await
    };
    for path in [GET, PEER_GET, "/pb.gubernator.V1/Nope", "/nobody/Nothing"] {
        for method in ["GET", "PUT"] {
            let reply = refused(method, path, Some("application/grpc")).await;
            let text = format!("Received a HEADERS frame with :method \"{method}\" which should be POST");
            assert_eq!((reply.http_status, reply.error()), (405, (Code::Internal, text.as_str())), "{path}");
        }
        for bad in ["", "text/plain", "application/json", "application/grpc-web", "application/grpcx"] {
            let reply = refused("POST", path, Some(bad)).await;
            let text = format!("invalid gRPC request content-type {bad:?}");
            let expected = (415, (Code::InvalidArgument, text.as_str()));
            assert_eq!((reply.http_status, reply.error()), expected, "{path}");
        }
        // The type is looked at first.
        let reply = refused("GET", path, None).await;
        let text = "invalid gRPC request content-type \"\"";
        assert_eq!((reply.http_status, reply.error()), (415, (Code::InvalidArgument, text)));
    }
    assert!(!node.metrics().render().contains("gubernator_grpc_request_counts{"), "no call, so not counted");
    for good in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
        assert_eq!(refused("POST", GET, Some(good)).await.error(), (Code::Ok, ""), "{good}");
    }
}

#[tokio::test]
async fn a_deadline_that_has_passed_applies_nothing() {
    let node = node();
    let late = (Code::DeadlineExceeded, "context deadline exceeded");
    for path in [GET, PEER_GET] {
        let reply = call(&node, path, &[("grpc-timeout", "0n")], &ask(vec![item("k")])).await;
        assert_eq!(reply.error(), late);
    }
    let reply =
        call(&node, PEER_UPDATE, &[("grpc-timeout", "0n")], &pb::UpdatePeerGlobalsReq::default()).await;
    assert_eq!(reply.error(), late);
    let deadline = Some(tokio::time::Instant::now());
    let context = CallContext { deadline, ..CallContext::default() };
    let error = node.get_rate_limits(ask(vec![item("k")]), context).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str(), error.http_status().as_u16()),
        (late.0, late.1, 504)
    );

    let reply = call(&node, GET, &[("grpc-timeout", "10S")], &ask(vec![item("k")])).await;
    assert_eq!(reply.decode::<pb::GetRateLimitsResp>().responses[0].remaining, 9);
    let reply = call(&node, GET, &[("grpc-timeout", "99999999H")], &ask(vec![item("k")])).await;
    assert_eq!(reply.decode::<pb::GetRateLimitsResp>().responses[0].remaining, 8);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_also_ends_a_call_whose_body_never_comes() {
    let body = StreamBody::new(tokio_stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
    let started = tokio::time::Instant::now();
    let reply = send(node().v1_service(), post(GET, &[("grpc-timeout", "100m")], body.boxed())).await;
    assert_eq!(reply.error(), (Code::DeadlineExceeded, "context deadline exceeded"));
    assert!(started.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn a_timeout_that_cannot_be_read_is_refused() {
    for value in ["5x", "soon", "-1S", "123456789S", ""] {
        let reply = call(&node(), GET, &[("grpc-timeout", value)], &ask(vec![item("k")])).await;
        assert_eq!(reply.code, Code::Internal);
        assert!(reply.message.starts_with("malformed grpc-timeout: "), "{}", reply.message);
        assert_eq!(reply.http_status, 400);
    }
}

#[tokio::test]
async fn item_errors_read_as_clients_know_them() {
    let node = node();
    let with = |change: fn(&mut pb::RateLimitReq)| {
        let mut item = item("k");
        change(&mut item);
        item
    };
    let cases = [
        (with(|item| item.unique_key.clear()), "field 'unique_key' cannot be empty"),
        (with(|item| item.name.clear()), "field 'namespace' cannot be empty"),
        (with(|item| item.max_wait = -1), "field 'max_wait' cannot be negative"),
        (with(|item| item.max_wait = 1), "max_wait is only supported by LEAKY_BUCKET"),
        (
            with(|item| {
                item.max_wait = 1;
                item.algorithm = 1;
                item.behavior = 2;
            }),
            "max_wait cannot be combined with GLOBAL",
        ),
        (with(|item| item.limit = -1), "field 'limit' cannot be negative"),
        (with(|item| item.unique_key = "k".repeat(4_096)), "name and unique_key exceed 4096 bytes"),
        (
            with(|item| item.algorithm = 7),
            "Error while apply rate limit for 'n_k': during workerPool.GetRateLimit: Invalid rate limit \
             algorithm '7'",
        ),
        (
            with(|item| {
                item.behavior = 4;
                item.duration = 9;
            }),
            "Error while apply rate limit for 'n_k': during workerPool.GetRateLimit: Error in tokenBucket: \
             behavior DURATION_IS_GREGORIAN is set; but `Duration` is not a valid gregorian interval",
        ),
    ];
    let mut items: Vec<_> = cases.iter().map(|(item, _)| item.clone()).collect();
    items.push(item("fine"));
    let answer: pb::GetRateLimitsResp = call(&node, GET, &[], &ask(items)).await.decode();
    for ((_, text), response) in cases.iter().zip(&answer.responses) {
        let expected = pb::RateLimitResp { error: (*text).to_owned(), ..Default::default() };
        assert_eq!(response, &expected);
    }
    assert_eq!(answer.responses[cases.len()].remaining, 9);
}

#[tokio::test]
async fn peers_are_not_asked_for_names_and_get_their_own_words() {
    let node = node();
    let mut nameless = item("");
    nameless.name.clear();
    let mut unknown = item("k");
    unknown.algorithm = -3;
    let mut global = item("g");
    (global.behavior, global.hits) = (2, 11);
    let mut waiting = item("w");
    (waiting.behavior, waiting.algorithm, waiting.max_wait) = (2, 1, 5);
    let request =
        pb::GetPeerRateLimitsReq { requests: vec![nameless, unknown, global, waiting], ..Default::default() };
    let answer: pb::GetPeerRateLimitsResp = call(&node, PEER_GET, &[], &request).await.decode();
    let [nameless, unknown, global, waiting] = &answer.rate_limits[..] else { panic!("four answers") };
    assert_eq!((nameless.remaining, nameless.error.as_str()), (9, ""));
    let text =
        "Error in getLocalRateLimit: during workerPool.GetRateLimit: Invalid rate limit algorithm '-3'";
    assert_eq!(unknown.error, text);
    // A peer's GLOBAL hits drain what is left.
    assert_eq!((global.status(), global.remaining), (pb::Status::OverLimit, 0));
    assert_eq!(waiting.error, "max_wait cannot be combined with GLOBAL");
}

#[tokio::test]
async fn a_refused_check_is_told_when_to_come_back() {
    let refused = |node: Node| async move {
        let request = ask(vec![item("k"); 11]);
        let answer: pb::GetRateLimitsResp = call(&node, GET, &[], &request).await.decode();
        answer.responses[10].clone()
    };
    let exact = refused(node()).await;
    assert_eq!(exact.status(), pb::Status::OverLimit);
    assert_eq!(exact.metadata, [("retry_after_ms".to_owned(), "60000".to_owned())].into());
    assert_eq!(exact.retry_after, 0);
    let same = Node::builder().settings(settings(Semantics::Gubernator)).clock(clock()).build();
    let gubernator = refused(same).await;
    assert_eq!(gubernator.status(), pb::Status::OverLimit);
    assert!(gubernator.metadata.is_empty());
}

#[tokio::test]
async fn broadcasts_are_taken_over_and_those_without_status_skipped() {
    let node = node();
    let said =
        pb::RateLimitResp { limit: 10, remaining: 3, reset_time: NOW.ms() + 9_000, ..Default::default() };
    let update = |key: &str, status| pb::UpdatePeerGlobal {
        key: key.to_owned(),
        status,
        duration: 60_000,
        ..Default::default()
    };
    let request = pb::UpdatePeerGlobalsReq {
        globals: vec![update("n_a", Some(said)), update("n_b", None)],
        ..Default::default()
    };
    call(&node, PEER_UPDATE, &[], &request).await.decode::<pb::UpdatePeerGlobalsResp>();
    let answer: pb::GetRateLimitsResp =
        call(&node, GET, &[], &ask(vec![item("a"), item("b")])).await.decode();
    assert_eq!((answer.responses[0].remaining, answer.responses[0].reset_time), (2, NOW.ms() + 9_000));
    assert_eq!(answer.responses[1].remaining, 9);
}

#[tokio::test]
async fn a_node_alone_is_healthy_until_it_closes() {
    let node = node();
    let health: pb::HealthCheckResp = call(&node, HEALTH, &[], &pb::HealthCheckReq {}).await.decode();
    let own = pb::PeerHealthResp { grpc_address: "10.0.0.1:1051".to_owned(), data_center: "dc-a".to_owned() };
    let expected = pb::HealthCheckResp {
        status: "healthy".to_owned(),
        message: String::new(),
        peer_count: 1,
        advertise_address: "10.0.0.1:1051".to_owned(),
        local_peers: vec![own],
        region_peers: vec![],
    };
    assert_eq!(health, expected);
    assert_eq!(node.health().unwrap(), expected);
    call(&node, LIVE, &[], &pb::LiveCheckReq {}).await.decode::<pb::LiveCheckResp>();
    assert!(node.is_ready());

    node.drain();
    assert!(!node.is_ready());
    assert_eq!(node.health().unwrap(), expected, "only readiness is about draining");
    node.live().unwrap();

    node.close().await;
    let closing = (Code::Unavailable, "server is shutting down");
    assert_eq!(call(&node, HEALTH, &[], &pb::HealthCheckReq {}).await.error(), closing);
    assert_eq!(call(&node, LIVE, &[], &pb::LiveCheckReq {}).await.error(), closing);
    assert_eq!(node.live().unwrap_err().http_status().as_u16(), 503);
    assert!(!node.is_ready());
    // Callers that are still connected get their answers while they are drained.
    assert_eq!(call(&node, GET, &[], &ask(vec![item("k")])).await.code, Code::Ok);
}
