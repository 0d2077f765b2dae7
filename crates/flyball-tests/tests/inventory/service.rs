//! The HTTP port of a daemon, as JSON clients see it.

use flyball_tests::http::Request;
use flyball_tests::in_process::InProcess;
use serde_json::{Value, json};

#[test]
fn health_has_all_fields_under_their_proto_names() {
    let daemon = InProcess::like_gubernator(&[("GUBER_DATA_CENTER", "dc-1")]).unwrap();
    let response = daemon.connect().send(&Request::get("/v1/HealthCheck")).unwrap();
    assert_eq!(response.status, 200);
    let address = daemon.grpc().to_string();
    assert_eq!(
        response.json().unwrap(),
        json!({
            "status": "healthy", "message": "", "peer_count": 1, "advertise_address": address,
            "local_peers": [{"grpc_address": address, "data_center": "dc-1"}], "region_peers": [],
        })
    );
}

#[test]
fn rate_limits_are_protobuf_json() {
    let daemon = InProcess::like_gubernator(&[]).unwrap();
    let body = json!({"requests": [{
        "name": "gateway", "uniqueKey": "account:1234", "duration": "60000", "hits": 1, "limit": 10,
    }]});
    let response = daemon.connect().send(&Request::post("/v1/GetRateLimits", body.to_string())).unwrap();
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let answer = &response.json().unwrap()["responses"][0];
    let fields: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["error", "limit", "metadata", "remaining", "reset_time", "retry_after", "status"]);
    assert_eq!((&answer["status"], &answer["limit"]), (&json!("UNDER_LIMIT"), &json!("10")));
    assert_eq!((&answer["remaining"], &answer["metadata"]), (&json!("9"), &json!({})));
}

/// What no client library would send: each gets an answer or a closed connection, and the next caller is served.
#[test]
fn broken_requests_harm_nobody() {
    let daemon = InProcess::with_env(&[]).unwrap();
    let broken: [&[u8]; 11] = [
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/HealthCheck HTTP/9.9\r\n\r\n",
        b"GET /v1/HealthCheck HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/GetRateLimits HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        b"POST /v1/GetRateLimits HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"POST /v1/GetRateLimits HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /v1/GetRateLimits HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /%zz%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for bytes in broken {
        // Half of what follows may never come: the client stops writing, so nobody waits for anybody.
        let outcome = flyball_tests::http::send_and_close(daemon.http(), bytes);
        if let Ok(Some(response)) = &outcome {
            assert!(response.status >= 400, "{:?}: {response:?}", String::from_utf8_lossy(bytes));
        }
        let response = daemon.connect().send(&Request::get("/v1/HealthCheck")).unwrap();
        assert_eq!(response.status, 200, "after {:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_body_that_ends_early_counts_nothing() {
    let daemon = InProcess::with_env(&[]).unwrap();
    let item = |hits: i64| json!({"requests": [{"name": "early", "unique_key": "k", "hits": hits, "limit": 10, "duration": 60_000}]});
    let body = item(1).to_string();
    let head =
        format!("POST /v1/GetRateLimits HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len() + 1);
    let outcome = flyball_tests::http::send_and_close(daemon.http(), format!("{head}{body}").as_bytes());
    assert!(!matches!(outcome, Ok(Some(response)) if response.status == 200));
    let look = daemon.connect().send(&Request::post("/v1/GetRateLimits", item(0).to_string())).unwrap();
    assert_eq!(look.json().unwrap()["responses"][0]["remaining"], Value::from("10"));
}
