//! Names in the files that deploy a node.

use flyball_tests::deploy::{
    alert_expressions, asked_metrics, dashboard_queries, files, has_series, is_known, is_optional, read,
    variables,
};
use flyball_tests::in_process::InProcess;

#[test]
fn every_variable_in_them_is_known() {
    let mut checked = 0;
    for (path, text) in files().unwrap() {
        // Samples of an application's own variables are in the manifests, but never under these prefixes.
        for variable in variables(&text).unwrap() {
            // What Kubernetes makes of services, named in a comment; and what the build is given.
            let foreign = ["FLYBALL_PORT", "FLYBALL_COMMIT"].contains(&variable.as_str());
            assert!(foreign || is_known(&variable), "{path} names {variable}, which is no setting");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

/// The version of the files is that of the program.
#[test]
fn they_name_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = read("deploy/helm/flyball/Chart.yaml").unwrap();
    assert!(chart.contains(&format!("\nappVersion: \"{version}\"\n")), "{chart}");
    let image = regex::Regex::new(r"\bflyball:(\d+\.\d+\.\d+)\b").unwrap();
    let mut named = 0;
    for (path, text) in files().unwrap() {
        for found in image.captures_iter(&text) {
            assert_eq!(&found[1], version, "{path}");
            named += 1;
        }
    }
    assert!(named >= 5, "{named}");
}

/// Deployments wait longer for a node to stop than the node takes: delay, timeout, a second for traces.
#[test]
fn nobody_kills_a_node_that_is_stopping() {
    let number = |text: &str, pattern: &str| -> u64 {
        let pattern = regex::Regex::new(pattern).unwrap();
        pattern.captures(text).unwrap_or_else(|| panic!("no {pattern} in\n{text}"))[1].parse().unwrap()
    };
    for (path, patience, default_delay) in [
        ("deploy/kubernetes/flyball.yaml", r"terminationGracePeriodSeconds: (\d+)", None),
        ("deploy/kubernetes/sidecar.yaml", r"terminationGracePeriodSeconds: (\d+)", Some(0)),
        ("deploy/compose/compose.yaml", r"stop_grace_period: (\d+)s", None),
        ("deploy/nomad/flyball.nomad.hcl", r#"kill_timeout = "(\d+)s""#, None),
        ("deploy/systemd/flyball.service", r"TimeoutStopSec=(\d+)s", Some(0)),
    ] {
        let text = read(path).unwrap();
        let delay = default_delay.unwrap_or_else(|| {
            number(&text, r#"GUBER_GRACEFUL_TERMINATION_DELAY_SEC(?:, value)?\s*[:=]\s*"(\d+)""#)
        });
        let timeout = flyball_server::config::Config::default().shutdown.timeout.as_secs();
        let needed = delay + timeout + 1;
        let patience = number(&text, patience);
        assert!(patience > needed, "{path}: patience of {patience} s, and a stop takes up to {needed} s");
    }
}

#[test]
fn the_dashboard_and_the_rules_can_be_read() {
    let queries = dashboard_queries().unwrap();
    assert!(queries.len() > 40, "{}", queries.len());
    assert!(queries.iter().all(|(_, query)| !query.contains('$')), "{queries:?}");
    let alerts = alert_expressions().unwrap();
    assert!(alerts.len() > 15 && alerts.iter().all(|(_, expression)| !expression.is_empty()), "{alerts:?}");
    let tests = read("deploy/prometheus/flyball.rules.test.yml").unwrap();
    for (alert, _) in alerts {
        for end in ["fires", "is quiet"] {
            assert!(tests.contains(&format!("  - name: {alert} {end}\n")), "no test that {alert} {end}");
        }
    }
}

/// What rules and dashboard ask about certificates and the source of peers is on the page of a node that has both. The
/// other metrics are asked of running nodes by their tool, in `deploy_tools`.
#[test]
fn metrics_of_certificates_and_discovery_are_there_where_they_are_in_use() {
    let node = InProcess::with_env(&[("GUBER_TLS_AUTO", "true"), ("FLYBALL_PEERS", "127.0.0.1:1")]).unwrap();
    let page = node.daemon().node().metrics().scrape();
    let asked: Vec<String> = asked_metrics().unwrap().into_iter().filter(|name| is_optional(name)).collect();
    assert!(asked.len() >= 4, "{asked:?}");
    for metric in asked {
        assert!(has_series(&page, &metric), "no {metric} in\n{page}");
    }
}
