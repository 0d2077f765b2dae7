//! The way out: who is told, who is waited for, and who is not.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use flyball::pb::v1_client::V1Client;
use flyball::pb::{GetRateLimitsResp, LiveCheckReq};
use flyball_server::Daemon;
use flyball_server::daemon::Exit;
use flyball_server::shutdown::Signal;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tower::{Service as _, ServiceExt as _};

use crate::{channel, config, health, http_get, open_stream, remaining, request, run, start, within};

#[tokio::test]
async fn while_it_waits_to_stop_it_serves_but_is_not_ready() {
    let mut config = config();
    config.shutdown.delay_seconds = 3_600;
    let daemon = start(config).await;
    let (http, node) = (daemon.http_address(), daemon.node().clone());
    let channel = channel(&daemon).await;
    let mut watch = HealthClient::new(channel.clone())
        .watch(HealthCheckRequest { service: "pb.gubernator.V1".into() })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let (signals, run) = run(daemon);

    signals.send(Signal::Terminate);
    assert_eq!(within(watch.next()).await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(!node.is_ready());
    assert_eq!(http_get(http, "/readyz").await.unwrap().0, 503);
    for path in ["/livez", "/v1/HealthCheck", "/v1/LiveCheck"] {
        assert_eq!(http_get(http, path).await.unwrap().0, 200, "{path}");
    }
    for service in ["", "pb.gubernator.V1", "pb.gubernator.PeersV1"] {
        assert_eq!(health(&channel, service).await, Ok(ServingStatus::NotServing), "{service}");
    }
    assert_eq!(remaining(&channel, "still").await, 9);

    signals.send(Signal::Interrupt);
    let exit = within(run).await.unwrap();
    assert_eq!((exit, exit.code()), (Exit::Forced(Signal::Interrupt), 130));
    TcpStream::connect(http).await.expect_err("the port is closed");
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_a_stop() {
    let daemon = start(config()).await;
    let channel = channel(&daemon).await;
    assert_eq!(remaining(&channel, "idle").await, 9);
    let mut kept = TcpStream::connect(daemon.http_address()).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    assert_ne!(kept.read(&mut [0; 1024]).await.unwrap(), 0);

    assert_eq!(within(daemon.stop()).await, Exit::Drained);
    assert_eq!(within(kept.read(&mut [0; 1024])).await.unwrap(), 0, "closed");
}

#[tokio::test]
async fn connections_that_never_spoke_do_not_hold_up_a_stop() {
    for port in [Daemon::grpc_address, Daemon::http_address] {
        let daemon = start(config()).await;
        let _silent = TcpStream::connect(port(&daemon)).await.unwrap();
        // Accepted in order: once this one is answered, the daemon has the silent one too.
        http_get(daemon.http_address(), "/healthz").await.unwrap();
        assert_eq!(remaining(&channel(&daemon).await, "heard").await, 9);
        assert_eq!(within(daemon.stop()).await, Exit::Drained);
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

#[tokio::test]
async fn connections_that_stopped_speaking_do_not_hold_up_a_stop() {
    let handshake = [PREFACE, EMPTY_SETTINGS].concat();
    for said in [&b"P"[..], PREFACE, &handshake] {
        let daemon = start(config()).await;
        let mut gone = TcpStream::connect(daemon.grpc_address()).await.unwrap();
        gone.write_all(said).await.unwrap();
        assert_eq!(remaining(&channel(&daemon).await, "heard").await, 9);
        assert_eq!(within(daemon.stop()).await, Exit::Drained, "{said:?}");
    }
    let daemon = start(config()).await;
    let mut gone = TcpStream::connect(daemon.http_address()).await.unwrap();
    gone.write_all(b"GET /healthz HTTP/1.1\r\nHo").await.unwrap();
    http_get(daemon.http_address(), "/healthz").await.unwrap();
    assert_eq!(within(daemon.stop()).await, Exit::Drained);
}

#[tokio::test]
async fn watching_the_health_does_not_hold_up_a_stop() {
    let daemon = start(config()).await;
    let channel = channel(&daemon).await;
    let mut watch =
        HealthClient::new(channel.clone()).watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);

    assert_eq!(within(daemon.stop()).await, Exit::Drained);
    let last = within(watch.next()).await.unwrap().unwrap().status();
    assert_eq!(last, ServingStatus::NotServing, "a watcher hears of the stop");
    assert!(within(watch.next()).await.is_none(), "and its stream ends well");
}

/// Ends when nobody listens on this address any more.
async fn closed(address: SocketAddr) {
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_that_began_before_the_stop_is_answered() {
    let daemon = start(config()).await;
    let mut channel = channel(&daemon).await;

    // A call whose message arrives in two halves.
    let message = request("half").encode_to_vec();
    let mut frame = BytesMut::from(&[0][..]);
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&message);
    let second_half = frame.split_off(8).freeze();
    let (body, parts) = mpsc::channel::<Bytes>(2);
    let parts = ReceiverStream::new(parts).map(|part| Ok::<_, tonic::Status>(http_body::Frame::data(part)));
    let call = http::Request::post("/pb.gubernator.V1/GetRateLimits")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(http_body_util::StreamBody::new(parts)))
        .unwrap();
    let other = V1Client::new(channel.clone());
    let mut answer = pin!(channel.ready().await.unwrap().call(call));
    body.send(frame.freeze()).await.unwrap();
    // Calls of one connection arrive in order: when the next one is answered, the daemon knows of this one.
    tokio::select! {
        _ = &mut answer => panic!("answered half a message"),
        live = async { other.clone().live_check(LiveCheckReq {}).await } => { live.unwrap(); }
    }

    let grpc = daemon.grpc_address();
    let (signals, run) = run(daemon);
    signals.send(Signal::Terminate);
    within(closed(grpc)).await;
    body.send(second_half).await.unwrap();
    drop(body);
    let answer = within(answer).await.unwrap();
    let collected = answer.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
    let answer = GetRateLimitsResp::decode(&collected.to_bytes()[5..]).unwrap();
    assert_eq!(answer.responses[0].remaining, 9);
    let exit = within(run).await.unwrap();
    assert_eq!((exit, exit.code()), (Exit::Drained, 0));
}

#[tokio::test]
async fn a_client_that_holds_a_call_open_cannot_hold_up_a_stop() {
    let mut config = config();
    config.shutdown.timeout = Duration::from_millis(50);
    let daemon = start(config).await;
    let channel = channel(&daemon).await;
    let _held = open_stream(&channel).await;
    let mut half = TcpStream::connect(daemon.http_address()).await.unwrap();
    half.write_all(b"POST /v1/GetRateLimits HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{")
        .await
        .unwrap();

    let asked = Instant::now();
    let exit = within(daemon.stop()).await;
    assert_eq!((exit, exit.code()), (Exit::Cut, 0));
    // The promise is the bound; the rest is a busy machine.
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(within(half.read(&mut [0; 1024])).await.unwrap_or(0), 0, "the HTTP call was cut");
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let daemon = start(config()).await;
    let grpc = daemon.grpc_address();
    let channel = channel(&daemon).await;
    let (_sender, _answers) = open_stream(&channel).await;
    let (signals, run) = run(daemon);

    signals.send(Signal::Interrupt);
    within(closed(grpc)).await;
    assert!(!run.is_finished(), "a call is open");
    signals.send(Signal::Terminate);
    let exit = within(run).await.unwrap();
    assert_eq!((exit, exit.code()), (Exit::Forced(Signal::Terminate), 143));
}
