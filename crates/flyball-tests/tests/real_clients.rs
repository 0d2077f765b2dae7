//! Clients nobody here wrote, against the running binary: the original's own Go client library and load tool,
//! grpcurl through reflection, Python's grpcio, curl.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::path::Path;
use std::process::Command;

use flyball_tests::binary::{Launch, Server, clean};
use flyball_tests::conformance::attempt::Attempt;
use flyball_tests::conformance::scenario::{self, When};
use flyball_tests::conformance::{data, expect};
use flyball_tests::http::{Request, Response};
use flyball_tests::tools::{Output, Tool, run};
use serde_json::{Value, json};

/// Ours in both semantics: a client must not have to know.
fn both() -> [Server; 2] {
    [Launch::flyball().start().unwrap(), Launch::flyball_like_gubernator().start().unwrap()]
}

fn all_passed(output: Output) {
    println!("{}", output.stdout);
    let said = output.expect_success();
    assert!(said.contains(" passed, 0 failed"), "{said}");
}

#[test]
fn go_client_library() {
    for server in both() {
        all_passed(run(Tool::GoClient.command().arg(server.grpc().to_string())).unwrap());
    }
}

fn python(server: &Server) -> Output {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/python/client.py");
    let mut command = Tool::Python.command();
    command.env("PYTHONPATH", Tool::PyStubs.path()).arg("-B").arg(program).arg(server.grpc().to_string());
    run(&mut command).unwrap()
}

#[test]
fn python_grpcio() {
    for server in both() {
        all_passed(python(&server));
    }
}

/// The client programs ask for nothing that the original does not give.
#[test]
fn client_programs_pass_on_the_original() {
    let server = Launch::gubernator().start().unwrap();
    all_passed(run(Tool::GoClient.command().arg(server.grpc().to_string())).unwrap());
    all_passed(python(&server));
}

/// The load tool of v2.21.0 ends before it connects to anything, whatever it is told. The day a release of it
/// starts, this test fails, and a test of it belongs here.
#[test]
fn original_load_tool_does_not_start() {
    let server = Launch::flyball().start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cli.conf");
    std::fs::write(&file, format!("GUBER_GRPC_ADDRESS={}\n", server.grpc())).unwrap();
    for exporter in ["none", "otlp"] {
        let mut command = clean(&Tool::GubernatorCli.path());
        command.env("OTEL_TRACES_EXPORTER", exporter);
        command.arg("-config").arg(&file).args(["-e", &server.grpc().to_string(), "-q"]);
        let output = run(&mut command).unwrap();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(
            output.stdout.contains("conflicting Schema URL")
                || output.stderr.contains("conflicting Schema URL")
        );
    }
}

fn grpcurl(server: &Server, before: &[&str], after: &[&str]) -> Output {
    let mut command = Tool::Grpcurl.command();
    command.args(["-plaintext", "-max-time", "10"]).args(before).arg(server.grpc().to_string()).args(after);
    run(&mut command).unwrap()
}

#[test]
fn grpcurl_by_reflection() {
    let server = Launch::flyball().start().unwrap();
    let list = grpcurl(&server, &[], &["list"]).expect_success();
    for service in ["pb.gubernator.V1", "pb.gubernator.PeersV1", "grpc.health.v1.Health"] {
        assert!(list.lines().any(|line| line == service), "{list}");
    }
    let methods = grpcurl(&server, &[], &["list", "pb.gubernator.V1"]).expect_success();
    for method in ["GetRateLimits", "HealthCheck", "LiveCheck"] {
        assert!(methods.lines().any(|line| line == format!("pb.gubernator.V1.{method}")), "{methods}");
    }
    let item = grpcurl(&server, &[], &["describe", "pb.gubernator.RateLimitReq"]).expect_success();
    for field in ["string unique_key = 2;", "optional int64 created_at = 10;", "int64 max_wait = 11;"] {
        assert!(item.contains(field), "{item}");
    }
    let body = json!({"requests": [
        {"name": "grpcurl", "unique_key": "k", "hits": 3, "limit": 10, "duration": 60_000, "algorithm": "LEAKY_BUCKET"},
        {"name": "grpcurl", "unique_key": ""},
    ]});
    let answer =
        grpcurl(&server, &["-emit-defaults", "-d", &body.to_string()], &["pb.gubernator.V1/GetRateLimits"]);
    let answer: Value = serde_json::from_str(&answer.expect_success()).unwrap();
    assert_eq!(answer["responses"][0]["remaining"], "7", "{answer}");
    assert_eq!(answer["responses"][1]["error"], "field 'unique_key' cannot be empty", "{answer}");
    let health = grpcurl(&server, &[], &["grpc.health.v1.Health/Check"]).expect_success();
    assert!(health.contains("\"SERVING\""), "{health}");
    let service = r#"{"service":"pb.gubernator.V1"}"#;
    let health = grpcurl(&server, &["-d", service], &["grpc.health.v1.Health/Check"]).expect_success();
    assert!(health.contains("\"SERVING\""), "{health}");
    let too_many = json!({"requests": vec![json!({}); 1_001]}).to_string();
    let refused = grpcurl(&server, &["-d", &too_many], &["pb.gubernator.V1/GetRateLimits"]);
    assert!(!refused.success && refused.stderr.contains("Code: OutOfRange"), "{refused:?}");
}

/// What one run of curl got.
fn curl(server: &Server, request: &Request) -> Response {
    let folder = tempfile::tempdir().unwrap();
    let (head, body) = (folder.path().join("head"), folder.path().join("body"));
    let mut command: Command = Tool::Curl.command();
    // Nothing of the user's own settings, and no help: no redirects, no tidied paths.
    command.args(["--disable", "--silent", "--show-error", "--max-time", "20", "--path-as-is", "--globoff"]);
    command.arg("--dump-header").arg(&head).arg("--output").arg(&body);
    if request.method == "HEAD" {
        command.arg("--head");
    } else {
        command.args(["--request", &request.method]);
    }
    let mut content_type = request.body.as_ref().map(|_| Some("application/json".to_owned()));
    // Without this curl waits a second for a server's permission to send a large body.
    command.args(["--header", "Expect:"]);
    for (name, value) in &request.headers {
        if name.eq_ignore_ascii_case("content-type") {
            content_type = Some(value.clone());
        } else {
            let value = value.as_ref().expect("only a content type is ever left out");
            command.arg("--header").arg(format!("{name}: {value}"));
        }
    }
    match content_type {
        Some(Some(value)) => {
            command.arg("--header").arg(format!("Content-Type: {value}"));
        }
        // An empty value takes away curl's own.
        Some(None) => {
            command.args(["--header", "Content-Type:"]);
        }
        None => {}
    }
    if request.chunked {
        command.args(["--header", "Transfer-Encoding: chunked"]);
    }
    if let Some(bytes) = &request.body {
        let file = folder.path().join("data");
        std::fs::write(&file, bytes).unwrap();
        command.arg("--data-binary").arg(format!("@{}", file.display()));
    } else if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
        command.args(["--header", "Content-Length: 0"]);
    }
    command.arg(format!("http://{}{}", server.http(), request.path));
    run(&mut command).unwrap().expect_success();
    let head = std::fs::read_to_string(head).unwrap();
    // The last one, should there have been a 100 before it.
    let last = head.trim_end().rsplit("\r\n\r\n").next().unwrap_or_default();
    let mut lines = last.lines();
    let status = lines.next().and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let body = if request.method == "HEAD" { Vec::new() } else { std::fs::read(body).unwrap_or_default() };
    Response { status, headers, body }
}

/// Every recorded HTTP case that asks at once, each step by a curl of its own.
#[test]
fn curl_gets_the_recorded_http_answers() {
    let server = Launch::flyball_like_gubernator().start().unwrap();
    let mut steps = 0;
    for file in ["40-http", "41-http-json-errors", "42-http-size", "43-http-scheduled"] {
        let loose = file == "41-http-json-errors";
        for scenario in scenario::load(&data().join(format!("vectors/{file}.jsonl"))).unwrap() {
            let zone = jiff::tz::TimeZone::UTC;
            let mut attempt = Attempt::new(&zone, loose);
            for (number, step) in scenario.steps.iter().enumerate() {
                assert!(matches!(step.when, When::Now), "{} step {number} waits", scenario.id);
                let request = attempt.request(&step.what).unwrap();
                attempt.sent = flyball_tests::conformance::attempt::now_ms();
                let response = curl(&server, &request);
                attempt.received = flyball_tests::conformance::attempt::now_ms();
                attempt.times.push((attempt.sent, attempt.received));
                expect::check(&step.what, &response, &attempt)
                    .unwrap_or_else(|difference| panic!("{} step {number}: {difference}", scenario.id));
                steps += 1;
            }
        }
    }
    assert_eq!(steps, 256);
}
