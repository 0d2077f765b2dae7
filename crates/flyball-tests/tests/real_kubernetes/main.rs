//! Nodes that find each other by a real Kubernetes API server, with the original beside. There are no controllers, so the
//! slices and the states of pods are those that the tests write.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod access;
mod pods;
mod server;
mod slices;

use std::time::Duration;

use flyball_tests::cluster::{Cluster, Plan};
use flyball_tests::http::Request;
use flyball_tests::kubernetes::{HOST, PORT};
use flyball_tests::wait::{poll, sleep_ms};
use serde_json::{Value, json};

/// For what takes a moment.
const SOON: Duration = Duration::from_secs(5);
/// How soon after the server is well again every node has to know who there is.
const RECOVERED: Duration = Duration::from_secs(10);

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const CORE: &str = "/api/v1/namespaces/default";

/// Nodes in pods, on 10.88.0.1 and up; none is started.
fn plan(nodes: u8) -> Plan {
    Plan::new(0, nodes).on([10, 88, 0]).found_by(&[
        ("GUBER_PEER_DISCOVERY_TYPE", "k8s"),
        ("GUBER_K8S_NAMESPACE", "default"),
        ("GUBER_K8S_SERVICE_NAME", "limits"),
        ("GUBER_K8S_POD_IP", "{ip}"),
        ("GUBER_K8S_POD_PORT", "1051"),
        ("KUBERNETES_SERVICE_HOST", HOST),
        ("KUBERNETES_SERVICE_PORT", PORT),
    ])
}

/// One pod's address in a slice.
fn ready(pod: u8) -> Value {
    endpoint(&format!("10.88.0.{pod}"), pod, &json!({"ready": true}))
}

fn endpoint(address: &str, pod: u8, conditions: &Value) -> Value {
    let uid = format!("00000000-0000-0000-0000-00000000000{pod}");
    let target = json!({"kind": "Pod", "namespace": "default", "name": format!("pod-{pod}"), "uid": uid});
    json!({"addresses": [address], "conditions": conditions, "targetRef": target})
}

fn slice(name: &str, service: &str, kind: &str, endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind, "endpoints": endpoints,
        "ports": [{"name": "grpc", "port": 9999, "protocol": "TCP"}],
    })
}

/// The service whose slices they are.
fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "limits"},
        "spec": {"clusterIP": "None", "selector": {"app": "flyball"}, "ports": [{"name": "grpc", "port": 1051}]},
    })
}

/// The addresses of a node's peers, itself included; none while it starts or is not healthy.
fn peers_of(cluster: &Cluster, node: usize) -> Vec<String> {
    let answer = cluster.node(node).connect().send(&Request::get("/v1/HealthCheck"));
    let json = answer.ok().and_then(|answer| answer.json().ok()).unwrap_or_default();
    let peers = json["local_peers"].as_array().cloned().unwrap_or_default();
    peers.iter().map(|peer| peer["grpc_address"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits until a node's peers are these.
#[track_caller]
fn has_peers(cluster: &Cluster, node: usize, expected: &[&str]) {
    let agreed = poll(SOON, || (peers_of(cluster, node) == expected).then_some(()));
    assert!(agreed.is_some(), "{:?} and not {expected:?}\n{}", peers_of(cluster, node), cluster.logs());
}

/// A node's peers stay as they are for a while.
#[track_caller]
fn keeps(cluster: &mut Cluster, nodes: &[usize], count: usize, ms: i64) {
    for _ in 0..ms / 100 {
        cluster.all_know(nodes, count, Duration::from_secs(1));
        sleep_ms(100);
    }
}

/// Waits until the metrics of a node say that its source fails, or the contrary.
#[track_caller]
fn is_soon_failing(cluster: &Cluster, node: usize, failing: bool) {
    let series = "flyball_discovery_failing{source=\"k8s\"}";
    let agreed =
        poll(RECOVERED, || ((cluster.node(node).metric(series).unwrap() > 0.5) == failing).then_some(()));
    assert!(agreed.is_some(), "failing should be {failing}\n{}", cluster.logs());
}
