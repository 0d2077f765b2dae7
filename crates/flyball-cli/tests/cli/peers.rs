//! `flyball peers` against answers of a node, and what is none.

use super::responder::{answer, responder};
use super::support::{Ended, Node, Running, flyball, run};

const BODY: &str = r#"{"self":"a:1051","epoch":7,"peers":[
    {"grpc_address":"a:1051","data_center":"north","is_self":true,"share":0.5,"state":"up","since_ms":1700000000000,
     "last_error":null,"last_error_age_ms":null,"queued":0,"in_flight":0,"calls":0,"failures":0,"fallbacks":0},
    {"grpc_address":"b:1051","data_center":"north","is_self":false,"share":0.5,"state":"down","since_ms":1700000000000,
     "last_error":"connection refused","last_error_age_ms":1500,"queued":3,"in_flight":1,"calls":12345,"failures":2,
     "fallbacks":9,"new_field":1}]}"#;

fn node(answers: Vec<String>) -> String {
    responder("/v1/admin/peers", answers)
}

fn peers(http: &str, args: &str) -> Ended {
    run(flyball(["peers", "--http", http]).args(args.split_whitespace()))
}

#[test]
fn every_peer_is_a_line() {
    let ended = peers(&node(vec![answer("200 OK", BODY)]), "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!((lines.len(), lines[0]), (5, "a:1051 sees 2 peers (epoch 7)"), "{ended:?}");
    for part in ["b:1051", "north", "50.0 %", "down", "12 345", "1.5 s ago: connection refused"] {
        assert!(lines[4].contains(part), "{part}: {ended:?}");
    }
    let address = node(vec![answer("200 OK", BODY)]);
    let ended = run(flyball(["peers", "--json"]).env("GUBER_HTTP_ADDRESS", address));
    let given: serde_json::Value = serde_json::from_str(BODY).unwrap();
    assert_eq!((ended.code, ended.json()), (Some(0), given), "{ended:?}");
}

#[test]
fn a_node_alone_sees_itself() {
    let node = Node::start();
    let ended = peers(&format!("http://{}", node.http), "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.starts_with(&format!("{} sees 1 peer (epoch ", node.grpc)), "{ended:?}");
    assert!(ended.out.contains("(this node)") && ended.out.contains("100.0 %"), "{ended:?}");
}

#[test]
fn without_an_answer_it_is_one_line_that_says_why() {
    let foreign = answer("200 OK", r#"{"hello":"\u001b[2J"}"#);
    for (given, expected) in [
        (answer("404 Not Found", "{}"), "http.admin"),
        (answer("500 Internal Server Error", "{}"), "is this the HTTP address of a node?"),
        (foreign, "this is not a node's answer"),
        ("\x1b[2J\r\n".to_owned(), "it does not speak HTTP/1.1"),
    ] {
        let ended = peers(&node(vec![given]), "");
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.error_line().contains(expected) && !ended.err.contains('\x1b'), "{ended:?}");
    }
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ended = peers(&silent.local_addr().unwrap().to_string(), "--timeout 50ms");
    assert!(ended.error_line().ends_with("no answer within 50ms"), "{ended:?}");
}

/// It asks on through answers and failures alike; the first line of error says that two answers came before.
#[test]
fn watching_goes_on() {
    let http = node(vec![answer("200 OK", BODY), answer("200 OK", BODY)]);
    let mut watching = Running::start(&mut flyball(["peers", "--watch", "--json", "--http", &http]));
    let error = watching.line().unwrap();
    assert!(error.contains("cannot connect"), "{error}");
    assert!(watching.line().unwrap().contains("cannot connect"));
    watching.signal(rustix::process::Signal::INT);
    let ended = watching.end();
    assert_eq!((ended.code, ended.out.lines().count()), (None, 2), "{ended:?}");
}
