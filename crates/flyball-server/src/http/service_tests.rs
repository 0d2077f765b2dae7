use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use flyball::{Rules, Semantics, Settings};
use http::HeaderValue;
use http_body::{Frame, SizeHint};
use http_body_util::Full;

use super::*;

fn node(semantics: Semantics) -> Node {
    let rules = Rules { semantics, ..Rules::default() };
    let settings = Settings { rules, advertise_address: "127.0.0.1:1051".into(), ..Settings::default() };
    Node::builder().settings(settings).build()
}

fn service() -> HttpService {
    HttpService::new(node(Semantics::Exact), HttpOptions::default())
}

struct Got {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

async fn got(answer: Answer) -> Got {
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Got { status: head.status.as_u16(), headers: head.headers, body: String::from_utf8(body.into()).unwrap() }
}

async fn ask(service: &HttpService, method: &str, uri: &str, body: impl Into<Bytes>) -> Got {
    ask_with(service, method, uri, &[], body).await
}

async fn ask_with(
    service: &HttpService,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Got {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    got(service.answer(request.body(Full::new(body.into())).unwrap()).await).await
}

fn check(name: &str) -> String {
    format!(r#"{{"requests":[{{"name":"{name}","unique_key":"k","hits":1,"limit":10,"duration":3600000}}]}}"#)
}

#[tokio::test]
async fn a_good_answer_has_every_field_and_the_gateways_headers() {
    let got = ask(&service(), "POST", "/v1/GetRateLimits?x=1", check("n")).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(got.header("grpc-metadata-content-type"), Some("application/grpc"));
    let start = r#"{"responses":[{"status":"UNDER_LIMIT","limit":"10","remaining":"9","reset_time":""#;
    assert!(got.body.starts_with(start), "{}", got.body);
    assert!(got.body.ends_with(r#"","error":"","metadata":{},"retry_after":"0"}]}"#), "{}", got.body);
}

#[tokio::test]
async fn health_live_and_probes() {
    let service = service();
    let health = ask(&service, "GET", "/v1/HealthCheck", "").await;
    assert_eq!(health.status, 200);
    assert_eq!(
        health.body,
        r#"{"status":"healthy","message":"","peer_count":1,"advertise_address":"127.0.0.1:1051","local_peers":[{"grpc_address":"127.0.0.1:1051","data_center":""}],"region_peers":[]}"#
    );
    assert_eq!(ask(&service, "GET", "/v1/LiveCheck", "").await.body, "{}");
    for path in ["/healthz", "/livez", "/readyz"] {
        let got = ask(&service, "GET", path, "").await;
        assert_eq!((got.status, got.body.as_str()), (200, "ok"), "{path}");
    }

    service.node.close().await;
    for path in ["/v1/HealthCheck", "/v1/LiveCheck"] {
        let got = ask(&service, "GET", path, "").await;
        assert_eq!(
            (got.status, got.body.as_str()),
            (503, r#"{"code":14,"message":"server is shutting down","details":[]}"#),
            "{path}"
        );
    }
    for path in ["/healthz", "/livez"] {
        assert_eq!(ask(&service, "GET", path, "").await.status, 200, "{path}");
    }
    let got = ask(&service, "GET", "/readyz", "").await;
    assert_eq!((got.status, got.body.as_str()), (503, "not ready: the node is shutting down"));
}

#[tokio::test]
async fn refusals_of_paths_and_methods() {
    let service = service();
    let unknown = ask(&service, "GET", "/", "").await;
    assert_eq!(
        (unknown.status, unknown.body.as_str()),
        (404, r#"{"code":5,"message":"Not Found","details":[]}"#)
    );
    let method = ask(&service, "GET", "/v1/GetRateLimits", "").await;
    assert_eq!(
        (method.status, method.body.as_str()),
        (501, r#"{"code":12,"message":"Method Not Allowed","details":[]}"#)
    );
    for got in [unknown, method] {
        assert_eq!(got.header("content-type"), Some("application/json"));
        assert_eq!(got.header("grpc-metadata-content-type"), None);
    }
    let malformed = ask(&service, "GET", "/%zz", "").await;
    assert_eq!((malformed.status, malformed.header("connection")), (400, Some("close")));
}

#[tokio::test]
async fn redirects_have_a_page_for_browsers_only() {
    let service = service();
    let got = ask(&service, "GET", "/v1//LiveCheck?a=1&b='2'", "").await;
    assert_eq!((got.status, got.header("location")), (307, Some("/v1/LiveCheck?a=1&b='2'")));
    assert_eq!(got.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(got.body, "<a href=\"/v1/LiveCheck?a=1&amp;b=&#39;2&#39;\">Temporary Redirect</a>.\n\n");
    let got = ask(&service, "POST", "/v1/x/../GetRateLimits", "{}").await;
    assert_eq!((got.status, got.header("location")), (307, Some("/v1/GetRateLimits")));
    assert_eq!((got.body.as_str(), got.header("content-type")), ("", None));
}

#[tokio::test]
async fn bad_bodies_are_refused_whole() {
    let service = service();
    let two = check("n").replace("}]}", r#"},{"hits":"x"}]}"#);
    let got = ask(&service, "POST", "/v1/GetRateLimits", two).await;
    assert_eq!(got.status, 400);
    assert!(got.body.starts_with(r#"{"code":3,"message":"proto: (line 1:"#), "{}", got.body);
    assert!(got.body.contains(r#"invalid value for int64 field hits: \"x\"","details":[]}"#), "{}", got.body);
    let got = ask(&service, "POST", "/v1/GetRateLimits", check("n")).await;
    assert!(got.body.contains(r#""remaining":"9""#), "{}", got.body);
}

#[tokio::test]
async fn enum_names_follow_the_semantics_of_the_node() {
    let body = check("n").replace("\"hits\"", "\"algorithm\":\"leaky\",\"hits\"");
    for (semantics, status) in [(Semantics::Exact, 400), (Semantics::Gubernator, 200)] {
        let service = HttpService::new(node(semantics), HttpOptions::default());
        assert_eq!(ask(&service, "POST", "/v1/GetRateLimits", body.clone()).await.status, status);
    }
}

#[tokio::test]
async fn sizes_count_as_protobuf() {
    let service = service();
    let sized = |name: usize| format!(r#"{{"requests":[{{"name":"{}"}}]}}"#, "n".repeat(name));
    // Three tags and three lengths of three, three and one byte around the name.
    let largest = MESSAGE_BYTES_MAX - 2 * (1 + 3);
    assert_eq!(ask(&service, "POST", "/v1/GetRateLimits", sized(largest)).await.status, 200);
    let got = ask(&service, "POST", "/v1/GetRateLimits", sized(largest + 1)).await;
    assert_eq!(
        (got.status, got.body.as_str()),
        (
            429,
            r#"{"code":8,"message":"grpc: received message larger than max (1048577 vs. 1048576)","details":[]}"#
        )
    );
    let ignored = format!(r#"{{"ignored":"{}"}}"#, "z".repeat(3_000_000));
    assert_eq!(ask(&service, "POST", "/v1/GetRateLimits", ignored).await.body, r#"{"responses":[]}"#);
}

#[tokio::test]
async fn too_many_items_are_too_many_unless_they_are_too_large() {
    let service = service();
    let body = |count: usize, item: &str| format!(r#"{{"requests":[{}]}}"#, vec![item; count].join(","));
    let got = ask(&service, "POST", "/v1/GetRateLimits", body(100_000, "{}")).await;
    let text =
        r#"{"code":11,"message":"Requests.RateLimits list too large; max size is '1000'","details":[]}"#;
    assert_eq!((got.status, got.body.as_str()), (400, text));
    let got = ask(&service, "POST", "/v1/GetRateLimits", body(100_000, r#"{"name":"0123456789"}"#)).await;
    let text =
        r#"{"code":8,"message":"grpc: received message larger than max (1400000 vs. 1048576)","details":[]}"#;
    assert_eq!((got.status, got.body.as_str()), (429, text));
}

#[tokio::test]
async fn the_callers_deadline_counts() {
    let service = service();
    let ask = async |value: &str| {
        ask_with(&service, "POST", "/v1/GetRateLimits", &[("Grpc-Timeout", value)], check("n")).await
    };
    for value in ["10S", "0n", ""] {
        assert_eq!(ask(value).await.status, 200, "{value}");
    }
    let late = ask("-1S").await;
    assert_eq!(
        (late.status, late.body.as_str()),
        (504, r#"{"code":4,"message":"context deadline exceeded","details":[]}"#)
    );
    for path in ["/v1/HealthCheck", "/v1/LiveCheck"] {
        let late = ask_with(&service, "GET", path, &[("Grpc-Timeout", "-1S")], "").await;
        assert_eq!(late.status, 504, "{path}");
        assert_eq!(
            ask_with(&service, "GET", path, &[("Grpc-Timeout", "1H")], "").await.status,
            200,
            "{path}"
        );
    }
    let malformed = ask("abc").await;
    assert_eq!(
        (malformed.status, malformed.body.as_str()),
        (400, r#"{"code":3,"message":"invalid grpc-timeout: abc","details":[]}"#)
    );
    // A call that came too late took nothing.
    assert!(ask("10S").await.body.contains(r#""remaining":"6""#));
}

/// A body that comes in pieces, announces nothing, and after its last piece ends, fails or hangs.
struct Pieces {
    pieces: VecDeque<Bytes>,
    after: After,
}

#[derive(Clone, Copy)]
enum After {
    End,
    Fail,
    Hang,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match (self.pieces.pop_front(), self.after) {
            (Some(piece), _) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            (None, After::End) => Poll::Ready(None),
            (None, After::Fail) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            (None, After::Hang) => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

async fn send(pieces: impl IntoIterator<Item = Bytes>, after: After, timeout: &'static str) -> Got {
    send_to(&service(), pieces, after, timeout).await
}

async fn send_to(
    service: &HttpService,
    pieces: impl IntoIterator<Item = Bytes>,
    after: After,
    timeout: &str,
) -> Got {
    let body = Pieces { pieces: pieces.into_iter().collect(), after };
    let request = Request::post("/v1/GetRateLimits").header("grpc-timeout", timeout).body(body).unwrap();
    got(service.answer(request).await).await
}

#[tokio::test(start_paused = true)]
async fn bodies_arrive_in_pieces_or_not_at_all() {
    let whole = Bytes::from(check("n"));
    let pieces = [whole.slice(..10), whole.slice(10..)];
    assert_eq!(send(pieces.clone(), After::End, "").await.status, 200);

    let cut = send(pieces.clone(), After::Fail, "").await;
    assert_eq!(cut.status, 400);
    assert!(cut.body.contains("request body cannot be read"), "{}", cut.body);

    let started = Instant::now();
    let late = send(pieces.clone(), After::Hang, "3S").await;
    assert_eq!((late.status, started.elapsed()), (504, Duration::from_secs(3)));
    assert!(late.body.contains("context deadline exceeded"), "{}", late.body);

    for timeout in ["", "9H"] {
        let started = Instant::now();
        let slow = send(pieces.clone(), After::Hang, timeout).await;
        assert_eq!((slow.status, started.elapsed()), (504, BODY_WITHIN));
        assert!(slow.body.contains("did not arrive within 60 s"), "{}", slow.body);
    }
}

/// The bound is one for the node, whichever port the bytes come by.
#[tokio::test(start_paused = true)]
async fn unfinished_bodies_share_one_bound_with_grpc() {
    let service = service();
    let piece = Bytes::from(vec![b' '; 1024 * 1024]);
    let pieces = |count| std::iter::repeat_n(piece.clone(), count);
    let hold = || send_to(&service, pieces(16), After::Hang, "");
    let others = async {
        // By then the others have sent what they have.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let http = send_to(&service, pieces(16), After::Hang, "").await;
        let prefix = Bytes::from_static(&[0, 0, 0x10, 0, 0]);
        let call = || {
            let body =
                Pieces { pieces: [prefix.clone(), piece.slice(..1_000_000)].into(), after: After::Hang };
            let call =
                Request::post("/pb.gubernator.V1/GetRateLimits").header("content-type", "application/grpc");
            tower::Service::call(&mut service.node.v1_service(), call.body(body).unwrap())
        };
        let mut codes = Vec::new();
        let mut calls: tokio::task::JoinSet<_> = (0..20).map(|_| call()).collect();
        while let Some(answer) = calls.join_next().await {
            codes.push(answer.unwrap().unwrap().headers()["grpc-status"].to_str().unwrap().to_owned());
        }
        (http, codes)
    };
    let (.., (http, codes)) = tokio::join!(hold(), hold(), hold(), others);
    let text = r#"{"code":8,"message":"this node already holds 67108864 bytes of unfinished requests; try again later","details":[]}"#;
    assert_eq!((http.status, http.body.as_str()), (429, text));
    // 16 times a million and some bytes fit into what three HTTP bodies leave.
    let fit = codes.iter().filter(|code| *code == "4").count();
    let refused = codes.iter().filter(|code| *code == "8").count();
    assert_eq!((fit, refused), (16, 4));
}

#[tokio::test]
async fn bodies_are_read_up_to_their_bound() {
    let piece = Bytes::from(vec![b' '; 1024 * 1024]);
    let pieces = |count| std::iter::repeat_n(piece.clone(), count);
    assert_eq!(send(pieces(16), After::End, "").await.status, 200);
    // The sender would go on for ever.
    let endless = send(pieces(17), After::Hang, "").await;
    let text = r#"{"code":8,"message":"request body is larger than 16777216 bytes; send several calls","details":[]}"#;
    assert_eq!((endless.status, endless.body.as_str()), (429, text));
    let announced = ask(&service(), "POST", "/v1/GetRateLimits", vec![b' '; BODY_BYTES_MAX + 1]).await;
    assert_eq!((announced.status, announced.body.as_str()), (429, text));
}

#[tokio::test]
async fn calls_over_http_count_as_calls_and_scrapes_as_scrapes() {
    let service = service();
    ask(&service, "POST", "/v1/GetRateLimits", check("n")).await;
    ask(&service, "GET", "/v1/HealthCheck", "").await;
    ask(&service, "POST", "/metrics", "").await;
    let page = ask(&service, "GET", "/metrics", "").await;
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        r#"gubernator_grpc_request_counts{method="/pb.gubernator.V1/GetRateLimits",status="success"} 1"#,
        r#"gubernator_grpc_request_counts{method="/pb.gubernator.V1/HealthCheck",status="success"} 1"#,
        r#"promhttp_metric_handler_requests_total{code="200"} 1"#,
    ] {
        assert!(page.body.lines().any(|found| found == line), "{line} is not in\n{}", page.body);
    }
}

#[test]
fn traces_come_in_either_header_and_grpcs_wins() {
    let parent = |digit: &str| format!("00-{}-{}-01", digit.repeat(32), digit.repeat(16));
    let of = |pairs: &[(&'static str, &str)]| {
        let headers = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        format!("{:?}", trace(&headers))
    };
    let (one, two) = (parent("1"), parent("2"));
    let plain = of(&[("traceparent", &one), ("tracestate", "a=b")]);
    assert!(plain.contains(&"1".repeat(32)), "{plain}");
    assert_eq!(of(&[("grpc-metadata-traceparent", &one), ("grpc-metadata-tracestate", "a=b")]), plain);
    let both = [("grpc-metadata-traceparent", one.as_str()), ("traceparent", &two), ("tracestate", "c=d")];
    assert_eq!(of(&both), of(&[("traceparent", &one)]));
    assert_eq!(of(&[]), format!("{:?}", TraceParent::default()));
}
