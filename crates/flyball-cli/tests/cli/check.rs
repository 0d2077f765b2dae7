//! `flyball check` against a real node.

use super::support::{Node, deserted, flyball, run};

#[test]
fn verdicts_are_told_in_words_json_and_exit_codes() {
    let node = Node::start();
    let line = "api alice --limit 2 --duration 1h";

    let granted = node.check(line);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    assert!(granted.out.starts_with("GRANTED  1 of 2 left\n  window ends  in 1 h ("), "{granted:?}");

    let json = node.check(&format!("{line} --json"));
    assert_eq!(json.code, Some(0));
    let answer = json.json();
    assert_eq!((&answer["status"], &answer["limit"]), (&"UNDER_LIMIT".into(), &2.into()));
    assert_eq!((&answer["remaining"], &answer["error"]), (&0.into(), &"".into()));
    assert!(answer["reset_time"].as_i64().unwrap() > 1_700_000_000_000);

    let refused = node.check(line);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.out.starts_with("REFUSED  0 of 2 left\n  try again    in "), "{refused:?}");
    assert_eq!(node.check(&format!("{line} --json")).json()["status"], "OVER_LIMIT");

    let refund = node.check(&format!("{line} --hits -1"));
    assert!(refund.out.starts_with("GIVEN BACK  1 of 2 left"), "{refund:?}");
    let look = node.check(&format!("{line} --hits 0"));
    assert!(look.out.starts_with("UNDER LIMIT  1 of 2 left"), "{look:?}");

    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn bookings_and_hopeless_checks_have_codes_of_their_own() {
    let node = Node::start();
    let line = "jobs alice --algorithm leaky --limit 10 --duration 2m --max-wait 4m";
    assert_eq!(node.check(&format!("{line} --hits 10")).code, Some(0));

    let booked = node.check(&format!("{line} --hits 10"));
    assert_eq!(booked.code, Some(5), "{booked:?}");
    assert!(booked.out.starts_with("BOOKED  0 of 10 left\n  act          in "), "{booked:?}");
    assert!(node.check(&format!("{line} --json")).json()["retry_after"].as_i64().unwrap() >= 1);

    let hopeless = node.check(&format!("{line} --hits 11"));
    assert_eq!(hopeless.code, Some(4), "{hopeless:?}");
    assert!(hopeless.out.starts_with("NEVER FITS"), "{hopeless:?}");

    // A unit a second: long enough to be booked on a busy machine, short enough to wait for.
    let line = "jobs bob --algorithm leaky --limit 10 --duration 10s --max-wait 1m";
    assert_eq!(node.check(&format!("{line} --hits 10")).code, Some(0));
    let waited = node.check(&format!("{line} --hits 3 --wait"));
    assert_eq!(waited.code, Some(0), "{waited:?}");
    assert!(waited.out.starts_with("BOOKED"), "{waited:?}");
}

#[test]
fn every_option_reaches_the_node() {
    let node = Node::start();
    let calendar = node.check("a b --limit 5 --duration year --json").json();
    assert!(calendar["reset_time"].as_i64().unwrap() > 1_700_000_000_000);
    let burst = node.check("a c --limit 5 --duration 1h --algorithm LEAKY_BUCKET --burst 20 --hits 3");
    assert!(burst.out.starts_with("GRANTED  17 of 20 left\n  full again"), "{burst:?}");
    let drained = node.check("a d --limit 5 --duration 1h --hits 9 --behavior drain-over-limit,NO_BATCHING");
    assert!(drained.out.starts_with("REFUSED  0 of 5 left"), "{drained:?}");
    let refilled = node.check("a d --limit 5 --duration 1h --behavior reset-remaining --json").json();
    assert_eq!(refilled["remaining"], 5);
    // Far in the past: moved to the edge of what a node believes, so the window began five seconds ago.
    let reset = |line: &str| node.check(line).json()["reset_time"].as_i64().unwrap();
    let past = reset("a e --limit 5 --duration 1h --created-at 1000 --json");
    assert!(past < reset("a f --limit 5 --duration 1h --json"));
}

#[test]
fn a_check_the_node_calls_invalid_is_an_error_and_no_grant() {
    let node = Node::start();
    let ended = node.check("a b --limit -1 --duration 1s");
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.error_line(),
        "error: the node refused to judge this check: field 'limit' cannot be negative"
    );
    assert_eq!(ended.out, "");
    let ended = node.check("a b --limit 1 --duration 1s --max-wait 1s --json");
    assert_eq!(ended.code, Some(1));
    let answer = ended.json();
    assert_eq!(answer["status"], serde_json::Value::Null);
    assert_eq!(answer["error"], "max_wait is only supported by LEAKY_BUCKET");
}

#[test]
fn the_address_may_come_from_the_environment() {
    let node = Node::start();
    let line = ["check", "a", "b", "--limit", "5", "--duration", "1s"];
    let ended = run(flyball(line).env("GUBER_GRPC_ADDRESS", &node.grpc));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let port = node.grpc.rsplit_once(':').unwrap().1;
    let ended = run(flyball(line).env("GUBER_GRPC_ADDRESS", format!("0.0.0.0:{port}")));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = run(flyball(line).env("GUBER_GRPC_ADDRESS", "nonsense"));
    assert_eq!(ended.code, Some(1));
    assert!(ended.error_line().starts_with("error: GUBER_GRPC_ADDRESS: cannot use the address 'nonsense': "));
}

#[test]
fn the_address_may_come_from_a_file() {
    let node = Node::start();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let check = |file: &std::path::Path| {
        let line = ["check", "a", "b", "--limit", "5", "--duration", "1s", "--config"];
        // The file counts more than the environment, as it does for the daemon.
        run(flyball(line).arg(file).env("GUBER_GRPC_ADDRESS", deserted()))
    };
    let found = check(&file("node.conf", &format!("GUBER_GRPC_ADDRESS={}\n", node.grpc)));
    assert_eq!(found.code, Some(0), "{found:?}");
    let wrong = check(&file("wrong.conf", "GUBER_BATCH_WAIT=abc\n"));
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.error_line().contains("GUBER_BATCH_WAIT='abc'"), "{wrong:?}");
    let chosen = check(&file("chosen.conf", "GUBER_GRPC_ADDRESS=127.0.0.1:0\n"));
    assert!(chosen.error_line().contains("chosen.conf"), "{chosen:?}");
}

#[test]
fn the_http_port_is_called_by_its_name() {
    let node = Node::start();
    let ended =
        run(&mut flyball(["check", "a", "b", "--limit", "5", "--duration", "1s", "--address", &node.http]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    let expected =
        format!("error: {} ended the connection without a gRPC answer; is this the HTTP port, ", node.http);
    assert!(ended.error_line().starts_with(&expected), "{ended:?}");
}

#[test]
fn a_node_that_is_not_there_is_one_line_that_says_so() {
    let address = deserted();
    let ended =
        run(&mut flyball(["check", "a", "b", "--limit", "5", "--duration", "1s", "--address", &address]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    let line = ended.error_line();
    assert!(line.contains(&address) && line.contains("flyball serve") && line.contains("refused"), "{line}");
}

#[test]
fn a_node_that_never_answers_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let line =
        ["check", "a", "b", "--limit", "5", "--duration", "1s", "--timeout", "100ms", "--address", &address];
    let ended = run(&mut flyball(line));
    assert_eq!(ended.code, Some(1));
    assert!(ended.error_line().contains("within 100ms"), "{ended:?}");
}
