//! What the parts of the daemon get.

use flyball_core::store::StoreSettings;

use super::*;

fn host() -> HostFacts {
    HostFacts { cpus: 4, cgroup: String::new(), random: [7, 0x12_3456_789a_bcde] }
}

#[test]
fn rules_by_default_are_the_cores_defaults() {
    let (ours, core) = (Config::default().rules(), flyball_core::Rules::default());
    assert_eq!(format!("{ours:?}"), format!("{core:?}"));
}

#[test]
fn rules_carry_the_settings() {
    let rules = config(&[
        ("FLYBALL_SEMANTICS", "gubernator"),
        ("FLYBALL_CREATED_AT_TOLERANCE", "1.5s"),
        ("FLYBALL_KEY_BYTES_MAX", "10"),
        ("GUBER_SCHEDULE_MAX_WAIT", "999us"),
        ("GUBER_BATCH_TIMEOUT", "2s"),
        ("GUBER_FORCE_GLOBAL", "true"),
    ])
    .rules();
    assert_eq!(rules.semantics, Semantics::Gubernator);
    assert_eq!(rules.created_at_tolerance_ms, 1_500);
    assert_eq!(rules.key_bytes_max, 10);
    assert_eq!(rules.schedule_max_wait_ms, 0, "below a millisecond every booking is refused");
    assert_eq!(rules.forward_timeout_ms, 2_000);
    assert!(rules.force_global);
}

#[test]
fn the_longest_durations_fit() {
    let rules = config(&[("FLYBALL_CREATED_AT_TOLERANCE", "9223372036854775807ns")]).rules();
    assert_eq!(rules.created_at_tolerance_ms, 9_223_372_036_854);
}

#[test]
fn store_settings() {
    let store = Config::default().store_settings(&host());
    let core = StoreSettings::default();
    assert_eq!((store.shards, store.seed), (64, 7));
    assert_eq!((store.bytes_max, store.entries_max), (core.bytes_max, None));
    assert_eq!((store.linger_ms, store.semantics), (core.linger_ms, Semantics::Exact));

    let slow = config(&[("GUBER_BATCH_TIMEOUT", "60s")]).store_settings(&host());
    assert_eq!(
        slow.linger_ms, core.linger_ms,
        "the dead leave within a second of the tolerance all the same"
    );

    let store = config(&[
        ("FLYBALL_SEMANTICS", "gubernator"),
        ("GUBER_CACHE_SIZE", "50000"),
        ("GUBER_WORKER_COUNT", "3"),
        ("FLYBALL_CACHE_BYTES", "1MiB"),
    ])
    .store_settings(&host());
    assert_eq!((store.shards, store.entries_max, store.bytes_max), (3, Some(50_000), 1 << 20));
    assert_eq!((store.linger_ms, store.semantics), (0, Semantics::Gubernator));
    assert_eq!(Config::default().store_settings(&HostFacts { cpus: 0, ..host() }).shards, 16);
}

/// Inventory: TestDefaultInstanceId.
#[test]
fn the_instance_id_is_configured_or_the_containers_or_random() {
    let id = "0123456789abcdef0123456789abcdef";
    let cgroup = format!("12:pids:/user.slice\n11:cpu:/docker/{id}\n0::/docker/ffff\n");
    assert_eq!(config(&[("GUBER_INSTANCE_ID", "blue")]).instance_id(&host()), "blue");
    let container = HostFacts { cgroup, ..host() };
    assert_eq!(Config::default().instance_id(&container), "0123456789ab");
    assert_eq!(Config::default().instance_id(&host()), "56789abcde");
    for cgroup in ["0::/", "0::/docker/", "0::/docker/../x", "\0"] {
        let odd = HostFacts { cgroup: cgroup.to_owned(), random: [0, 1], ..host() };
        assert_eq!(Config::default().instance_id(&odd), "0000000001", "{cgroup}");
    }
}

#[test]
fn the_advertised_address_follows_the_listener() {
    assert_eq!(Config::default().advertise_address(1051).to_string(), "127.0.0.1:1051");
    let any = config(&[("GUBER_GRPC_ADDRESS", "[::]:0")]).advertise_address(4242);
    assert_eq!(any.to_string(), "[::]:4242");
    assert!(any.is_wildcard());
    let given = config(&[("GUBER_ADVERTISE_ADDRESS", "localhost:1051"), ("GUBER_GRPC_ADDRESS", ":9")]);
    assert_eq!(given.advertise_address(9).to_string(), "localhost:1051", "as written: peers compare texts");
}

#[test]
fn every_interface_is_dialled_through_loopback() {
    for (text, dialled) in
        [(":1", "127.0.0.1:1"), ("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("me:1", "me:1")]
    {
        let config = config(&[("GUBER_HTTP_ADDRESS", text)]);
        assert_eq!(config.http.address.dialable().to_string(), dialled);
    }
}

#[test]
fn naming_the_picker_changes_the_default_hash() {
    assert_eq!(Config::default().ring(), (PickerHash::Fnv1, 512));
    let named = |more: &[(&str, &str)]| {
        let mut pairs = vec![("GUBER_PEER_PICKER", "replicated-hash")];
        pairs.extend(more);
        config(&pairs).ring()
    };
    assert_eq!(named(&[]), (PickerHash::Fnv1a, 512));
    assert_eq!(named(&[("GUBER_PEER_PICKER_HASH", "fnv1")]), (PickerHash::Fnv1, 512));
    assert_eq!(named(&[("GUBER_REPLICATED_HASH_REPLICAS", "7")]), (PickerHash::Fnv1a, 7));
    assert_eq!(config(&[("GUBER_REPLICATED_HASH_REPLICAS", "7")]).ring(), (PickerHash::Fnv1, 512));
}
