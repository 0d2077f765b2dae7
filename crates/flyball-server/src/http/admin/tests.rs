use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball::pb::{GetRateLimitsReq, RateLimitReq};
use flyball::{CallContext, FakeClock, PeerSource, PeerSourceFailure, Settings, Timestamp};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::*;
use crate::http::{HttpOptions, HttpService};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const START: i64 = 1_800_000_000_000;
const PATHS: [&str; 6] =
    ["/", "/v1/admin/overview", "/v1/admin/peers", "/v1/admin/top", "/v1/admin/global", "/v1/admin/store"];

fn node() -> Node {
    let settings = Settings { advertise_address: "192.0.2.1:1051".into(), ..Settings::default() };
    Node::builder().settings(settings).clock(Arc::new(FakeClock::new(Timestamp(START)))).build()
}

fn service(node: &Node, admin: AdminAccess) -> HttpService {
    HttpService::new(node.clone(), HttpOptions { admin, ..HttpOptions::default() })
}

async fn ask(service: &HttpService, method: &str, path: &str, hosts: &[&str]) -> (u16, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    for host in hosts {
        request = request.header(HOST, *host);
    }
    let answer = service.answer(request.body(Full::<Bytes>::default()).unwrap()).await;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, String::from_utf8(body.into()).unwrap())
}

async fn get(service: &HttpService, path: &str) -> Value {
    let (status, _, body) = ask(service, "GET", path, &["localhost:1050"]).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// So many checks of a limit of 2.
async fn check(node: &Node, unique_key: &str, times: usize) {
    let item = RateLimitReq {
        name: "logins".into(),
        unique_key: unique_key.into(),
        hits: 1,
        limit: 2,
        duration: 60_000,
        ..RateLimitReq::default()
    };
    let request = GetRateLimitsReq { requests: vec![item; times] };
    node.get_rate_limits(request, CallContext::default()).await.unwrap();
}

#[test]
fn by_itself_it_is_on_where_only_this_machine_listens() {
    let access = |switch, bound: &str| {
        let address = HostPort { host: "box".into(), port: 1050 };
        AdminAccess::new(switch, &address, bound.parse().unwrap())
    };
    for bound in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(access(AdminSwitch::Auto, bound), AdminAccess::ThisMachine("box".into()), "{bound}");
        assert_eq!(access(AdminSwitch::Off, bound), AdminAccess::Off, "{bound}");
        assert_eq!(access(AdminSwitch::On, bound), AdminAccess::Everybody, "{bound}");
    }
    for bound in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"] {
        assert_eq!(access(AdminSwitch::Auto, bound), AdminAccess::Off, "{bound}");
        assert_eq!(access(AdminSwitch::On, bound), AdminAccess::Everybody, "{bound}");
    }
}

#[tokio::test]
async fn only_names_that_nobody_else_can_point_here_are_answered() {
    let node = node();
    let service = service(&node, AdminAccess::ThisMachine("box.example".into()));
    for host in [
        "localhost",
        "LocalHost:1050",
        "127.0.0.1",
        "127.0.0.2:1050",
        "[::1]",
        "[::1]:1050",
        "box.example",
        "BOX.example:8080",
    ] {
        for path in PATHS {
            assert_eq!(ask(&service, "GET", path, &[host]).await.0, 200, "{path} {host}");
        }
    }
    for hosts in [
        &["evil.example"][..],
        &["localhost.evil.example"],
        &["127.0.0.1.evil.example:1050"],
        &["127.0.0.1@evil.example"],
        &["evil.example@127.0.0.1"],
        &["10.0.0.1"],
        &["0.0.0.0"],
        &["[::]:1050"],
        &["2130706433"],
        &[""],
        &[],
        &["localhost", "evil.example"],
        &["localhost", "localhost"],
    ] {
        for path in PATHS {
            let (status, _, body) = ask(&service, "GET", path, hosts).await;
            assert_eq!(status, 403, "{path} {hosts:?}");
            assert!(body.starts_with(r#"{"code":7,"message":"the admin page"#), "{body}");
        }
        assert_eq!(ask(&service, "GET", "/healthz", hosts).await.0, 200, "{hosts:?}");
    }
    // In the request line, as proxies are asked.
    assert_eq!(ask(&service, "GET", "http://evil.example/", &["localhost"]).await.0, 403);
    assert_eq!(ask(&service, "GET", "http://localhost/", &["localhost"]).await.0, 200);
    assert_eq!(
        ask(&self::service(&node, AdminAccess::Everybody), "GET", "/", &["evil.example"]).await.0,
        200
    );
}

#[tokio::test]
async fn an_empty_configured_host_is_no_name() {
    let service = service(&node(), AdminAccess::ThisMachine("".into()));
    assert_eq!(ask(&service, "GET", "/", &[""]).await.0, 403);
}

#[tokio::test]
async fn switched_off_it_is_as_unknown_as_any_path() {
    let off = service(&node(), AdminAccess::Off);
    for method in ["GET", "HEAD", "POST", "DELETE"] {
        let unknown = ask(&off, method, "/v1/nowhere", &["localhost"]).await;
        assert_eq!(unknown.0, 404);
        for path in PATHS {
            assert_eq!(ask(&off, method, path, &["localhost"]).await, unknown, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn it_is_looked_at_and_nothing_else() {
    let on = service(&node(), AdminAccess::Everybody);
    for path in PATHS {
        assert_eq!(ask(&on, "HEAD", path, &[]).await.0, 200, "{path}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let (status, headers, body) = ask(&on, method, path, &["localhost"]).await;
            assert_eq!(status, 501, "{method} {path}");
            assert_eq!(body, r#"{"code":12,"message":"Method Not Allowed","details":[]}"#);
            assert!(!headers.contains_key("access-control-allow-origin"));
        }
    }
    for path in ["/v1/admin", "/v1/admin/", "/v1/admin/nothing", "/v1/admin/peers/", "/index.html"] {
        assert_eq!(ask(&on, "GET", path, &[]).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn browsers_are_told_to_be_careful() {
    let on = service(&node(), AdminAccess::Everybody);
    for path in PATHS {
        let (_, headers, _) = ask(&on, "GET", path, &[]).await;
        let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin", "{path}");
        assert_eq!(header("access-control-allow-origin"), "", "{path}");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(policy.contains("; frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        let media_type = if path == "/" { "text/html; charset=utf-8" } else { "application/json" };
        assert_eq!(header("content-type"), media_type, "{path}");
    }
}

#[tokio::test]
async fn peers_are_told_as_the_command_reads_them() {
    let on = service(&node(), AdminAccess::Everybody);
    assert_eq!(
        get(&on, "/v1/admin/peers").await,
        json!({"self": "192.0.2.1:1051", "epoch": 0, "peers": [{
            "grpc_address": "192.0.2.1:1051", "data_center": "", "is_self": true, "share": 1.0, "state": "up",
            "since_ms": START, "last_error": null, "last_error_age_ms": null, "queued": 0, "in_flight": 0,
            "calls": 0, "failures": 0, "fallbacks": 0,
        }], "peer_source": null})
    );
}

#[tokio::test]
async fn who_tells_of_the_peers_is_told_and_how_it_is_doing() {
    let node = node();
    let failing = PeerSourceFailure { error: "no <such> file".into(), lasting: ms(90_500), times: 7 };
    node.report_peer_source(move || PeerSource {
        kind: "file",
        origin: "/etc/peers".into(),
        peers: 1,
        age: Some(ms(100_000)),
        failures: 9,
        failing: Some(failing.clone()),
    });
    let on = service(&node, AdminAccess::Everybody);
    let expected = json!({
        "kind": "file", "origin": "/etc/peers", "peers": 1, "age_ms": 100_000, "failures": 9,
        "failing": {"error": "no <such> file", "lasting_ms": 90_500, "times": 7},
    });
    assert_eq!(get(&on, "/v1/admin/peers").await["peer_source"], expected);
    assert_eq!(get(&on, "/v1/admin/overview").await["peer_source"], expected);
    let page = node.metrics().render();
    for line in [
        r#"flyball_discovery_failures_total{source="file"} 9"#,
        r#"flyball_discovery_failing_seconds{source="file"} 90.5"#,
        r#"flyball_discovery_peers{source="file"} 1"#,
        r#"flyball_discovery_age_seconds{source="file"} 100"#,
    ] {
        assert!(page.lines().any(|it| it == line), "{line} is not in\n{page}");
    }
}

#[tokio::test]
async fn what_happens_shows() {
    let node = node();
    let on = service(&node, AdminAccess::Everybody);
    check(&node, "few", 3).await;
    check(&node, "<b>many</b>", 9).await;
    check(&node, "", 1).await;

    let all = get(&on, "/v1/admin/overview").await;
    assert_eq!(
        all["checks"],
        json!({
            "decided": 12, "token_bucket": 12, "refused": 8, "intake_refused": 0,
            "replica": 0, "forwarded": 0, "fallback": 0,
            "errors": [{"cause": "Invalid request", "count": 1}],
        })
    );
    let top = json!({"missed": 0, "keys": [
        {"name": "logins", "unique_key": "<b>many</b>", "hits": 7, "error": 0},
        {"name": "logins", "unique_key": "few", "hits": 1, "error": 0},
    ]});
    assert_eq!((&all["top"], &get(&on, "/v1/admin/top").await), (&top, &top));
    let calls = &all["calls"][0];
    assert_eq!((&calls["method"], &calls["started"]), (&json!("GetRateLimits"), &json!(3)));
    assert!(calls["latency"]["p50_us"].as_f64().unwrap() > 0.0, "{calls}");
    assert_eq!(all["calls"][1]["latency"], Value::Null);
    assert_eq!(all["store"]["entries"], 2);
    assert_eq!(get(&on, "/v1/admin/store").await, all["store"]);
    assert_eq!(get(&on, "/v1/admin/global").await, all["global"]);
    assert_eq!(get(&on, "/v1/admin/peers").await["peers"], all["peers"]);
    assert_eq!(
        (&all["advertise_address"], &all["semantics"], &all["ready"], &all["now_ms"], &all["started_ms"]),
        (&json!("192.0.2.1:1051"), &json!("exact"), &json!(true), &json!(START), &json!(START))
    );
    node.drain();
    assert_eq!(get(&on, "/v1/admin/overview").await["ready"], false);
}

#[tokio::test]
async fn lists_are_capped() {
    let node = node();
    for number in 0..300 {
        check(&node, &number.to_string(), 3).await;
    }
    let keys = get(&service(&node, AdminAccess::Everybody), "/v1/admin/top").await;
    assert_eq!(keys["keys"].as_array().unwrap().len(), flyball::overview::TOP_MAX);
}
