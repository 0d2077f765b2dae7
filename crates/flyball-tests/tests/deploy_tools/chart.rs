//! The chart as Helm renders it: for nothing set, for everything, and for the values of the original's chart.

use std::collections::BTreeMap;

use flyball_tests::deploy::{CHART_VALUES, chart, chart_values, is_known, root, variables};
use flyball_tests::tools::{Tool, run};

/// Objects by kind, as text, with these arguments.
fn rendered(arguments: &[&str]) -> BTreeMap<String, String> {
    let text = chart(arguments).unwrap().expect_success();
    let mut objects = BTreeMap::new();
    for object in text.split("\n---\n").filter(|object| object.contains("kind:")) {
        let kind = object.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap();
        assert!(objects.insert(kind.to_owned(), object.to_owned()).is_none(), "two of {kind}");
    }
    objects
}

fn with_values(name: &str) -> BTreeMap<String, String> {
    rendered(&[&chart_values(name)])
}

/// Why Helm does not render with these values.
fn refused(set: &[&str]) -> String {
    let arguments: Vec<&str> = set.iter().flat_map(|one| ["--set", one]).collect();
    let output = chart(&arguments).unwrap();
    assert!(!output.success, "{set:?} must be refused:\n{}", output.stdout);
    output.stderr
}

#[track_caller]
fn has(object: &str, lines: &str) {
    let squeezed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert!(squeezed(object).contains(&squeezed(lines)), "no\n{lines}\nin\n{object}");
}

fn kinds(objects: &BTreeMap<String, String>) -> Vec<&str> {
    objects.keys().map(String::as_str).collect()
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    let chart = root().join("deploy/helm/flyball");
    run(Tool::Helm.command().args(["lint", "--strict", "--quiet"]).arg(&chart)).unwrap().expect_success();
    for values in CHART_VALUES {
        let file = chart.join(format!("ci/{values}-values.yaml"));
        let mut lint = Tool::Helm.command();
        run(lint.args(["lint", "--strict", "--quiet"]).arg(&chart).arg("--values").arg(file))
            .unwrap()
            .expect_success();
    }
}

#[test]
fn with_nothing_set_three_nodes_find_each_other() {
    let objects = rendered(&[]);
    assert_eq!(
        kinds(&objects),
        ["Deployment", "PodDisruptionBudget", "Role", "RoleBinding", "Service", "ServiceAccount"]
    );
    let deployment = &objects["Deployment"];
    has(deployment, "replicas: 3");
    has(deployment, "- name: GUBER_PEER_DISCOVERY_TYPE\nvalue: k8s");
    has(deployment, "- name: GUBER_K8S_SERVICE_NAME\nvalue: limits");
    has(deployment, "livenessProbe:\nhttpGet:\npath: /livez\nport: http\nscheme: HTTP");
    has(deployment, "readinessProbe:\nhttpGet:\npath: /readyz\nport: http\nscheme: HTTP");
    has(deployment, "runAsNonRoot: true\nrunAsUser: 1001");
    has(deployment, "readOnlyRootFilesystem: true");
    has(deployment, "terminationGracePeriodSeconds: 20");
    has(&objects["Service"], "clusterIP: None");
    has(
        &objects["Role"],
        "- apiGroups: [discovery.k8s.io]\nresources: [endpointslices]\nverbs: [list, watch]",
    );
    for (kind, object) in &objects {
        has(object, "namespace: prod");
        for variable in variables(object).unwrap() {
            assert!(variable == "FLYBALL_PORT" || is_known(&variable), "{kind} sets {variable}");
        }
    }
}

/// A values file for the original deploys flyball as it deployed the original.
#[test]
fn the_originals_values_mean_what_they_meant() {
    let objects = with_values("original");
    assert_eq!(
        kinds(&objects),
        [
            "Deployment",
            "HorizontalPodAutoscaler",
            "PodDisruptionBudget",
            "Role",
            "RoleBinding",
            "Service",
            "ServiceMonitor"
        ]
    );
    let deployment = &objects["Deployment"];
    assert!(!deployment.contains("replicas:"), "that is the scaler's business:\n{deployment}");
    assert!(
        !deployment.contains("gubernator-io"),
        "the original's image would run the original:\n{deployment}"
    );
    has(deployment, "imagePullPolicy: Always");
    has(deployment, "imagePullSecrets:\n- name: pull");
    has(deployment, "- name: GUBER_GRPC_MAX_CONN_AGE_SEC\nvalue: \"30\"");
    has(deployment, "- name: GUBER_LOG_LEVEL\nvalue: debug");
    has(deployment, "- name: GUBER_CACHE_SIZE\nvalue: \"70000\"");
    has(deployment, "runAsUser: 2000");
    has(deployment, "serviceAccountName: default");
    // The delay comes from extraEnv: it stands once, and the grace period follows it.
    assert_eq!(deployment.matches("GUBER_GRACEFUL_TERMINATION_DELAY_SEC").count(), 1);
    has(deployment, "terminationGracePeriodSeconds: 30");
    let scaler = &objects["HorizontalPodAutoscaler"];
    has(scaler, "apiVersion: autoscaling/v2");
    has(scaler, "minReplicas: 2\nmaxReplicas: 10");
    has(scaler, "averageUtilization: 50");
    has(&objects["ServiceMonitor"], "path: /metrics\ninterval: 5s\nscrapeTimeout: 5s");
}

/// The original's chart has a Role for endpoint slices alone, so that watching pods never worked with it.
#[test]
fn d10_pods_may_be_watched_where_they_are() {
    let objects = with_values("keda");
    has(&objects["Role"], "- apiGroups: [\"\"]\nresources: [pods]\nverbs: [list, watch]");
    has(&objects["Deployment"], "- name: GUBER_K8S_WATCH_MECHANISM\nvalue: pods");
    has(
        &objects["ScaledObject"],
        "minReplicaCount: 3\nmaxReplicaCount: 9\npollingInterval: 30\ncooldownPeriod: 300",
    );
    // The selector of the original's Deployment, so that its release can be upgraded in place.
    has(
        &objects["Deployment"],
        "selector:\nmatchLabels:\napp.kubernetes.io/name: gubernator\napp.kubernetes.io/instance: limits",
    );
}

/// Where clients must show certificates, kubelet and scrapers have a listener of their own.
#[test]
fn p32_probes_and_scrapers_work_with_client_certificates() {
    let objects = with_values("everything");
    let deployment = &objects["Deployment"];
    has(deployment, "- name: GUBER_TLS_CLIENT_AUTH\nvalue: require-and-verify");
    has(deployment, "- name: GUBER_STATUS_HTTP_ADDRESS\nvalue: 0.0.0.0:1049");
    has(deployment, "livenessProbe:\nhttpGet:\npath: /livez\nport: status\nscheme: HTTPS");
    has(deployment, "readinessProbe:\nhttpGet:\npath: /readyz\nport: status\nscheme: HTTPS");
    has(&objects["ServiceMonitor"], "- port: status\npath: /metrics");
    has(&objects["ServiceMonitor"], "scheme: https");
    has(&objects["NetworkPolicy"], "- port: status");
    has(&objects["PrometheusRule"], "- alert: FlyballPeerDown");
    assert!(objects["ConfigMap"].contains("\"uid\": \"flyball\""));
    // Without client certificates there is no need for one.
    let plain = rendered(&["--set", "flyball.tls.enabled=true,flyball.tls.secretName=tls"]);
    assert!(!plain["Deployment"].contains("GUBER_STATUS_HTTP_ADDRESS"));
    has(&plain["Deployment"], "path: /readyz\nport: http\nscheme: HTTPS");
}

#[test]
fn by_dns_no_pod_talks_to_the_api_server() {
    let objects = with_values("dns");
    assert_eq!(kinds(&objects), ["Deployment", "Service", "ServiceAccount"]);
    let deployment = &objects["Deployment"];
    has(deployment, "automountServiceAccountToken: false");
    has(deployment, "- name: GUBER_DNS_FQDN\nvalue: limits.prod.svc.example.internal");
    has(deployment, "- name: GUBER_GRPC_ADDRESS\nvalue: '[::]:1051'");
    assert!(!deployment.contains("Probe"));
}

/// Ours win over the original's, and a `false` counts as much as a `true`.
#[test]
fn our_values_win() {
    let objects = rendered(&[
        &chart_values("original"),
        "--set",
        "flyball.autoscaling.enabled=false,flyball.replicas=7,flyball.grpc.port=3051,flyball.serviceMonitor.enabled=false",
    ]);
    has(&objects["Deployment"], "replicas: 7");
    has(&objects["Deployment"], "- name: GUBER_GRPC_ADDRESS\nvalue: 0.0.0.0:3051");
    assert!(!objects.contains_key("HorizontalPodAutoscaler") && !objects.contains_key("ServiceMonitor"));
}

#[test]
fn what_cannot_work_is_refused_with_what_to_do() {
    for (set, words) in [
        (&["flyball.replica=1"][..], "'replica' not allowed"),
        (&["flyball.semantics=exakt"], "/flyball/semantics"),
        (&["flyball.settings.cacheSize=1"], "settings"),
        (&["gubernator.autoscaling.methodScaling=vpa"], "/gubernator/autoscaling/methodScaling"),
        (&["flyball.tls.enabled=true"], "needs flyball.tls.secretName"),
        (&["flyball.tls.clientAuth=require-and-verify"], "needs flyball.tls.enabled"),
        (&["flyball.grpc.port=1050"], "cannot both listen on port 1050"),
        (&["flyball.settings.FLYBALL_SHUTDOWN_TIMEOUT=1m"], "expected whole seconds"),
    ] {
        let error = refused(set);
        assert!(error.contains(words), "{set:?}: {error}");
    }
}
