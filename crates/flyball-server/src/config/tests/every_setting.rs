//! Each setting by each of its names: a value that is not the default arrives in its field and in no other, and a
//! bad one is reported with everything that helps to find it.

use super::*;

/// Setting, a good value, whether its field got it, and a bad value ("" when every text is good).
type Row = (&'static str, &'static str, fn(&Config) -> bool, &'static str);

const ROWS: &[Row] = &[
    ("semantics", "gubernator", |c| c.semantics == Semantics::Gubernator, "Exact"),
    ("time_zone", "Europe/Berlin", |c| c.time_zone.zone.iana_name() == Some("Europe/Berlin"), "Mars/Olympus"),
    ("created_at_tolerance", "7s", |c| c.created_at_tolerance == seconds(7), "7"),
    ("key_bytes_max", "100", |c| c.key_bytes_max == 100, "4KiB"),
    ("schedule_max_wait", "1m30s", |c| c.schedule_max_wait == seconds(90), "5 minutes"),
    ("grpc.address", "0.0.0.0:9051", |c| c.grpc.address.to_string() == "0.0.0.0:9051", "1051"),
    ("grpc.reflection", "false", |c| !c.grpc.reflection, "off"),
    ("grpc.health", "0", |c| !c.grpc.health, "no"),
    ("grpc.max_connection_age_seconds", "30", |c| c.grpc.max_connection_age_seconds == 30, "30s"),
    ("http.address", "[::1]:80", |c| c.http.address == HostPort { host: "::1".into(), port: 80 }, "::1:80"),
    (
        "http.status_address",
        "127.0.0.1:1040",
        |c| c.http.status_address.as_ref().is_some_and(|a| a.port == 1_040),
        "1040",
    ),
    ("http.health_routes", "F", |c| !c.http.health_routes, "disabled"),
    ("http.openapi", "False", |c| !c.http.openapi, "2"),
    ("http.admin", "on", |c| c.http.admin == AdminSwitch::On, "true"),
    (
        "node.advertise_address",
        "me.example:1051",
        |c| c.node.advertise_address.as_ref().is_some_and(|a| a.host == "me.example" && a.port == 1051),
        "me.example",
    ),
    ("node.instance_id", "blue", |c| c.node.instance_id.as_deref() == Some("blue"), "b\u{7}"),
    ("node.data_center", "eu-1", |c| c.node.data_center == "eu-1", "eu\0"),
    ("cache.bytes", "1GiB", |c| c.cache.bytes == ByteSize(1 << 30), "0"),
    ("cache.entries", "50000", |c| c.cache.entries == Some(50_000), "50k"),
    ("cache.shards", "8", |c| c.cache.shards == Some(8), "-1"),
    ("shutdown.delay_seconds", "15", |c| c.shutdown.delay_seconds == 15, "-15"),
    ("shutdown.timeout", "1m", |c| c.shutdown.timeout == seconds(60), "-1m"),
    ("healthcheck.attempts", "3", |c| c.healthcheck.attempts == 3, "many"),
    ("log.level", "WARNING", |c| c.log.level == LogLevel::Warn, "loud"),
    ("log.format", "json", |c| c.log.format == LogFormat::Json, "JSON"),
    ("log.debug", "true", |c| c.log.debug && c.log.level == LogLevel::Debug, "yes"),
    ("metrics.flags", "os, golang", |c| c.metrics.flags.os && c.metrics.flags.golang, "os,cpu"),
    ("discovery.type", "none", |c| c.discovery.kind == Some(PeerDiscovery::None), "consul"),
    (
        "discovery.peers",
        "127.0.0.1:1051,b",
        |c| c.discovery.in_force() == PeerDiscovery::Static,
        "a:1051,b:x",
    ),
    ("discovery.file", "/etc/peers", |c| c.discovery.file.as_deref() == Some("/etc/peers"), "a\u{7}"),
    (
        "discovery.dns_fqdn",
        "a.example.,_grpc._tcp.b.",
        |c| c.discovery.dns_fqdn.as_ref().is_some_and(|names| names.0.len() == 2 && names.0[1].is_service()),
        "10.0.0.1",
    ),
    ("discovery.resolv_conf", "/run/dns", |c| c.discovery.resolv_conf == "/run/dns", "\u{7}"),
    ("batch.timeout", "250ms", |c| c.batch.timeout == Duration::from_millis(250), "250"),
    ("batch.limit", "10", |c| c.batch.limit == 10, "1001"),
    ("batch.wait", "1ms", |c| c.batch.wait == Duration::from_millis(1), "abc"),
    ("batch.disabled", "1", |c| c.batch.disabled, "on"),
    ("global.timeout", "2s", |c| c.global.timeout == seconds(2), "2sec"),
    ("global.batch_limit", "5", |c| c.global.batch_limit == 5, "-5"),
    ("global.sync_wait", "50ms", |c| c.global.sync_wait == Duration::from_millis(50), "-1s"),
    ("global.force", "T", |c| c.global.force, "force"),
    (
        "peer_picker.type",
        "replicated-hash",
        |c| c.peer_picker.kind == Some(PeerPicker::ReplicatedHash),
        "consistent-hash",
    ),
    ("peer_picker.hash", "fnv1", |c| c.peer_picker.hash == PickerHash::Fnv1, "crc32"),
    ("peer_picker.replicas", "100", |c| c.peer_picker.replicas == 100, "-1"),
    (
        "cluster.owner_unreachable",
        "deny",
        |c| c.cluster.owner_unreachable == Some(OwnerUnreachable::Deny),
        "share",
    ),
    ("cluster.peer_guard", "open", |c| c.cluster.peer_guard == PeerGuard::Open, "closed"),
    ("cluster.peer_secret", "xyzzy", |c| c.cluster.peer_secret.as_deref() == Some("xyzzy"), "a b"),
    ("cluster.peer_connections", "4", |c| c.cluster.peer_connections == 4, "65"),
    (
        "discovery.memberlist.known_nodes",
        "10.0.0.1,node-2/b:7",
        |c| {
            c.discovery.in_force() == PeerDiscovery::MemberList
                && c.discovery.member_list.known_nodes.is_some()
        },
        "a:x",
    ),
    (
        "discovery.memberlist.bind_address",
        "127.0.0.2:7947",
        |c| c.discovery.member_list.bind_address.as_ref().is_some_and(|address| address.port == 7_947),
        "7946",
    ),
    (
        "discovery.memberlist.address",
        "10.0.0.1:7946",
        |c| c.discovery.member_list.address.as_ref().is_some_and(|address| address.host == "10.0.0.1"),
        "10.0.0.1",
    ),
    (
        "discovery.memberlist.advertise_address",
        "10.0.0.1:81",
        |c| c.advertise_address(1_051).port == 81,
        "10.0.0.1:",
    ),
    (
        "discovery.memberlist.node_name",
        "blue",
        |c| c.discovery.member_list.node_name.as_deref() == Some("blue"),
        "b\u{7}",
    ),
    (
        "discovery.memberlist.secret_keys",
        "MDEyMzQ1Njc4OWFiY2RlZg==",
        |c| c.discovery.member_list.secret_keys.is_some(),
        "short",
    ),
    (
        "discovery.memberlist.verify_incoming",
        "false",
        |c| c.discovery.member_list.verify_incoming == Some(false),
        "off",
    ),
    (
        "discovery.memberlist.verify_outgoing",
        "0",
        |c| c.discovery.member_list.verify_outgoing == Some(false),
        "no",
    ),
    (
        "discovery.etcd.endpoints",
        "a, https://[::1]:1",
        |c| c.discovery.etcd.endpoints.0.len() == 2 && c.discovery.etcd.endpoints.0[1].secure() == Some(true),
        "unix://etcd",
    ),
    ("discovery.etcd.key_prefix", "/p/", |c| c.discovery.etcd.key_prefix == "/p/", "\u{7}"),
    (
        "discovery.etcd.advertise_address",
        "a:1",
        |c| c.discovery.etcd.advertise_address.as_ref().is_some_and(|it| it.to_string() == "a:1"),
        "a",
    ),
    (
        "discovery.etcd.data_center",
        "east",
        |c| c.discovery.etcd.data_center.as_deref() == Some("east"),
        "\u{7}",
    ),
    ("discovery.etcd.dial_timeout", "7s", |c| c.discovery.etcd.dial_timeout == seconds(7), "7"),
    ("discovery.etcd.user", "me", |c| c.discovery.etcd.user.as_deref() == Some("me"), "\u{7}"),
    ("discovery.etcd.password", "xyzzy", |c| c.discovery.etcd.password.as_deref() == Some("xyzzy"), "\u{7}"),
    ("discovery.etcd.tls_enable", "true", |c| c.discovery.etcd.tls_enable == Some(true), "on"),
    ("discovery.etcd.tls_ca", "/ca", |c| c.discovery.etcd.tls_ca.as_deref() == Some("/ca"), "\u{7}"),
    ("discovery.etcd.tls_cert", "/cert", |c| c.discovery.etcd.tls_cert.as_deref() == Some("/cert"), "\u{7}"),
    ("discovery.etcd.tls_key", "/key", |c| c.discovery.etcd.tls_key.as_deref() == Some("/key"), "\u{7}"),
    ("discovery.etcd.tls_skip_verify", "1", |c| c.discovery.etcd.tls_skip_verify == Some(true), "yes"),
    ("discovery.kubernetes.namespace", "n", |c| c.discovery.kubernetes.namespace == "n", "\u{7}"),
    (
        "discovery.kubernetes.pod_ip",
        "2001:DB8::1",
        |c| c.discovery.kubernetes.pod_ip.is_some_and(|ip| ip.to_string() == "2001:db8::1"),
        "0.0.0.0",
    ),
    ("discovery.kubernetes.pod_port", "1051", |c| c.discovery.kubernetes.pod_port == Some(1_051), "65536"),
    (
        "discovery.kubernetes.service_name",
        "s",
        |c| c.discovery.kubernetes.service_name.as_deref() == Some("s"),
        "\u{7}",
    ),
    (
        "discovery.kubernetes.selector",
        "a=b",
        |c| c.discovery.kubernetes.selector.as_deref() == Some("a=b"),
        "\u{7}",
    ),
    (
        "discovery.kubernetes.watch_mechanism",
        "pods",
        |c| c.discovery.kubernetes.watch_mechanism == WatchMechanism::Pods,
        "services",
    ),
    (
        "discovery.kubernetes.kubeconfig",
        "/config",
        |c| c.discovery.kubernetes.kubeconfig.as_deref() == Some("/config"),
        "\u{7}",
    ),
    ("tls.ca", "/etc/ca.pem", |c| c.tls.on && c.tls.ca.as_deref() == Some("/etc/ca.pem"), "a\u{7}"),
    ("tls.ca_key", "/etc/ca.key", |c| c.tls.ca_key.is_some(), "a\u{7}"),
    ("tls.cert", "/etc/node.pem", |c| c.tls.on && c.tls.cert.as_deref() == Some("/etc/node.pem"), "a\u{7}"),
    ("tls.key", "/etc/node.key", |c| c.tls.on && c.tls.key.is_some(), "a\u{7}"),
    ("tls.auto", "true", |c| c.tls.on && c.tls.auto, "self"),
    ("tls.min_version", "1.2", |c| c.tls.on && c.tls.min_version == TlsMinVersion::Tls12, "1.4"),
    (
        "tls.client_auth",
        "require-and-verify",
        |c| c.tls.client_auth == Some(ClientAuth::RequireAndVerify) && c.peers_are_certified(),
        "require",
    ),
    ("tls.client_auth_ca_cert", "/c", |c| c.tls.client_auth_ca_cert.is_some(), "a\u{7}"),
    ("tls.client_auth_cert", "/c", |c| c.tls.client_auth_cert.is_some(), "a\u{7}"),
    ("tls.client_auth_key", "/k", |c| c.tls.client_auth_key.is_some(), "a\u{7}"),
    (
        "tls.client_auth_server_name",
        "gubernator",
        |c| c.tls.client_auth_server_name.as_deref() == Some("gubernator"),
        "a name",
    ),
    ("tls.insecure_skip_verify", "1", |c| c.tls.on && c.tls.insecure_skip_verify, "yes"),
    ("tls.reload_interval", "0", |c| !c.tls.on && c.tls.reload_interval.is_zero(), "10"),
    ("tracing.level", "DEBUG", |c| c.tracing.level == TracingLevel::Debug, "debug"),
    ("otel.sdk_disabled", "true", |c| c.otel.disabled, "x"),
    ("otel.traces_exporter", "none", |c| c.otel.traces_exporter.otlp == Some(false), "jaeger"),
    (
        "otel.exporter_otlp_endpoint",
        "http://collector:4317",
        |c| c.otel.endpoint.as_deref() == Some("http://collector:4317"),
        "ftp://collector",
    ),
    (
        "otel.exporter_otlp_traces_endpoint",
        "http://traces:4317",
        |c| c.otel.traces_endpoint.as_deref() == Some("http://traces:4317"),
        "https://traces:4317",
    ),
    (
        "otel.exporter_otlp_protocol",
        "http/protobuf",
        |c| c.otel.protocol == OtlpProtocol::HttpProtobuf,
        "http/json",
    ),
    (
        "otel.exporter_otlp_headers",
        "authorization=Basic%20abc",
        |c| c.otel.headers.0 == [("authorization".to_owned(), "Basic abc".to_owned())],
        "authorization",
    ),
    (
        "otel.exporter_otlp_timeout",
        "250",
        |c| c.otel.timeout.duration() == Duration::from_millis(250),
        "250ms",
    ),
    ("otel.exporter_otlp_compression", "gzip", |c| c.otel.compression == Compression::Gzip, "zstd"),
    ("otel.exporter_otlp_insecure", "true", |c| c.otel.insecure == Some(true), "maybe"),
    (
        "otel.traces_sampler",
        "traceidratio",
        |c| c.otel.sampler() == Sampler { parent_based: false, ratio: 1.0 },
        "xray",
    ),
    ("otel.traces_sampler_arg", "0.25", |c| c.otel.sampler_ratio.0 == 0.25, "1.5"),
    ("otel.service_name", "limits", |c| c.service_name() == "limits", "a\nb"),
    (
        "otel.resource_attributes",
        "service.name=x,team=a%2Cb",
        |c| {
            c.otel.resource_attributes.0.ends_with(&[("team".to_owned(), "a,b".to_owned())])
                && c.service_name() == "x"
        },
        "=x",
    ),
    (
        "otel.bsp_schedule_delay",
        "100",
        |c| c.otel.batch.schedule_delay.duration() == Duration::from_millis(100),
        "1s",
    ),
    ("otel.bsp_max_queue_size", "4096", |c| c.otel.batch.max_queue_size == 4_096, "0"),
    ("otel.bsp_max_export_batch_size", "64", |c| c.otel.batch.max_export_batch_size == 64, "0"),
    ("otel.span_attribute_count_limit", "1", |c| c.otel.limits.attributes == 1, "x"),
    ("otel.span_event_count_limit", "2", |c| c.otel.limits.events == 2, "x"),
    ("otel.span_link_count_limit", "3", |c| c.otel.limits.links == 3, "x"),
    ("otel.event_attribute_count_limit", "4", |c| c.otel.limits.attributes_per_event == 4, "x"),
    ("otel.link_attribute_count_limit", "5", |c| c.otel.limits.attributes_per_link == 5, "x"),
];

#[test]
fn all_settings_are_here() {
    let here: Vec<_> = ROWS.iter().map(|row| row.0).collect();
    let all: Vec<_> = table::names().collect();
    assert_eq!(here, all);
}

/// What else has to be given for a setting to be right. With TLS there is a certificate, with gossip somebody to join.
fn companions(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "discovery.memberlist.known_nodes" | "tls.auto" | "tls.reload_interval" => &[],
        "tls.cert" => &[("tls.key", "/k")],
        "tls.key" => &[("tls.cert", "/c")],
        "tls.ca_key" => &[("tls.ca", "/ca"), ("tls.auto", "true")],
        "tls.client_auth" => &[("tls.auto", "true")],
        "tls.client_auth_cert" => &[("tls.client_auth_key", "/k"), ("tls.auto", "true")],
        "tls.client_auth_key" => &[("tls.client_auth_cert", "/c"), ("tls.auto", "true")],
        _ if name.starts_with("tls.") => &[("tls.auto", "true")],
        _ if name.starts_with("discovery.memberlist.") => &[("discovery.memberlist.known_nodes", "10.0.0.1")],
        _ => &[],
    }
}

/// Gives them in a file of our own, the weakest source.
fn with_companions(mut strings: Strings, name: &str) -> Strings {
    let lines = companions(name).iter().map(|(name, text)| format!("{name} = \"{text}\"\n"));
    let source = SourceFile { path: "companions.toml".to_owned(), text: lines.collect() };
    strings.files.insert(0, source);
    strings
}

/// The ways a value can be given to a setting, each with the name it then goes by.
fn ways(setting: &Setting, text: &str) -> Vec<(Strings, String)> {
    let mut ways = Vec::new();
    for name in setting.env {
        ways.push((env(&[(name, text)]), (*name).to_owned()));
        if !text.contains(char::is_control) {
            ways.push((file("node.conf", &format!("{name} = {text}\n")), (*name).to_owned()));
        }
    }
    let toml = format!("{} = {}", setting.name, toml::Value::from(text));
    ways.push((file("node.toml", &toml), setting.name.to_owned()));
    if let Some(flag) = setting.flag {
        let flags = vec![(flag.to_owned(), text.to_owned())];
        ways.push((Strings { flags, ..Strings::default() }, format!("--{flag}")));
    }
    ways
}

#[test]
fn a_good_value_arrives_from_every_source_and_changes_nothing_else() {
    let defaults = ok(&Strings::default()).effective();
    for (name, good, arrived, _) in ROWS {
        let setting = table::by_name(name).unwrap();
        for (strings, given_as) in ways(setting, good) {
            let loaded = ok(&with_companions(strings, name));
            assert!(arrived(&loaded.config), "{given_as}={good} did not arrive");
            for (now, before) in loaded.effective().iter().zip(&defaults) {
                if now.name == *name {
                    assert_ne!(now.value, before.value, "{name}");
                    assert!(now.origin.ends_with(&given_as), "{name}: {}", now.origin);
                } else if companions(name).iter().any(|(companion, _)| *companion == now.name) {
                    assert!(now.origin.starts_with("companions.toml"));
                } else if !settles(name, now.name) {
                    assert_eq!(now, before, "{name} changed another setting");
                }
            }
        }
        assert!(!arrived(&Config::default()), "{name}: the test's value is the default");
    }
}

/// Whether a setting settles what another one, that nobody gave, is.
fn settles(given: &str, other: &str) -> bool {
    match other {
        "log.level" => given == "log.debug",
        "discovery.etcd.tls_enable" => given.starts_with("discovery.etcd.tls_"),
        _ => false,
    }
}

#[test]
fn a_bad_value_ends_the_start_and_names_everything() {
    for (name, _, _, bad) in ROWS {
        let setting = table::by_name(name).unwrap();
        for (strings, given_as) in ways(setting, bad) {
            let error = from_strings(&strings).expect_err(&given_as);
            let [problem] = error.problems() else { panic!("{given_as}: {error}") };
            assert_eq!(problem.name, given_as);
            assert_eq!(
                problem.value.as_deref(),
                if setting.secret { None } else { Some(*bad) },
                "{given_as}"
            );
            assert!(problem.advice.len() > 10, "{given_as}: {}", problem.advice);
            let shown = error.to_string();
            assert!(!shown.contains('\n') && shown.contains(&problem.origin.to_string()), "{shown}");
            assert_eq!(error.exit_code(), if given_as.starts_with("--") { 2 } else { 1 }, "{given_as}");
        }
    }
}

#[test]
fn an_empty_value_is_no_value() {
    let defaults = ok(&Strings::default());
    for setting in table::all() {
        for (strings, given_as) in ways(setting, "") {
            assert_eq!(ok(&strings).effective(), defaults.effective(), "{given_as}");
        }
    }
}

#[test]
fn zero_means_the_default_where_the_original_cannot_tell() {
    for setting in table::all().filter(|setting| setting.zero_is_default()) {
        for (strings, given_as) in ways(setting, if setting.kind == "duration" { "0s" } else { "0" }) {
            let loaded = ok(&strings);
            assert_eq!(loaded.config, Config::default(), "{given_as}");
        }
    }
    // Ours are what they say.
    assert_eq!(config(&[("FLYBALL_CREATED_AT_TOLERANCE", "0s")]).created_at_tolerance, Duration::ZERO);
    assert_eq!(config(&[("FLYBALL_SHUTDOWN_TIMEOUT", "0")]).shutdown.timeout, Duration::ZERO);
    assert_eq!(config(&[("OTEL_SPAN_EVENT_COUNT_LIMIT", "0")]).otel.limits.events, 0);
    let numbers = ["u32", "duration", "integer"];
    for setting in table::all().filter(|setting| setting.env[0].starts_with("GUBER_")) {
        assert_eq!(setting.zero_is_default(), numbers.contains(&setting.kind), "{}", setting.name);
    }
}

#[test]
fn defaults_parse_and_show() {
    let config = Config::default();
    for setting in table::all() {
        assert_ne!(setting.default.is_empty(), setting.without.is_empty(), "{}", setting.name);
        assert_eq!((setting.field.show)(&config), setting.default, "{}", setting.name);
    }
}

#[test]
fn the_defaults_are_the_originals() {
    let c = Config::default();
    assert_eq!(c.grpc.address.to_string(), "127.0.0.1:1051");
    assert_eq!(c.http.address.to_string(), "127.0.0.1:1050");
    assert_eq!(c.batch.timeout, Duration::from_millis(500));
    assert_eq!(c.batch.wait, Duration::from_micros(500));
    assert_eq!(c.batch.limit, 1_000);
    assert_eq!(c.global.timeout, Duration::from_millis(500));
    assert_eq!(c.global.sync_wait, Duration::from_millis(100));
    assert_eq!(c.global.batch_limit, 1_000);
    assert_eq!(c.schedule_max_wait, seconds(300));
    assert_eq!(c.healthcheck.attempts, 1);
    assert_eq!((c.cache.entries, c.cache.bytes, c.cache.shards), (None, ByteSize(256 << 20), None));
    assert_eq!((c.log.level, c.log.format, c.log.debug), (LogLevel::Info, LogFormat::Text, false));
    assert_eq!(c.discovery.kind, None);
    assert_eq!(c.exporter(), None);
}

#[test]
fn names_are_unique_and_ours_are_mechanical() {
    let mut seen = std::collections::BTreeSet::new();
    for setting in table::all() {
        assert!(seen.insert(setting.name));
        assert!(setting.flag.is_none_or(|flag| seen.insert(flag)) || setting.name == setting.flag.unwrap());
        for name in setting.env {
            assert!(seen.insert(name), "{name}");
            assert!(!later::is_known(name), "{name}");
            // People type these; the mechanical names would only be longer.
            if name.starts_with("FLYBALL_") && !name.starts_with("FLYBALL_PEERS") {
                assert_eq!(*name, format!("FLYBALL_{}", setting.name.to_uppercase().replace('.', "_")));
            }
        }
        if setting.name.starts_with("otel.") {
            let name = setting.name.to_uppercase().replace('.', "_");
            assert!(setting.env.contains(&name.as_str()), "{name}");
        }
    }
}
