//! The files that deploy a node, as texts: what tests of them share.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flyball_server::config::{SETTINGS, reference_page};
use regex::Regex;
use serde_json::Value;

use crate::tools::{Output, Tool, run};

/// The top folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of values that the chart's tests render, `deploy/helm/flyball/ci/NAME-values.yaml`; each says on top what it
/// is about.
pub const CHART_VALUES: [&str; 4] = ["dns", "everything", "keda", "original"];

/// What Helm makes of the chart with these arguments, for the namespace `prod`.
pub fn chart(arguments: &[&str]) -> anyhow::Result<Output> {
    let mut helm = Tool::Helm.command();
    helm.current_dir(root().join("deploy/helm"));
    // Helm's own idea of the cluster's version, when nobody asks one, is old.
    helm.args(["template", "limits", "flyball", "--kube-version=1.37.0", "--namespace", "prod"]);
    run(helm.args(arguments))
}

/// The argument for one of [`CHART_VALUES`].
pub fn chart_values(name: &str) -> String {
    format!("--values=flyball/ci/{name}-values.yaml")
}

/// A file of the repository.
pub fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("reading {path}"))
}

/// Every file below `deploy/` with its path from the top folder, links followed.
pub fn files() -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    collect(&root().join("deploy"), "deploy", &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, name: &str, found: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {name}"))? {
        let path = entry?.path();
        let name = format!("{name}/{}", path.file_name().unwrap_or_default().display());
        if path.is_dir() {
            collect(&path, &name, found)?;
        } else {
            found.push((name.clone(), fs::read_to_string(&path).with_context(|| format!("reading {name}"))?));
        }
    }
    Ok(())
}

/// The variables that a text names.
pub fn variables(text: &str) -> anyhow::Result<BTreeSet<String>> {
    let names = Regex::new(r"\b(?:GUBER|FLYBALL|OTEL)_[A-Z0-9_]*[A-Z0-9]\b")?;
    Ok(names.find_iter(text).map(|name| name.as_str().to_owned()).collect())
}

/// Whether a variable is known: of a setting, or at least named in the reference.
pub fn is_known(variable: &str) -> bool {
    let mut settings = SETTINGS.into_iter().flatten();
    settings.any(|setting| setting.env.contains(&variable))
        || reference_page().contains(&format!("`{variable}`"))
}

/// The metrics that a text names. A histogram's and a summary's series count by the names they are scraped under.
pub fn metrics(text: &str) -> anyhow::Result<BTreeSet<String>> {
    let names = Regex::new(r"\b(?:gubernator|flyball|promhttp)_[a-z0-9_]*[a-z0-9]\b")?;
    Ok(names.find_iter(text).map(|name| name.as_str().to_owned()).collect())
}

/// Families of metrics that a node has only where their feature is in use: certificates, and a source of peers.
const OPTIONAL: [&str; 2] = ["flyball_tls_", "flyball_discovery_"];

/// Whether a metric is there only where its feature is in use.
pub fn is_optional(metric: &str) -> bool {
    OPTIONAL.iter().any(|family| metric.starts_with(family))
}

/// The metrics of all rules and of the dashboard.
pub fn asked_metrics() -> anyhow::Result<BTreeSet<String>> {
    let mut asked = BTreeSet::new();
    for (_, query) in dashboard_queries()?.into_iter().chain(alert_expressions()?) {
        asked.append(&mut metrics(&query)?);
    }
    Ok(asked)
}

/// Whether a metrics page has a series of this metric.
pub fn has_series(page: &str, metric: &str) -> bool {
    page.lines().any(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with([' ', '{'])))
}

/// The queries of the dashboard, with the title of their panel; variables are filled in.
pub fn dashboard_queries() -> anyhow::Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/flyball.dashboard.json")?)?;
    let panels = dashboard["panels"].as_array().context("panels")?;
    let mut queries = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().context("a panel has a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().context("a target has a query")?;
            let query =
                query.replace("$job", ".+").replace("$instance", ".+").replace("$__rate_interval", "20s");
            queries.push((title.to_owned(), query));
        }
    }
    Ok(queries)
}

/// The expressions of the alert rules, with the name of the alert.
pub fn alert_expressions() -> anyhow::Result<Vec<(String, String)>> {
    let text = read("deploy/prometheus/flyball.rules.yml")?;
    let mut alerts: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let words = line.trim();
        if let Some(name) = words.strip_prefix("- alert: ") {
            alerts.push((name.to_owned(), String::new()));
        } else if let Some(expression) = words.strip_prefix("expr: ") {
            inside = expression == "|";
            if !inside && let Some(last) = alerts.last_mut() {
                last.1 = expression.to_owned();
            }
        } else if words.starts_with("for: ") || words.starts_with("labels: ") {
            inside = false;
        } else if inside && let Some(last) = alerts.last_mut() {
            last.1.push_str(words);
            last.1.push(' ');
        }
    }
    Ok(alerts)
}
