//! What is refused, what is warned about, and in which words.

use super::*;

/// Field report P35: bad values used to be logged and replaced by defaults.
#[test]
fn p35_bad_values_end_the_start_and_name_the_variable() {
    for (name, value, expected) in [
        ("GUBER_BATCH_WAIT", "abc", "expected a duration: numbers with units, such as 500us, 100ms or 1m30s"),
        ("GUBER_CACHE_SIZE", "50k", "expected a whole number from 0 to 2147483647"),
        ("GUBER_GLOBAL_SYNC_WAIT", "-1s", "expected a duration that is not negative"),
    ] {
        let error = from_strings(&env(&[(name, value)])).unwrap_err();
        assert_eq!(error.to_string(), format!("{name}='{value}' (environment): {expected}"));
        assert_eq!(error.exit_code(), 1);
    }
}

#[test]
fn all_mistakes_are_reported_together() {
    let mut strings = env(&[
        ("GUBER_BATCH_WAIT", "abc"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca"),
        ("GUBER_LOG_LEVEL", "loud"),
        ("FLYBALL_TIME_ZONE", "Mars/Olympus"),
    ]);
    strings.flags.push(("semantics".into(), "both".into()));
    strings.files.push(SourceFile { path: "x.toml".into(), text: "semantic = 1".into() });
    let error = from_strings(&strings).unwrap_err();
    assert_eq!(error.exit_code(), 2, "the command line is wrong too");
    assert_eq!(
        error.to_string(),
        "6 problems in the configuration:\n  \
         semantic (x.toml): no such setting; did you mean semantics?\n  \
         --semantics='both' (command line): expected exact or gubernator\n  \
         GUBER_LOG_LEVEL='loud' (environment): expected panic, fatal, error, warn, info, debug or trace\n  \
         GUBER_BATCH_WAIT='abc' (environment): expected a duration: numbers with units, such as 500us, 100ms or \
         1m30s\n  \
         OTEL_EXPORTER_OTLP_CERTIFICATE='/ca' (environment): TLS to the collector of traces is not available in this \
         version; unset the variable\n  \
         FLYBALL_TIME_ZONE='Mars/Olympus' (environment): no such time zone; expected an IANA name such as \
         Europe/Berlin or UTC"
    );
}

#[test]
fn the_originals_own_words() {
    let message = |name, value| wrong(&env(&[(name, value)])).remove(0);
    assert!(message("GUBER_BATCH_LIMIT", "1001").ends_with("Behaviors.BatchLimit cannot exceed '1000'"));
    assert!(message("GUBER_BATCH_LIMIT", "-1").ends_with("expected a whole number from 0 to 2147483647"));
    assert!(
        message("GUBER_SCHEDULE_MAX_WAIT", "-1s").ends_with("Behaviors.ScheduleMaxWait cannot be negative")
    );
    assert_eq!(config(&[("GUBER_BATCH_LIMIT", "1000")]).batch.limit, 1_000);
}

#[test]
fn every_variable_of_a_later_feature_is_refused_unless_empty() {
    for name in later::names() {
        let shown = wrong(&env(&[(name, "x")]));
        assert_eq!(shown.len(), 1);
        assert!(shown[0].contains("is not available in this version; unset the variable"), "{}", shown[0]);
        assert_eq!(ok(&env(&[(name, "")])).config, Config::default());
        assert!(warnings(&env(&[(name, "")])).is_empty());
    }
    // Others' names, and those that only count in etcd mode.
    assert_eq!(warnings(&env(&[("ETCD3_USER", "x"), ("KUBERNETES_SERVICE_HOST", "x")])), [""; 0]);
}

#[test]
fn secrets_are_never_shown() {
    for (name, value) in [
        ("GUBER_MEMBERLIST_SECRET_KEYS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=%FF,hunter2=x"),
    ] {
        for strings in [env(&[(name, value)]), file("x", &format!("{name}={value}"))] {
            assert!(!format!("{:?}", wrong(&strings)).contains("hunter2"), "{name}");
        }
    }
    let key = ("GUBER_MEMBERLIST_SECRET_KEYS", "MDEyMzQ1Njc4OWFiY2RlZg==");
    let loaded = ok(&env(&[key, ("GUBER_MEMBERLIST_KNOWN_NODES", "a")]));
    assert!(!format!("{loaded:?} {:?}", loaded.effective()).contains(key.1));
    {}
    let url = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter2@c:1/x@y");
    assert_eq!(
        wrong(&env(&[url])),
        [
            "OTEL_EXPORTER_OTLP_ENDPOINT='http://<redacted>@y' (environment): credentials do not belong into the \
          URL but into OTEL_EXPORTER_OTLP_HEADERS; expected a URL such as http://collector:4317"
        ]
    );
    for url in [
        "me:hunter2@c:4317",
        "hunter2@c:4317",
        "http://me:hun/ter2@c:4317",
        "http://me:hun?ter2@c:4317",
        "http://c:4317?token=hunter2",
        "http://c:4317/#hunter2",
    ] {
        for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
            let strings = env(&[(name, url), ("GUBER_BATCH_WAIT", "abc")]);
            let shown = format!("{:?}", from_strings(&strings).unwrap_err());
            assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
            assert!(
                !url.contains('@') || shown.contains("credentials do not belong into the URL"),
                "{shown}"
            );
            let off = ok(&env(&[(name, url), ("OTEL_SDK_DISABLED", "true")]));
            let shown = format!("{:?}", off.effective());
            assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
        }
    }
    assert!(
        wrong(&env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317?token=hunter2")]))[0]
            .contains("a base address has no query")
    );
    let off = ok(&env(&[url, ("OTEL_SDK_DISABLED", "true")]));
    assert_eq!(effective(&off, "otel.exporter_otlp_endpoint").value, "http://<redacted>@y");
    let loaded = ok(&env(&[("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2")]));
    assert_eq!(effective(&loaded, "otel.exporter_otlp_headers").value, "<redacted>");
    assert!(!serde_json::to_string(&loaded.effective()).unwrap().contains("hunter2"));
    assert_eq!(effective(&ok(&Strings::default()), "otel.exporter_otlp_headers").value, "");
}

#[test]
fn unknown_names_are_warned_about_with_the_nearest_known() {
    for (name, expected) in [
        (
            "GUBER_CACHE_SIZ",
            "unknown variable 'GUBER_CACHE_SIZ' (environment); did you mean GUBER_CACHE_SIZE?",
        ),
        (
            "GUBER_CAHCE_SIZE",
            "unknown variable 'GUBER_CAHCE_SIZE' (environment); did you mean GUBER_CACHE_SIZE?",
        ),
        (
            "FLYBALL_SEMANTIC",
            "unknown variable 'FLYBALL_SEMANTIC' (environment); did you mean FLYBALL_SEMANTICS?",
        ),
        (
            "GUBER_PERSISTENT_STORAGE_DIRECTORY",
            "unknown variable 'GUBER_PERSISTENT_STORAGE_DIRECTORY' (environment)",
        ),
        ("GUBER_\n", "unknown variable 'GUBER_\\n' (environment)"),
    ] {
        assert_eq!(warnings(&env(&[(name, "secret")])), [expected]);
    }
    let in_file =
        file("node.conf", "GUBER_DEBUGG=1\nGUBR_CACHE_SIZE=1\nUNRELATED=1\nGUBER_STATUS_HTTP_ADRESS=x\n");
    assert_eq!(
        warnings(&in_file),
        [
            "unknown variable 'GUBER_DEBUGG' (node.conf:1); did you mean GUBER_DEBUG?",
            "unknown variable 'GUBER_STATUS_HTTP_ADRESS' (node.conf:4); did you mean GUBER_STATUS_HTTP_ADDRESS?",
            "unknown variable 'GUBR_CACHE_SIZE' (node.conf:2); did you mean GUBER_CACHE_SIZE?",
        ]
    );
}

#[test]
fn other_peoples_names_are_left_alone() {
    for name in [
        "GUBR_CACHE_SIZE",
        "PATH",
        "RUNNER_OS",
        "OTEL_METRICS_EXPORTER",
        // What Kubernetes sets for a service that is called flyball.
        "FLYBALL_PORT",
        "FLYBALL_PORT_1051_TCP_ADDR",
        "FLYBALL_SERVICE_HOST",
        "FLYBALL_SERVICE_PORT_GRPC",
        "GUBER_SERVICE_HOST",
        "FLYBALL_TEST_GRPCURL",
    ] {
        assert_eq!(warnings(&env(&[(name, "tcp://10.0.0.1:1051")])), [""; 0], "{name}");
    }
}

#[test]
fn a_time_zone_in_tz_is_pointed_out() {
    let shown = warnings(&env(&[("TZ", "Europe/Berlin")]));
    assert_eq!(
        shown,
        ["TZ='Europe/Berlin' is not read: calendar limits follow UTC; set FLYBALL_TIME_ZONE to change that"]
    );
    for (tz, zone) in [("", ""), ("UTC", ""), ("Europe/Berlin", "UTC"), ("Europe/Berlin", "Europe/Paris")] {
        assert_eq!(warnings(&env(&[("TZ", tz), ("FLYBALL_TIME_ZONE", zone)])), [""; 0]);
    }
}

#[test]
fn a_picker_detail_without_a_picker_is_pointed_out() {
    let details = [("GUBER_PEER_PICKER_HASH", "fnv1"), ("GUBER_REPLICATED_HASH_REPLICAS", "7")];
    assert_eq!(
        warnings(&env(&details)),
        [
            "GUBER_PEER_PICKER_HASH (environment) has no effect unless GUBER_PEER_PICKER is set",
            "GUBER_REPLICATED_HASH_REPLICAS (environment) has no effect unless GUBER_PEER_PICKER is set",
        ]
    );
    let named = [details[0], details[1], ("GUBER_PEER_PICKER", "replicated-hash")];
    assert_eq!(warnings(&env(&named)), [""; 0]);
}

#[test]
fn listeners_must_not_share_an_address() {
    let both = |grpc, http| env(&[("GUBER_GRPC_ADDRESS", grpc), ("GUBER_HTTP_ADDRESS", http)]);
    for (grpc, http) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("localhost:80", "127.0.0.1:80"),
        (":80", "127.0.0.1:80"),
        ("[::1]:80", "0.0.0.0:80"),
    ] {
        let shown = wrong(&both(grpc, http));
        assert_eq!(shown.len(), 1);
        assert!(
            shown[0].contains("listens on") && shown[0].starts_with("GUBER_HTTP_ADDRESS"),
            "{}",
            shown[0]
        );
    }
    assert!(wrong(&env(&[("GUBER_GRPC_ADDRESS", "127.0.0.1:1050")]))[0].starts_with("GUBER_GRPC_ADDRESS"));
    for (grpc, http) in [("127.0.0.1:0", "127.0.0.1:0"), ("127.0.0.1:80", "127.0.0.2:80"), (":80", ":81")] {
        ok(&both(grpc, http));
    }
}

#[test]
fn addresses() {
    for (text, host, port) in [
        ("localhost:1051", "localhost", 1051),
        (":1051", "", 1051),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::]:1051", "::", 1051),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65_535),
        ("node_1.example-2.com:1", "node_1.example-2.com", 1),
    ] {
        let address = config(&[("GUBER_GRPC_ADDRESS", text)]).grpc.address;
        assert_eq!((address.host.as_str(), address.port), (host, port));
        assert_eq!(address.to_string(), text);
        assert_eq!(address.is_wildcard(), matches!(host, "" | "0.0.0.0" | "::"));
    }
    for text in [
        "localhost",
        "1051",
        "localhost:",
        "localhost:grpc",
        "localhost:65536",
        "localhost:+1",
        "::1:1051",
        "[::1]",
        "[::1:1051",
        "[localhost]:1051",
        "http://localhost:1051",
        "local host:1",
        "[]:1",
        "a:1:2",
        "%:1",
        "a/b:1",
    ] {
        assert_eq!(wrong(&env(&[("GUBER_GRPC_ADDRESS", text)])).len(), 1, "{text}");
    }
    assert!(
        wrong(&env(&[("GUBER_ADVERTISE_ADDRESS", "me:0")]))[0].contains("expected the port that peers dial")
    );
}

#[test]
fn sizes() {
    for (text, bytes) in [
        ("1048576", 1 << 20),
        ("1024KiB", 1 << 20),
        ("1 GB", 1_000_000_000),
        ("3mib", 3 << 20),
        ("5000000B", 5_000_000),
        ("1TiB", 1 << 40),
    ] {
        assert_eq!(config(&[("FLYBALL_CACHE_BYTES", text)]).cache.bytes, ByteSize(bytes), "{text}");
    }
    for text in
        ["0", "0MiB", "-1", "1.5GiB", "MiB", "1Mi", "99999999999999999999", "18446744073709551615KiB", "1 2"]
    {
        assert_eq!(wrong(&env(&[("FLYBALL_CACHE_BYTES", text)])).len(), 1, "{text}");
    }
}

/// A store without room for a single bucket would let everything pass.
#[test]
fn the_smallest_store_keeps_the_longest_key() {
    use flyball_core::algorithm::{Bucket, State, TokenBucket};
    use flyball_core::store::{Store, StoredKey};
    use flyball_core::{Key, Timestamp};

    for text in ["1", "100", "64KiB", "1048575"] {
        let shown = wrong(&env(&[("FLYBALL_CACHE_BYTES", text)]));
        assert_eq!(shown, [format!("FLYBALL_CACHE_BYTES='{text}' (environment): expected at least 1MiB")]);
    }
    for text in ["0", "524289"] {
        let shown = wrong(&env(&[("FLYBALL_KEY_BYTES_MAX", text)]));
        let expected =
            format!("FLYBALL_KEY_BYTES_MAX='{text}' (environment): expected a whole number from 1 to 524288");
        assert_eq!(shown, [expected]);
    }
    let config = config(&[("FLYBALL_CACHE_BYTES", "3MiB"), ("FLYBALL_KEY_BYTES_MAX", "524288")]);
    let key = "k".repeat(config.key_bytes_max as usize - 1);
    let now = Timestamp(1_000);
    for cpus in [1, 64] {
        let store = Store::new(&config.store_settings(&HostFacts { cpus, ..HostFacts::default() }));
        let token = TokenBucket {
            limit: 1,
            remaining: 0,
            duration: 1_000,
            created_at: 1_000,
            calendar: false,
            over_limit: false,
        };
        let bucket = Bucket { expire_at: 2_000, state: State::Token(token) };
        store.insert(StoredKey::Pair(Key { name: "n", unique_key: &key }), bucket, now);
        let stats = store.stats(now);
        assert_eq!((stats.entries, stats.oversized), (1, 0), "{cpus} CPUs");
    }
}

#[test]
fn hostile_values_stay_on_one_short_line() {
    let value = format!("\n\u{1b}[31m{}", "x".repeat(100_000));
    for name in ["GUBER_BATCH_WAIT", "GUBER_INSTANCE_ID", "GUBER_TLS_CERT"] {
        let shown = wrong(&env(&[(name, &value)])).remove(0);
        assert!(shown.len() < 400 && !shown.contains(char::is_control), "{shown}");
    }
}
