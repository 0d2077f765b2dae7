//! Spans in a real collector: Jaeger takes them over OTLP and is asked what it got.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::time::Duration;

use flyball::pb::v1_client::V1Client;
use flyball::pb::{GetRateLimitsReq, HealthCheckReq, LiveCheckReq, RateLimitReq};
use flyball_tests::binary::{Launch, Server, clean, free_addresses};
use flyball_tests::http::{Connection, Request};
use flyball_tests::node::token;
use flyball_tests::tools::Tool;
use flyball_tests::wait::poll;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};

/// Spans are sent every 50 ms; what is not there by then never comes.
const ARRIVES: Duration = Duration::from_secs(20);

/// A running collector. Dropping it kills it.
struct Jaeger {
    child: Child,
    query: SocketAddr,
    otlp_grpc: SocketAddr,
    otlp_http: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Jaeger {
    fn start() -> Self {
        let [query, query_grpc, otlp_grpc, otlp_http] = free_addresses().unwrap();
        // JSON is YAML.
        let config = json!({
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query"],
                "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["batch"], "exporters": ["jaeger_storage_exporter"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
            "extensions": {
                "jaeger_query": {
                    "storage": {"traces": "mem"},
                    "http": {"endpoint": query.to_string()},
                    "grpc": {"endpoint": query_grpc.to_string()},
                },
                "jaeger_storage": {"backends": {"mem": {"memory": {"max_traces": 10_000}}}},
            },
            "receivers": {"otlp": {"protocols": {
                "grpc": {"endpoint": otlp_grpc.to_string()},
                "http": {"endpoint": otlp_http.to_string()},
            }}},
            "processors": {"batch": {}},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "mem"}},
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jaeger.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = clean(&Tool::Jaeger.path());
        command.arg("--config").arg(&file).stdin(Stdio::null());
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let jaeger = Self { child, query, otlp_grpc, otlp_http, _folder: folder };
        let ready = poll(ARRIVES, || {
            jaeger.ask("/api/services").and_then(|_| std::net::TcpStream::connect(otlp_grpc).ok())
        });
        assert!(ready.is_some(), "{}", std::fs::read_to_string(jaeger._folder.path().join("log")).unwrap());
        jaeger
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let response = Connection::new(self.query).send(&Request::get(path)).ok()?;
        (response.status == 200).then(|| response.json().ok())?
    }

    /// The spans of a trace, once it has at least so many.
    fn trace(&self, id: &str, spans: usize) -> Trace {
        let found = poll(ARRIVES, || {
            let answer = self.ask(&format!("/api/traces/{id}"))?;
            let trace = Trace::new(&answer["data"][0]);
            (trace.spans.len() >= spans).then_some(trace)
        });
        found.unwrap_or_else(|| {
            panic!("trace {id} never had {spans} spans: {:?}", self.ask(&format!("/api/traces/{id}")))
        })
    }
}

impl Drop for Jaeger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Span {
    id: String,
    parent: Option<String>,
    name: String,
    tags: BTreeMap<String, Value>,
    events: Vec<BTreeMap<String, Value>>,
    process: String,
}

#[derive(Debug)]
struct Trace {
    spans: Vec<Span>,
    processes: BTreeMap<String, (String, BTreeMap<String, Value>)>,
}

fn tags(list: &Value) -> BTreeMap<String, Value> {
    let list = list.as_array().into_iter().flatten();
    list.map(|tag| (tag["key"].as_str().unwrap().to_owned(), tag["value"].clone())).collect()
}

impl Trace {
    fn new(data: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let spans = data["spans"].as_array().into_iter().flatten().map(|span| Span {
            id: text(&span["spanID"]),
            parent: span["references"]
                .as_array()
                .into_iter()
                .flatten()
                .next()
                .map(|parent| text(&parent["spanID"])),
            name: text(&span["operationName"]),
            tags: tags(&span["tags"]),
            events: span["logs"].as_array().into_iter().flatten().map(|log| tags(&log["fields"])).collect(),
            process: text(&span["processID"]),
        });
        let processes = data["processes"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(id, process)| (id.clone(), (text(&process["serviceName"]), tags(&process["tags"]))));
        Self { spans: spans.collect(), processes: processes.collect() }
    }

    fn named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    #[track_caller]
    fn one(&self, name: &str) -> &Span {
        match self.named(name)[..] {
            [span] => span,
            _ => panic!("one {name} in {self:?}"),
        }
    }
}

impl Span {
    #[track_caller]
    fn has(&self, key: &str, value: impl Into<Value>) {
        assert_eq!(self.tags.get(key), Some(&value.into()), "{key} of {self:?}");
    }
}

const GET: &str = "pb.gubernator.V1/GetRateLimits";
const LOCAL: &str = "V1Instance.getLocalRateLimit";
const PARENT: &str = "00f067aa0ba902b7";

/// A client whose calls say that they belong to a trace. It answers the server only while it calls, so it has to go
/// before the server is asked to stop.
struct Client {
    runtime: Runtime,
    channel: Channel,
}

impl Client {
    fn new(server: &Server) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc())).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Self { runtime, channel }
    }

    fn request<T>(message: T, trace: &str, flags: &str) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let parent = format!("00-{trace}-{PARENT}-{flags}");
        request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        request
    }

    fn get(&self, items: Vec<RateLimitReq>, trace: &str, flags: &str) {
        let request = Self::request(GetRateLimitsReq { requests: items }, trace, flags);
        self.runtime.block_on(V1Client::new(self.channel.clone()).get_rate_limits(request)).unwrap();
    }
}

/// A trace id that is this number.
fn trace_id(number: u32) -> String {
    // Jaeger shows ids without leading zeros in some places; so there are none.
    format!("4bf92f3577b34da6a3ce929d{number:08x}")
}

fn traced(endpoint: SocketAddr) -> Launch {
    Launch::flyball()
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{endpoint}"))
        .variable("OTEL_BSP_SCHEDULE_DELAY", "50")
        .variable("GUBER_INSTANCE_ID", "traced-1")
}

#[test]
fn spans_arrive_with_names_attributes_and_parents() {
    let jaeger = Jaeger::start();
    for (number, protocol, endpoint) in
        [(1, "grpc", jaeger.otlp_grpc), (2, "http/protobuf", jaeger.otlp_http)]
    {
        let server = traced(endpoint).variable("OTEL_EXPORTER_OTLP_PROTOCOL", protocol).start().unwrap();
        let client = Client::new(&server);
        let id = trace_id(number);
        let bad = RateLimitReq { algorithm: 9, ..token("bad") };
        client.get(vec![RateLimitReq { hits: 3, ..token("good") }, bad], &id, "01");
        let trace = jaeger.trace(&id, 3);

        let call = trace.one(GET);
        assert_eq!(call.parent.as_deref(), Some(PARENT));
        call.has("span.kind", "server");
        call.has("rpc.system", "grpc");
        call.has("rpc.service", "pb.gubernator.V1");
        call.has("rpc.method", "GetRateLimits");
        call.has("net.sock.peer.addr", "127.0.0.1");
        assert!(call.tags["net.sock.peer.port"].as_i64().unwrap() > 0);
        call.has("rpc.grpc.status_code", 0);
        call.has("item.count", 2);
        call.has("log.level", "INFO");
        // An item's error is an event of the call, which is fine itself.
        assert!(!call.tags.contains_key("error"), "{call:?}");
        assert_eq!(call.events.len(), 1, "{call:?}");
        assert!(
            call.events[0]["exception.message"]
                .as_str()
                .unwrap()
                .contains("Invalid rate limit algorithm '9'")
        );

        let items = trace.named(LOCAL);
        assert_eq!(items.len(), 2, "{trace:?}");
        for item in &items {
            assert_eq!(item.parent.as_deref(), Some(call.id.as_str()));
            item.has("ratelimit.name", "test");
            item.has("ratelimit.limit", 10);
            item.has("ratelimit.duration", 60_000);
            item.has("log.level", "INFO");
        }
        let item = |key: &str| *items.iter().find(|item| item.tags["ratelimit.key"] == key).unwrap();
        item("good").has("ratelimit.hits", 3);
        item("bad").has("error", true);

        let (service, resource) = &trace.processes[&call.process];
        assert_eq!(service, "gubernator");
        assert_eq!(resource["service.instance.id"], "traced-1");
        assert!(resource.contains_key("service.version"), "{resource:?}");
        drop(client);
        server.stop().unwrap();
    }
}

#[test]
fn the_callers_sampling_is_respected() {
    let jaeger = Jaeger::start();
    let server = traced(jaeger.otlp_grpc).start().unwrap();
    let client = Client::new(&server);
    let (unsampled, sampled) = (trace_id(1), trace_id(2));
    client.get(vec![token("unsampled")], &unsampled, "00");
    client.get(vec![token("sampled")], &sampled, "01");
    jaeger.trace(&sampled, 2);
    drop(client);
    server.stop().unwrap();
    // Everything there was has been sent by now, in order.
    assert_eq!(jaeger.ask(&format!("/api/traces/{unsampled}")).map(|answer| answer["data"].clone()), None);
}

#[test]
fn health_and_live_checks_have_spans() {
    let jaeger = Jaeger::start();
    let server = traced(jaeger.otlp_grpc).variable("OTEL_SERVICE_NAME", "limits").start().unwrap();
    let client = Client::new(&server);
    let (health, live) = (trace_id(1), trace_id(2));
    client
        .runtime
        .block_on(async {
            let mut v1 = V1Client::new(client.channel.clone());
            v1.health_check(Client::request(HealthCheckReq {}, &health, "01")).await?;
            v1.live_check(Client::request(LiveCheckReq {}, &live, "01")).await
        })
        .unwrap();
    let trace = jaeger.trace(&health, 1);
    let span = trace.one("pb.gubernator.V1/HealthCheck");
    span.has("health.status", "healthy");
    span.has("health.peerCount", 1);
    assert_eq!(trace.processes[&span.process].0, "limits");
    jaeger.trace(&live, 1).one("pb.gubernator.V1/LiveCheck").has("rpc.method", "LiveCheck");
}

/// Both the usual header and the gateway's own form of it.
#[test]
fn http_calls_belong_to_their_callers_trace() {
    let jaeger = Jaeger::start();
    let server = traced(jaeger.otlp_grpc).start().unwrap();
    let body =
        json!({"requests": [{"name": "t", "unique_key": "k", "limit": 10, "duration": 60_000}]}).to_string();
    for (number, header) in [(1, "traceparent"), (2, "Grpc-Metadata-Traceparent")] {
        let id = trace_id(number);
        let request =
            Request::post("/v1/GetRateLimits", body.clone()).header(header, &format!("00-{id}-{PARENT}-01"));
        assert_eq!(server.connect().send(&request).unwrap().status, 200);
        let trace = jaeger.trace(&id, 2);
        assert_eq!(trace.one(GET).parent.as_deref(), Some(PARENT), "{header}");
        trace.one(LOCAL).has("ratelimit.key", "k");
    }
}

#[test]
fn level_error_leaves_only_the_calls() {
    let jaeger = Jaeger::start();
    let server = traced(jaeger.otlp_grpc).variable("GUBER_TRACING_LEVEL", "ERROR").start().unwrap();
    let client = Client::new(&server);
    let id = trace_id(1);
    client.get(vec![token("a"), token("b")], &id, "01");
    jaeger.trace(&id, 1);
    drop(client);
    server.stop().unwrap();
    let trace = jaeger.trace(&id, 1);
    trace.one(GET).has("item.count", 2);
    assert_eq!(trace.spans.len(), 1, "{trace:?}");
}

/// A collector that is not there, and one that takes connections and says nothing. The library's own patience
/// for one batch is longer than [`Server::stop`] waits.
#[test]
fn a_missing_or_silent_collector_does_not_hold_up_the_stop() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let [missing] = free_addresses().unwrap();
    for endpoint in [missing, silent.local_addr().unwrap()] {
        for protocol in ["grpc", "http/protobuf"] {
            let server = traced(endpoint)
                .variable("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
                .variable("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")
                .start()
                .unwrap();
            Client::new(&server).get(vec![token("lost")], &trace_id(1), "01");
            let (status, log) = server.stop().unwrap();
            assert!(status.success(), "{status} {log}");
        }
    }
}
