//! Rules and dashboard: checked by promtool, and asked of a Prometheus that scrapes running nodes.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use flyball_tests::cluster::{Cluster, Plan};
use flyball_tests::deploy::{
    alert_expressions, asked_metrics, dashboard_queries, has_series, is_optional, metrics, root,
};
use flyball_tests::http::{Connection, Request};
use flyball_tests::process::Process;
use flyball_tests::tools::{Tool, run};
use flyball_tests::wait::poll;
use serde_json::{Value, json};

/// A Prometheus whose first samples are not there by then hangs.
const SCRAPED: Duration = Duration::from_secs(60);

#[test]
fn promtool_accepts_the_rules_and_each_fires_when_it_should() {
    let folder = root().join("deploy/prometheus");
    let promtool =
        |arguments: [&str; 3]| run(Tool::Promtool.command().current_dir(&folder).args(arguments)).unwrap();
    let checked = promtool(["check", "rules", "flyball.rules.yml"]).expect_success();
    let alerts = alert_expressions().unwrap().len();
    assert!(checked.contains(&format!("{alerts} rules found")), "{checked}");
    promtool(["test", "rules", "flyball.rules.test.yml"]).expect_success();
}

/// Two nodes on 127.46.`network`.1 and .2.
fn busy_cluster(network: u8) -> Cluster {
    Plan::new(0, 2).on([127, 46, network]).patient().arguments(&["--metric-flags=os"]).start().unwrap()
}

/// Something of everything: own keys and others', GLOBAL ones, a refusal, an item error.
fn load(cluster: &Cluster) {
    const GLOBAL: i64 = 2;
    let item = |key: &str, hits: i64, behavior: i64| {
        json!({
            "name": "deploy", "unique_key": key, "hits": hits, "limit": 10, "duration": 60_000, "behavior": behavior,
        })
    };
    let mut items = vec![item("too-much", 1_000, 0), item("", 1, 0)];
    for number in 0..20 {
        items.push(item(&format!("key-{number}"), 1, 0));
        items.push(item(&format!("global-{number}"), 1, GLOBAL));
    }
    let body = json!({ "requests": items }).to_string();
    for node in cluster.nodes() {
        let answer = node.connect().send(&Request::post("/v1/GetRateLimits", body.clone())).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Every metric that a rule or the dashboard names is on the page of a node. Those of certificates and of discovery are
/// looked for in the test `deploy`.
#[test]
fn every_metric_that_is_asked_for_is_there() {
    let cluster = busy_cluster(1);
    let mut missing: BTreeSet<String> =
        asked_metrics().unwrap().into_iter().filter(|metric| !is_optional(metric)).collect();
    assert!(missing.len() > 35, "{missing:?}");
    // GLOBAL hits and news are under way for a moment.
    let all = poll(SCRAPED, || {
        load(&cluster);
        for node in cluster.nodes() {
            let page = node.connect().send(&Request::get("/metrics")).unwrap().text();
            missing.retain(|metric| !has_series(&page, metric));
        }
        missing.is_empty().then_some(())
    });
    assert!(all.is_some(), "no node has {missing:?}");
}

/// Prometheus understands every query, and those of the dashboard have an answer when nodes are at work.
#[test]
fn every_query_of_the_dashboard_has_an_answer() {
    let cluster = busy_cluster(2);
    let folder = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 46, 2, 250], 9090));
    let targets: Vec<String> = cluster.nodes().iter().map(|node| format!("'{}'", node.http())).collect();
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
         scrape_configs: [{{job_name: flyball, static_configs: [{{targets: [{}]}}]}}]\n",
        targets.join(", ")
    );
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let mut command = flyball_tests::binary::clean(&Tool::Prometheus.path());
    command.current_dir(folder.path()).arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=data");
    command.arg(format!("--web.listen-address={address}"));
    let prometheus = Process::start(command, folder.path().join("log")).unwrap();

    let here = |query: &str| metrics(query).unwrap().iter().all(|metric| !is_optional(metric));
    let mut open: Vec<(String, String)> = dashboard_queries().unwrap();
    let mut last = String::new();
    let answered = poll(SCRAPED, || {
        load(&cluster);
        open.retain(|(_, query)| match ask(address, query) {
            Ok(series) => here(query) && series == 0,
            Err(error) => {
                last = error;
                true
            }
        });
        open.is_empty().then_some(())
    });
    assert!(answered.is_some(), "no answer to {open:#?}\n{last}\n{}", prometheus.log());
    for (alert, query) in alert_expressions().unwrap() {
        let firing = ask(address, &query).unwrap_or_else(|error| panic!("{alert}: {error}"));
        assert!(firing == 0, "{alert} fires on nodes that are well: {query}");
    }
}

/// How many series a query has; what Prometheus says when it does not understand it.
fn ask(address: SocketAddr, query: &str) -> Result<usize, String> {
    let mut request = Request::post("/api/v1/query", format!("query={}", escaped(query)));
    request = request.header("Content-Type", "application/x-www-form-urlencoded");
    let answer = Connection::new(address).send(&request).map_err(|error| error.to_string())?;
    let json: Value = answer.json()?;
    match json["status"].as_str() {
        Some("success") => Ok(json["data"]["result"].as_array().map_or(0, Vec::len)),
        _ => Err(format!("{query}: {json}")),
    }
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}
