//! Spans leave, and a collector that does not take them holds nothing up.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use flyball::pb::GetRateLimitsReq;
use flyball::pb::v1_client::V1Client;
use flyball_server::Daemon;
use flyball_server::config::OtlpProtocol;
use flyball_server::daemon::Exit;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{channel, config, remaining, request, start, within};

#[tokio::test]
async fn a_collector_that_never_answers_delays_neither_calls_nor_the_stop() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let stop = async |protocol: OtlpProtocol, collector: SocketAddr| {
        let mut config = config();
        config.otel.endpoint = Some(format!("http://{collector}"));
        config.otel.protocol = protocol;
        let daemon = start(config).await;
        let channel = channel(&daemon).await;
        // More spans than the queue holds.
        for _ in 0..3 {
            let requests = vec![request("traced").requests.remove(0); 1_000];
            let call = GetRateLimitsReq { requests };
            within(V1Client::new(channel.clone()).get_rate_limits(call)).await.unwrap();
        }
        let asked = Instant::now();
        assert_eq!(within(daemon.stop()).await, Exit::Drained);
        // The promise is one second; the rest is a busy machine.
        assert!(asked.elapsed() < Duration::from_secs(5), "{protocol:?} {:?}", asked.elapsed());
    };
    let silent = silent.local_addr().unwrap();
    tokio::join!(
        stop(OtlpProtocol::Grpc, silent),
        stop(OtlpProtocol::HttpProtobuf, silent),
        stop(OtlpProtocol::Grpc, nobody),
        stop(OtlpProtocol::HttpProtobuf, nobody),
    );
}

/// A collector that takes one export over HTTP: the request's head and body.
async fn collect_one(listener: TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    loop {
        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "the request is whole");
        let Some(end) = received.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(received[..end].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let body = &received[end + 4..];
        if body.len() == length.parse::<usize>().unwrap() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            return (head, body.to_vec());
        }
    }
}

#[tokio::test]
async fn spans_leave_over_http_before_the_daemon_does() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config();
    config.otel.endpoint = Some(format!("http://{}/base/", listener.local_addr().unwrap()));
    config.otel.protocol = OtlpProtocol::HttpProtobuf;
    config.otel.headers.0 = vec![("X-Key".into(), "secret".into())];
    config.otel.service_name = Some("limits-of-one".into());
    let collector = tokio::spawn(collect_one(listener));
    let daemon = start(config).await;
    assert_eq!(remaining(&channel(&daemon).await, "spanned").await, 9);
    assert_eq!(within(daemon.stop()).await, Exit::Drained);

    // The stop waited for the collector's answer, so it has everything.
    let (head, body) = within(collector).await.unwrap();
    assert!(head.starts_with("post /base/v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf") && head.contains("x-key: secret"),
        "{head}"
    );
    for text in ["limits-of-one", "pb.gubernator.V1/GetRateLimits", "V1Instance.getLocalRateLimit", "spanned"]
    {
        assert!(body.windows(text.len()).any(|w| w == text.as_bytes()), "{text}");
    }
}

#[tokio::test]
async fn an_unusable_collector_is_an_error_at_the_start() {
    let mut config = config();
    config.otel.endpoint = Some("http://bad host:1".into());
    let error = Daemon::start(config).await.unwrap_err().to_string();
    assert!(error.contains("bad host:1") && error.contains("OTEL_EXPORTER_OTLP_"), "{error}");
}
