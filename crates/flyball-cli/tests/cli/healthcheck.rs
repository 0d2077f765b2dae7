//! `flyball healthcheck` against healthy, unhealthy, stopped and foreign answers.

use std::net::TcpListener;

use super::responder::answer;
use super::support::{Ended, Node, deserted, flyball, run};

fn responder(answers: Vec<String>) -> String {
    super::responder::responder("/v1/HealthCheck", answers)
}

fn unhealthy() -> String {
    answer("503 Service Unavailable", r#"{"code":14,"message":"peer 10.0.0.7:1051 is gone","details":[]}"#)
}

fn healthy() -> String {
    answer("200 OK", r#"{"status":"healthy","message":"","peer_count":1}"#)
}

fn healthcheck(address: &str, args: &str) -> Ended {
    run(flyball(["healthcheck", "--address", address]).args(args.split_whitespace()))
}

#[test]
fn p33_a_healthy_node_is_0() {
    let node = Node::start();
    let ended = healthcheck(&node.http, "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.out, format!("{} is healthy\n", node.http));
    // The way a container does it: the daemon's own variable, with its wildcard.
    let port = node.http.rsplit_once(':').unwrap().1;
    for listen in [format!("0.0.0.0:{port}"), format!(":{port}")] {
        let ended = run(flyball(["healthcheck"]).env("GUBER_HTTP_ADDRESS", listen));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn address_and_attempts_may_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let (conf, toml) = (folder.path().join("node.conf"), folder.path().join("node.toml"));
    std::fs::write(&conf, "GUBER_HTTP_RETRY_COUNT=2\n").unwrap();
    let address = responder(vec![unhealthy(), healthy()]);
    std::fs::write(&toml, format!("[http]\naddress = \"{address}\"\n")).unwrap();
    let ended = run(flyball(["healthcheck", "--config"]).arg(&conf).arg("--config").arg(&toml));
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 2), "{ended:?}");
    // A mistake in a variable that only the daemon reads is no illness.
    let node = Node::start();
    let ended =
        run(flyball(["healthcheck"]).env("GUBER_HTTP_ADDRESS", &node.http).env("GUBER_BATCH_WAIT", "abc"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn the_grpc_port_is_called_by_its_name() {
    let node = Node::start();
    let ended = healthcheck(&node.grpc, "");
    assert_eq!(ended.code, Some(1));
    let expected = format!("{}: it does not speak HTTP/1.1; is this the gRPC port?", node.grpc);
    assert!(ended.out.starts_with(&expected), "{ended:?}");
}

#[test]
fn what_a_server_says_cannot_steer_the_terminal() {
    let hostile = answer("503 Service Unavailable", r#"{"code":14,"message":"\u001b[2J\nhealthy"}"#);
    let address = responder(vec![hostile]);
    let ended = healthcheck(&address, "");
    assert_eq!(ended.out, format!("{address} is unhealthy: \\u{{1b}}[2J\\nhealthy\n"), "{ended:?}");
}

#[test]
fn p33_an_unhealthy_node_is_2() {
    let address = responder(vec![unhealthy()]);
    let ended = healthcheck(&address, "");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(ended.out, format!("{address} is unhealthy: peer 10.0.0.7:1051 is gone\n"));
}

#[test]
fn p33_a_stopped_node_is_1() {
    let node = Node::start();
    let address = node.http.clone();
    node.stop();
    let ended = healthcheck(&address, "");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.out.lines().count(), 1);
    assert!(ended.out.starts_with(&format!("{address}: cannot connect: ")), "{ended:?}");
}

#[test]
fn anything_else_on_the_port_is_1() {
    for foreign in [
        answer("200 OK", "<html>hello</html>"),
        answer("404 Not Found", r#"{"code":5,"message":"Not Found","details":[]}"#),
        answer("503 Service Unavailable", "upstream is down"),
        "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{".to_owned(),
        "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
        String::new(),
    ] {
        let ended = healthcheck(&responder(vec![foreign.clone()]), "");
        assert_eq!(ended.code, Some(1), "{foreign:?}: {ended:?}");
        assert_eq!(ended.out.lines().count(), 1, "{foreign:?}: {ended:?}");
    }
}

#[test]
fn an_answer_without_end_is_given_up() {
    let endless = "x".repeat(3 << 20);
    let ended = healthcheck(&responder(vec![format!("HTTP/1.1 200 OK\r\n\r\n{endless}")]), "");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("cannot read the answer"), "{ended:?}");
}

#[test]
fn a_port_that_never_answers_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let ended = healthcheck(&silent.local_addr().unwrap().to_string(), "--timeout 50ms");
    assert_eq!(ended.code, Some(1));
    assert!(ended.out.ends_with("no answer within 50ms\n"), "{ended:?}");
}

#[test]
fn attempts_are_a_line_each_and_the_last_one_counts() {
    let address = responder(vec![unhealthy(), answer("404 Not Found", ""), healthy()]);
    let ended = healthcheck(&address, "--attempts 5");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.lines().count(), 3, "{ended:?}");

    let ended = run(flyball(["healthcheck"])
        .env("GUBER_HTTP_ADDRESS", responder(vec![answer("404 Not Found", ""), unhealthy()]))
        .env("GUBER_HTTP_RETRY_COUNT", "2"));
    assert_eq!((ended.code, ended.out.lines().count()), (Some(2), 2), "{ended:?}");
}

#[test]
fn a_retry_count_that_is_no_number_is_1() {
    let ended = run(flyball(["healthcheck", "--address", &deserted()]).env("GUBER_HTTP_RETRY_COUNT", "many"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.error_line().starts_with("error: GUBER_HTTP_RETRY_COUNT=many: expected a whole number"));
}
