//! Laws over any input.

use proptest::prelude::*;

use super::*;

fn name() -> impl Strategy<Value = String> {
    let known: Vec<_> = table::variables()
        .chain(table::names())
        .chain(later::names())
        .chain(["TZ"])
        .map(str::to_owned)
        .collect();
    prop_oneof![
        6 => proptest::sample::select(known),
        1 => "(GUBER|FLYBALL|OTEL)_[A-Z_]{0,12}",
        1 => "\\PC{0,12}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    let defaults: Vec<_> = table::all().map(|setting| setting.default.to_owned()).collect();
    prop_oneof![
        proptest::sample::select(defaults),
        "[-+]?[0-9]{1,20}(\\.[0-9]{1,4})?(ns|us|µs|ms|s|m|h|KiB|MiB|GB)?",
        "(\\[?[0-9a-f:.]{0,12}\\]?)?:[0-9]{0,6}",
        "https?://[a-z0-9.:]{0,12}/?",
        "([a-z]{1,4}=[a-z%0-9]{0,6},?){0,3}",
        any::<String>(),
    ]
}

fn strings() -> impl Strategy<Value = Strings> {
    let flags: Vec<_> = table::all().filter_map(|setting| setting.flag).map(str::to_owned).collect();
    let line = (name(), prop_oneof![Just("="), Just(" = "), Just("")], value())
        .prop_map(|(name, equals, value)| format!("{name}{equals}{value}\n"));
    let quoted =
        (name(), value()).prop_map(|(name, value)| format!("{name} = {}\n", toml::Value::from(value)));
    let text = prop_oneof![
        proptest::collection::vec(line, 0..5).prop_map(|lines| lines.concat()),
        proptest::collection::vec(quoted, 0..5).prop_map(|lines| lines.concat()),
        any::<String>(),
    ];
    let file = (prop_oneof![Just("a.toml"), Just("a.conf")], text)
        .prop_map(|(path, text)| SourceFile { path: path.to_owned(), text });
    (
        proptest::collection::vec((name(), value()), 0..6),
        proptest::collection::vec(file, 0..3),
        proptest::collection::vec((proptest::sample::select(flags), value()), 0..3),
    )
        .prop_map(|(env, files, flags)| Strings { env, files, flags, ..Strings::default() })
}

proptest! {
    #[test]
    fn any_input_is_answered_on_short_lines(strings in strings()) {
        match from_strings(&strings) {
            Ok(loaded) => {
                let host = HostFacts { cpus: 2, cgroup: "x".to_owned(), random: [1, 2] };
                let config = &loaded.config;
                let _ = (config.rules(), config.store_settings(&host), config.instance_id(&host));
                let _ = (config.exporter(), config.ring(), config.advertise_address(1));
                for warning in &loaded.warnings {
                    prop_assert!(!warning.to_string().contains(char::is_control));
                }
            }
            Err(error) => {
                prop_assert!(!error.problems().is_empty());
                for problem in error.problems() {
                    let shown = problem.to_string();
                    prop_assert!(!shown.contains(char::is_control), "{:?}", shown);
                }
            }
        }
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same_configuration(strings in strings()) {
        let Ok(loaded) = from_strings(&strings) else { return Ok(()) };
        let mut again = Strings::default();
        for (setting, effective) in table::all().zip(loaded.effective()) {
            if effective.value.contains("<redacted>") && setting.url {
                return Ok(());
            }
            if !setting.secret {
                again.env.push((setting.env[0].to_owned(), effective.value));
            }
        }
        // Secrets are not shown.
        let mut expected = loaded.config;
        expected.otel.headers = Pairs::default();
        expected.cluster.peer_secret = None;
        expected.discovery.etcd.password = None;
        expected.discovery.member_list.secret_keys = None;
        prop_assert_eq!(ok(&again).config, expected);
    }

    #[test]
    fn any_cgroup_text_gives_a_plain_id(cgroup in any::<String>(), random in any::<[u64; 2]>()) {
        let id = Config::default().instance_id(&HostFacts { cpus: 1, cgroup, random });
        prop_assert!((1..=12).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
