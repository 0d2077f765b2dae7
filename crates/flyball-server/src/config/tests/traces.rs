//! When spans are exported, and where to.

use super::*;

fn exporter(pairs: &[(&str, &str)]) -> Option<OtlpExporter> {
    config(pairs).exporter()
}

#[test]
fn nothing_is_exported_unless_an_endpoint_or_an_exporter_is_named() {
    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1");
    const TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:1");
    const OTLP: (&str, &str) = ("OTEL_TRACES_EXPORTER", "otlp");
    const NONE: (&str, &str) = ("OTEL_TRACES_EXPORTER", "none");
    const OFF: (&str, &str) = ("OTEL_SDK_DISABLED", "true");
    for (pairs, on) in [
        (&[][..], false),
        (&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b"), ("OTEL_SERVICE_NAME", "x")], false),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], false),
        (&[ENDPOINT], true),
        (&[TRACES], true),
        (&[OTLP], true),
        (&[("OTEL_TRACES_EXPORTER", "none, otlp")], true),
        (&[("OTEL_TRACES_EXPORTER", "otlp,none")], true),
        (&[NONE], false),
        (&[NONE, ENDPOINT, TRACES], false),
        (&[OFF, OTLP, ENDPOINT], false),
    ] {
        assert_eq!(exporter(pairs).is_some(), on, "{pairs:?}");
    }
}

#[test]
fn endpoints() {
    let endpoint = |pairs: &[(&str, &str)]| exporter(pairs).unwrap().endpoint;
    const HTTP: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    const OTLP: (&str, &str) = ("OTEL_TRACES_EXPORTER", "otlp");
    const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    assert_eq!(endpoint(&[OTLP]), "http://localhost:4317");
    assert_eq!(endpoint(&[OTLP, HTTP]), "http://localhost:4318/v1/traces");
    assert_eq!(endpoint(&[(BASE, "http://c:4317")]), "http://c:4317");
    assert_eq!(endpoint(&[(BASE, "c:4317")]), "http://c:4317");
    assert_eq!(endpoint(&[(BASE, "http://c:4318/otel/"), HTTP]), "http://c:4318/otel/v1/traces");
    assert_eq!(endpoint(&[(TRACES, "http://c:4318/mine"), HTTP, (BASE, "http://d")]), "http://c:4318/mine");
    assert_eq!(endpoint(&[(BASE, "c:1"), ("OTEL_EXPORTER_OTLP_INSECURE", "true")]), "http://c:1");
}

#[test]
fn tls_to_a_collector_is_refused() {
    for pairs in [
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:4317")][..],
        &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c:4317")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317"), ("OTEL_EXPORTER_OTLP_INSECURE", "false")],
    ] {
        let shown = wrong(&env(pairs));
        assert!(shown[0].contains("TLS to a collector is not available in this version"), "{}", shown[0]);
    }
    for endpoint in [
        "http://u:p@c:1",
        "http://c:",
        "http://c:65536",
        "http://",
        "ftp://c",
        "http://c:port",
        "http://a b",
        "unix:/x",
        "://",
    ] {
        let shown = wrong(&env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]));
        assert!(shown[0].ends_with("expected a URL such as http://collector:4317"), "{}", shown[0]);
    }
}

#[test]
fn the_exporter_has_everything() {
    let exporter = exporter(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:1"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "ignored=x"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", " a = b%20c , x-y=1=2"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "20"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
    ]);
    let headers =
        [("a", "b c"), ("x-y", "1=2")].map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let expected = OtlpExporter {
        protocol: OtlpProtocol::HttpProtobuf,
        endpoint: "http://c:1".to_owned(),
        headers,
        timeout: Duration::from_millis(20),
        compression: Compression::Gzip,
    };
    assert_eq!(exporter, Some(expected));
}

#[test]
fn headers_that_http_does_not_allow() {
    for headers in ["a b=c", "a=%0d%0a", "é=1"] {
        let pairs = [("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_HEADERS", headers)];
        assert_eq!(
            wrong(&env(&pairs)),
            [
                "OTEL_EXPORTER_OTLP_HEADERS (environment): expected names and values that HTTP headers may have"
            ]
        );
    }
}

#[test]
fn samplers() {
    for (kind, parent_based, ratio) in [
        ("always_on", false, 1.0),
        ("always_off", false, 0.0),
        ("traceidratio", false, 0.25),
        ("parentbased_always_on", true, 1.0),
        ("parentbased_always_off", true, 0.0),
        ("parentbased_traceidratio", true, 0.25),
    ] {
        let sampler =
            config(&[("OTEL_TRACES_SAMPLER", kind), ("OTEL_TRACES_SAMPLER_ARG", "0.25")]).otel.sampler();
        assert_eq!(sampler, Sampler { parent_based, ratio });
    }
    assert_eq!(Config::default().otel.sampler(), Sampler { parent_based: true, ratio: 1.0 });
    for ratio in ["NaN", "-0.1", "1.01", "inf", "half"] {
        assert_eq!(wrong(&env(&[("OTEL_TRACES_SAMPLER_ARG", ratio)])).len(), 1, "{ratio}");
    }
}

#[test]
fn the_service_name_is_honoured() {
    assert_eq!(Config::default().service_name(), "gubernator");
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=attribute");
    assert_eq!(config(&[attributes]).service_name(), "attribute");
    assert_eq!(config(&[attributes, ("OTEL_SERVICE_NAME", "variable")]).service_name(), "variable");
}

#[test]
fn an_export_must_fit_into_the_queue() {
    let shown = wrong(&env(&[("OTEL_BSP_MAX_QUEUE_SIZE", "100")]));
    assert_eq!(
        shown,
        [
            "OTEL_BSP_MAX_QUEUE_SIZE='100' (environment): an export of 512 spans does not fit into a queue of 100"
        ]
    );
    let both = [("OTEL_BSP_MAX_QUEUE_SIZE", "100"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "101")];
    assert!(wrong(&env(&both))[0].starts_with("OTEL_BSP_MAX_EXPORT_BATCH_SIZE='101'"));
    ok(&env(&[both[0], ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100")]));
}
