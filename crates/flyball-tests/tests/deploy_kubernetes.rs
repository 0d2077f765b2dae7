//! What is given to `kubectl apply`, judged by a real API server as if it were to be there: the plain manifests and what
//! Helm makes of the chart, strictly, so that a field which the server would drop is a fault.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use flyball_tests::deploy::{CHART_VALUES, chart, chart_values, read};
use flyball_tests::kubernetes::{ApiServer, alone};
use flyball_tests::tools::Tool;
use serde_json::json;

/// The chart's namespace, where it says one itself.
const NAMESPACE: &str = "prod";

#[test]
fn an_api_server_takes_all_manifests() {
    alone("an_api_server_takes_all_manifests", || {
        let server = ApiServer::start(&[]).unwrap();
        server.define(&Tool::Crds.path()).unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        server.create("/api/v1/namespaces", &namespace).unwrap();

        let mut manifests: Vec<(String, String)> = ["flyball", "sidecar"]
            .map(|name| (name.to_owned(), read(&format!("deploy/kubernetes/{name}.yaml")).unwrap()))
            .into();
        manifests.push(("the chart".to_owned(), chart(&[]).unwrap().expect_success()));
        for values in CHART_VALUES {
            let text = chart(&[&chart_values(values)]).unwrap().expect_success();
            manifests.push((format!("the chart with the values {values}"), text));
        }
        for (name, text) in &manifests {
            let kinds = text.lines().filter(|line| line.starts_with("kind: ")).count();
            let said = server.judge(text, NAMESPACE).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            let taken = said.lines().filter(|line| line.ends_with("(server dry run)")).count();
            assert!(kinds > 2 && taken == kinds, "{name} has {kinds} objects:\n{said}");
        }
        a_mistake_is_found(&server, &manifests);
    });
}

/// In each kind of object, so that none of them goes unjudged.
fn a_mistake_is_found(server: &ApiServer, manifests: &[(String, String)]) {
    let mut judged = std::collections::BTreeSet::new();
    for object in manifests.iter().flat_map(|(_, text)| text.split("\n---\n")) {
        let Some(kind) = object.lines().find_map(|line| line.strip_prefix("kind: ")) else { continue };
        if !judged.insert(kind.to_owned()) {
            continue;
        }
        let wrong = object.replacen("\nmetadata:", "\nmetadatum: {}\nmetadata:", 1);
        assert_ne!(wrong, object, "{kind} has metadata");
        let error = server.judge(&wrong, NAMESPACE).expect_err(kind).to_string();
        assert!(error.contains("unknown field \"metadatum\""), "{kind}: {error}");
    }
    // Everything the chart can make.
    for kind in
        ["HorizontalPodAutoscaler", "NetworkPolicy", "PrometheusRule", "ScaledObject", "ServiceMonitor"]
    {
        assert!(judged.contains(kind), "{judged:?} lacks {kind}");
    }
}
