//! What a daemon is once it has started, and why one does not start.

use std::net::SocketAddr;

use flyball_server::Daemon;
use flyball_server::config::{AdminSwitch, HostPort};
use flyball_server::daemon::Exit;
use tokio::net::{TcpListener, TcpStream};

use crate::{channel, config, http_get, remaining, start, within};

#[tokio::test]
async fn serves_both_ports_and_stops() {
    let daemon = start(config()).await;
    let (grpc, http) = (daemon.grpc_address(), daemon.http_address());
    assert!(grpc.port() != 0 && http.port() != 0 && grpc.ip().is_loopback() && http.ip().is_loopback());

    let channel = channel(&daemon).await;
    assert_eq!(remaining(&channel, "one").await, 9);
    assert_eq!(remaining(&channel, "one").await, 8, "calls share the node's store");
    assert_eq!(http_get(http, "/readyz").await.unwrap().0, 200);
    let (_, health) = http_get(http, "/v1/HealthCheck").await.unwrap();
    assert!(health.contains(&grpc.to_string()), "the advertised address has the real port: {health}");

    assert_eq!(within(daemon.stop()).await, Exit::Drained);
    TcpStream::connect(grpc).await.expect_err("the gRPC port is closed");
    TcpStream::connect(http).await.expect_err("the HTTP port is closed");
}

#[tokio::test]
async fn two_daemons_share_nothing() {
    let (first, second) = (start(config()).await, start(config()).await);
    let (to_first, to_second) = (channel(&first).await, channel(&second).await);
    assert_eq!(remaining(&to_first, "both").await, 9);
    assert_eq!(remaining(&to_second, "both").await, 9, "each has a store of its own");

    assert_eq!(within(first.stop()).await, Exit::Drained);
    assert_eq!(remaining(&to_second, "both").await, 8, "stopping one leaves the other alone");
    let metrics = http_get(second.http_address(), "/metrics").await.unwrap().1;
    let calls =
        "gubernator_grpc_request_counts{method=\"/pb.gubernator.V1/GetRateLimits\",status=\"success\"} 2";
    assert!(metrics.contains(calls), "each counts its own calls: {metrics}");
    assert_eq!(within(second.stop()).await, Exit::Drained);
}

#[tokio::test]
async fn a_port_in_use_is_one_line_with_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    for (name, settings) in
        [("gRPC", "--grpc-address or GUBER_GRPC_ADDRESS"), ("HTTP", "--http-address or GUBER_HTTP_ADDRESS")]
    {
        let mut config = config();
        let address = if name == "gRPC" { &mut config.grpc.address } else { &mut config.http.address };
        *address = HostPort { host: "127.0.0.1".into(), port };
        let error = Daemon::start(config).await.unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{port}")) && error.contains(settings), "{error}");
        assert!(error.contains(name) && error.contains("in use") && !error.contains('\n'), "{error}");
    }
}

#[tokio::test]
async fn our_own_other_port_is_named_whatever_the_host_is_called() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut config = config();
    config.grpc.address = HostPort { host: "localhost".into(), port };
    config.http.address = HostPort { host: "127.0.0.1".into(), port };
    let error = Daemon::start(config).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot listen on '127.0.0.1:{port}' for HTTP: gRPC of this node listens there already \
             (--grpc-address or GUBER_GRPC_ADDRESS); choose another port for one of them \
             (--http-address or GUBER_HTTP_ADDRESS)"
        )
    );
}

#[tokio::test]
async fn http_additions_can_be_switched_off() {
    let mut bare = config();
    bare.http.health_routes = false;
    bare.http.openapi = false;
    let daemon = start(bare).await;
    for path in ["/healthz", "/livez", "/readyz", "/openapi.json"] {
        let answer = http_get(daemon.http_address(), path).await.unwrap();
        assert_eq!(answer, (404, r#"{"code":5,"message":"Not Found","details":[]}"#.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn the_admin_page_is_on_by_itself_where_only_this_machine_listens() {
    for (host, switch, status) in [
        ("localhost", AdminSwitch::Auto, 403),
        ("localhost", AdminSwitch::On, 200),
        ("localhost", AdminSwitch::Off, 404),
        ("0.0.0.0", AdminSwitch::Auto, 404),
        ("0.0.0.0", AdminSwitch::On, 200),
    ] {
        let mut config = config();
        // The request says `Host: t`.
        config.http.address.host = host.into();
        config.http.admin = switch;
        let daemon = start(config).await;
        let port = daemon.http_address().port();
        for path in ["/", "/v1/admin/peers"] {
            let answer = http_get(SocketAddr::from(([127, 0, 0, 1], port)), path).await.unwrap();
            assert_eq!(answer.0, status, "{host} {switch:?} {path}: {}", answer.1);
        }
    }
}
