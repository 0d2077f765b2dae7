//! What a port that speaks TLS does with those who do not, and what one that does not does with those who do; slow and
//! silent clients; the status listener.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flyball_server::tls::Alpn;
use flyball_tests::http::Request;
use flyball_tests::in_process::InProcess;
use flyball_tests::secured::{Secured, item};
use flyball_tests::wait::poll;
use tonic::transport::Endpoint;

use super::{certificates, daemon};

/// For what takes a node some milliseconds.
const SOON: Duration = Duration::from_secs(10);

fn metric(page: &str, line: &str) -> u64 {
    let found = page.lines().find_map(|it| it.strip_prefix(line));
    found.unwrap_or_else(|| panic!("no {line} in\n{page}")).trim().parse().unwrap()
}

#[test]
fn plain_http_is_told_so_and_nothing_it_asks_is_done() {
    let certificates = certificates();
    let daemon = daemon(&certificates, &[]).unwrap();
    let body = r#"{"requests":[{"name":"n","unique_key":"k","hits":1,"limit":1,"duration":1000}]}"#;
    for request in [Request::get("/v1/HealthCheck"), Request::post("/v1/GetRateLimits", body)] {
        let answer = daemon.connect().send(&request).unwrap();
        assert_eq!(answer.status, 400);
        assert_eq!(answer.text(), "Client sent an HTTP request to an HTTPS server.\n");
    }
    // Counted after the answer.
    let page = poll(SOON, || {
        let page = daemon.daemon().node().metrics().scrape();
        let counted = metric(&page, r#"flyball_tls_handshakes_total{listener="http",outcome="not_tls"}"#);
        (counted == 2).then_some(page)
    });
    let page = page.expect("both are counted");
    assert!(!page.contains("gubernator_getratelimit_counter"), "nothing was decided");
}

#[test]
fn plain_grpc_gets_nothing() {
    let certificates = certificates();
    let daemon = daemon(&certificates, &[]).unwrap();
    daemon.runtime().block_on(async {
        let channel = Endpoint::from_shared(format!("http://{}", daemon.grpc())).unwrap().connect_lazy();
        let mut client = flyball::pb::v1_client::V1Client::new(channel);
        client.live_check(flyball::pb::LiveCheckReq {}).await.unwrap_err();
    });
    let page = daemon.daemon().node().metrics().scrape();
    assert!(metric(&page, r#"flyball_tls_handshakes_total{listener="grpc",outcome="not_tls"}"#) >= 1);
}

#[test]
fn tls_to_a_plain_port_fails_soon() {
    let certificates = certificates();
    let plain = InProcess::with_env(&[]).unwrap();
    let client = Secured::new(&certificates);
    plain.runtime().block_on(async {
        client.check(plain.grpc(), item("plain")).await.unwrap_err();
        client.get(plain.http(), Alpn::Http1, "/v1/HealthCheck").await.unwrap_err();
    });
}

#[test]
fn silent_and_slow_clients_cost_nobody_else() {
    let certificates = certificates();
    let daemon = daemon(&certificates, &[]).unwrap();
    let connect = |address: SocketAddr| TcpStream::connect(address).unwrap();
    // More than there may be handshakes under way: the oldest give way.
    let silent: Vec<_> = (0..1_100).map(|_| connect(daemon.grpc())).collect();
    let mut slow = connect(daemon.http());
    slow.write_all(&[22, 3, 1]).unwrap();
    let client = Secured::new(&certificates);
    daemon.runtime().block_on(async {
        for _ in 0..20 {
            client.check(daemon.grpc(), item("slow")).await.unwrap();
            client.get(daemon.http(), Alpn::Http1, "/v1/HealthCheck").await.unwrap();
        }
    });
    let page = daemon.daemon().node().metrics().scrape();
    assert!(metric(&page, r#"flyball_tls_handshakes_total{listener="grpc",outcome="crowded"}"#) >= 76);
    assert_eq!(metric(&page, r#"flyball_tls_handshakes_total{listener="grpc",outcome="secured"}"#), 20);
    let mut first = &silent[0];
    first.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)), "it was closed");
}

/// Field report P32: with client certificates required, probes could not reach the health endpoint.
#[test]
fn p32_the_status_listener_asks_for_no_certificate() {
    let certificates = certificates();
    let more =
        [("GUBER_TLS_CLIENT_AUTH", "require-and-verify"), ("GUBER_STATUS_HTTP_ADDRESS", "127.0.0.1:0")];
    let daemon = daemon(&certificates, &more).unwrap();
    let status = daemon.daemon().status_address().unwrap();
    let probe = Secured::new(&certificates);
    let known = probe.clone().showing(&certificates, "good");
    daemon.runtime().block_on(async {
        probe.get(daemon.http(), Alpn::Http1, "/v1/HealthCheck").await.unwrap_err();
        let (code, health) = probe.get(status, Alpn::Http1, "/v1/HealthCheck").await.unwrap();
        assert_eq!(code, 200);
        assert_eq!(known.get(daemon.http(), Alpn::Http1, "/v1/HealthCheck").await.unwrap(), (200, health));
        for path in ["/metrics", "/v1/LiveCheck", "/healthz", "/livez", "/readyz"] {
            assert_eq!(probe.get(status, Alpn::Http2, path).await.unwrap().0, 200, "{path}");
        }
        for path in ["/", "/v1/GetRateLimits", "/v1/admin/peers", "/openapi.json"] {
            let answer = probe.get(status, Alpn::Http1, path).await.unwrap();
            assert_eq!(answer, (404, "404 page not found\n".to_owned()), "{path}");
        }
    });
    let plain = flyball_tests::http::Connection::new(status).send(&Request::get("/v1/HealthCheck")).unwrap();
    assert_eq!(plain.status, 400);
}

#[test]
fn the_certificate_in_use_is_shown_on_the_metrics_page() {
    let certificates = certificates();
    let daemon = daemon(&certificates, &[]).unwrap();
    let page = daemon.daemon().node().metrics().scrape();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for certificate in ["server", "ca"] {
        let line =
            format!("flyball_tls_certificate_expiry_timestamp_seconds{{certificate=\"{certificate}\"}}");
        assert!(metric(&page, &line) > now, "{certificate}");
    }
}
