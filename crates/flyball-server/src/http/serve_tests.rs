use std::net::SocketAddr;

use flyball::Node;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;
use crate::http::HttpOptions;

/// A served node.
struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let service = HttpService::new(Node::builder().build(), HttpOptions::default());
        let task = tokio::spawn(serve(listener, service, None, shutdown.clone()));
        Self { address, shutdown, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// One answer: its head, and as much of a body as it announces.
async fn answer(stream: &mut TcpStream, body_expected: bool) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; if body_expected { length } else { 0 }];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Everything until the server closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    // A reset instead of an end is as good: nothing more comes.
    let _ = stream.read_to_end(&mut rest).await;
    String::from_utf8_lossy(&rest).into_owned()
}

const POST: &str = "POST /v1/GetRateLimits HTTP/1.1\r\nHost: x\r\n";

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    stream.write_all(b"HEAD /v1/GetRateLimits HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let (head, _) = answer(&mut stream, false).await;
    assert!(head.starts_with("http/1.1 501") && head.contains("content-type: application/json"), "{head}");

    stream.write_all(format!("{POST}Content-Length: 2\r\n\r\n{{}}").as_bytes()).await.unwrap();
    assert_eq!(answer(&mut stream, true).await.1, r#"{"responses":[]}"#);

    stream
        .write_all(
            format!("{POST}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n").as_bytes(),
        )
        .await
        .unwrap();
    assert_eq!(answer(&mut stream, true).await.1, r#"{"responses":[]}"#);
}

#[tokio::test]
async fn http_2_is_not_spoken() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(!answer.contains("200") && !answer.starts_with("\0\0"), "{answer:?}");
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_others_go_on() {
    let server = Server::start().await;
    let mut good = server.connect().await;
    for (bytes, status) in [
        ("nonsense\r\n\r\n".to_owned(), "HTTP/1.1 400"),
        (format!("{POST}X: {}\r\n\r\n", "x".repeat(HEADER_BYTES_MAX)), "HTTP/1.1 431"),
        (format!("{POST}{}\r\n", "X: y\r\n".repeat(200)), "HTTP/1.1 431"),
        (format!("{POST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), "HTTP/1.1 400"),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(status), "{answer}");
    }
    good.write_all(format!("{POST}Content-Length: 0\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(answer(&mut good, true).await.1, r#"{"responses":[]}"#);
}

#[tokio::test]
async fn a_body_that_never_ends_is_refused_in_the_middle() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    stream.write_all(format!("{POST}Content-Length: 99999999999\r\n\r\n").as_bytes()).await.unwrap();
    let (head, body) = answer(&mut stream, true).await;
    assert!(head.starts_with("http/1.1 429"), "{head}");
    assert!(body.contains("larger than 16777216 bytes"), "{body}");
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_waits_for_busy_ones() {
    let server = Server::start().await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert_eq!(answer(&mut idle, true).await.1, "ok");
    let mut busy = server.connect().await;
    busy.write_all(format!("{POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n").as_bytes())
        .await
        .unwrap();
    // From here on the server is in the middle of this request.
    assert!(answer(&mut busy, false).await.0.starts_with("http/1.1 100"));

    server.shutdown.cancel();
    assert_eq!(rest(&mut idle).await, "");
    assert!(!server.task.is_finished());
    busy.write_all(b"{}").await.unwrap();
    let (head, body) = answer(&mut busy, true).await;
    assert_eq!(body, r#"{"responses":[]}"#);
    assert!(head.contains("connection: close"), "{head}");
    server.task.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_request_in_the_backlog_is_answered_at_shutdown() {
    use std::io::{Read as _, Write as _};

    let server = Server::start().await;
    // Blocking, so that the server has no chance to accept: only this thread runs.
    let mut queued = std::net::TcpStream::connect(server.address).unwrap();
    queued.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut silent = std::net::TcpStream::connect(server.address).unwrap();
    server.shutdown.cancel();
    server.task.await.unwrap();
    let mut answer = String::new();
    queued.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    assert_eq!(silent.read(&mut [0; 64]).unwrap(), 0, "closed, not reset");
}

#[tokio::test]
async fn dropping_the_server_cuts_everything() {
    let server = Server::start().await;
    let mut busy = server.connect().await;
    busy.write_all(format!("{POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n").as_bytes())
        .await
        .unwrap();
    assert!(answer(&mut busy, false).await.0.starts_with("http/1.1 100"));
    server.task.abort();
    assert_eq!(rest(&mut busy).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http_2_that_says_nothing_is_let_go() {
    let service = HttpService::new(Node::builder().build(), HttpOptions::default());
    let (_silent, stream) = tokio::io::duplex(1_024);
    let served = connection_of_many(stream, service.clone(), Some(CancellationToken::new()));
    tokio::time::timeout(Duration::from_secs(60), served).await.expect("it was waited for");

    // During a shutdown it is waited for a moment only.
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    for shutdown in [Some(shutdown), None] {
        let (_silent, stream) = tokio::io::duplex(1_024);
        let served = connection_of_many(stream, service.clone(), shutdown);
        tokio::time::timeout(Duration::from_secs(2), served).await.expect("it was waited for");
    }
}

/// It answers no ping: its network is gone.
#[tokio::test(start_paused = true)]
async fn a_client_of_http_2_that_is_gone_is_noticed() {
    let service = HttpService::new(Node::builder().build(), HttpOptions::default());
    let (mut client, stream) = tokio::io::duplex(1_024);
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let served = connection_of_many(stream, service, Some(CancellationToken::new()));
    tokio::time::timeout(2 * HEADER_WITHIN, served).await.expect("it was not noticed");
}
