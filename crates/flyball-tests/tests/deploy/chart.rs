//! The chart, as far as reading it tells.

use flyball_tests::deploy::read;

/// What `values.yaml` shows as comments is what is in force.
#[test]
fn the_values_that_are_shown_are_those_in_force() {
    let shown: Vec<String> = read("deploy/helm/flyball/values.yaml")
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("  # "))
        .map(str::to_owned)
        .collect();
    let defaults: Vec<String> = read("deploy/helm/flyball/files/defaults.yaml")
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    assert!(defaults.len() > 80);
    assert_eq!(shown, defaults);
}

/// A key that can be set is known to the schema, which refuses all others.
#[test]
fn the_schema_knows_every_value() {
    let schema: serde_json::Value =
        serde_json::from_str(&read("deploy/helm/flyball/values.schema.json").unwrap()).unwrap();
    let ours = &schema["properties"]["flyball"];
    assert_eq!(ours["additionalProperties"], false);
    let known: Vec<&str> = ours["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let defaults = read("deploy/helm/flyball/files/defaults.yaml").unwrap();
    let mut there: Vec<&str> = defaults
        .lines()
        .filter(|line| !line.starts_with(['#', ' ', '-']))
        .filter_map(|line| line.split_once(':').map(|(key, _)| key))
        .collect();
    let mut known = known;
    known.sort_unstable();
    there.sort_unstable();
    assert_eq!(known, there);
}

/// Every value that the original's chart reads is read here, but the image.
#[test]
fn every_value_of_the_originals_chart_is_read() {
    let template = read("deploy/helm/flyball/templates/_values.tpl").unwrap();
    for value in [
        "affinity",
        "annotations",
        "behaviorScaleDownPercent",
        "behaviorScaleUpPercent",
        "behaviorScaleUpPods",
        "cooldownPeriod",
        "cpuAverageUtilization",
        "downscaleForbiddenWindowSeconds",
        "enabled",
        "maxReplicas",
        "methodScaling",
        "minReplicas",
        "pollingInterval",
        "targetCPUUtilizationPercentage",
        "targetMemoryUtilizationPercentage",
        "upscaleForbiddenWindowSeconds",
        "debug",
        "extraEnv",
        "fullnameOverride",
        "pullPolicy",
        "pullSecrets",
        "labels",
        "nameOverride",
        "nodeSelector",
        "podSecurityContext",
        "priorityClassName",
        "replicaCount",
        "resources",
        "securityContext",
        "maxConnAgeSeconds",
        "port",
        "create",
        "name",
        "interval",
        "metricRelabelings",
        "relabellings",
        "scrapeTimeout",
        "tolerations",
        "watchPods",
    ] {
        let read = [format!(".{value}"), format!("\"{value}\"")].iter().any(|name| template.contains(name));
        assert!(read, "gubernator.{value} is not read");
    }
}
