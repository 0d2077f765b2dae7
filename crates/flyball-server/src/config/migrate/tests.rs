//! Held here: the rows of the original against the settings of this program, and what a real environment is told.

use super::*;
use crate::config::{SourceFile, from_strings};

fn env(pairs: &[(&str, &str)]) -> Strings {
    let env = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Strings { env, ..Strings::default() }
}

fn told<'a>(report: &'a Report, name: &str) -> &'a Variable {
    report.variables.iter().find(|variable| variable.name == name).unwrap()
}

#[test]
fn every_variable_of_the_original_that_is_a_setting_here_has_a_row() {
    for variable in table::variables().filter(|variable| !variable.starts_with("FLYBALL_")) {
        assert!(
            original(variable).is_some(),
            "{variable} is a setting and has no row in migrate/original.rs"
        );
    }
}

#[test]
fn rows_are_distinct_and_none_is_both_read_and_unread() {
    let names: BTreeSet<_> = ORIGINALS.iter().map(|row| row.variable).collect();
    assert_eq!(names.len(), ORIGINALS.len());
    for row in ORIGINALS {
        assert!(!row.unread || setting_of(row.variable).is_none(), "{} is read", row.variable);
        assert!(!row.default.is_empty(), "{}", row.variable);
        let texts = row.differs.iter().map(|difference| difference.text);
        for text in texts {
            assert!(!text.ends_with('.') && !text.contains('|'), "{}: {text}", row.variable);
        }
    }
}

#[test]
fn a_difference_is_told_when_it_applies() {
    let cache = |pairs: &[(&str, &str)]| from_env(&env(pairs));
    let unset = cache(&[]);
    assert!(unset.variables.is_empty() && !unset.is_refused());
    let changed = |report: &Report| report.defaults.iter().map(|default| default.name).collect::<Vec<_>>();
    assert!(changed(&unset).contains(&"GUBER_CACHE_SIZE") && changed(&unset).contains(&"FLYBALL_SEMANTICS"));
    let set = cache(&[("GUBER_CACHE_SIZE", "70000"), ("FLYBALL_SEMANTICS", "gubernator")]);
    assert!(!changed(&set).contains(&"GUBER_CACHE_SIZE") && !changed(&set).contains(&"FLYBALL_SEMANTICS"));
    let size = told(&set, "GUBER_CACHE_SIZE");
    assert_eq!((size.in_force.as_deref(), size.original_default), (Some("70000"), Some("50000")));
    assert!(size.differs[0].contains("FLYBALL_CACHE_BYTES"), "{:?}", size.differs);

    let none = from_env(&env(&[("GUBER_PEER_DISCOVERY_TYPE", "none")]));
    assert!(told(&none, "GUBER_PEER_DISCOVERY_TYPE").differs[0].contains("pool is empty"));
}

#[test]
fn what_is_refused_is_said_beside_its_variable_and_the_rest_is_told_all_the_same() {
    let report = from_env(&env(&[
        ("GUBER_BATCH_TIMEOUT", "500"),
        ("GUBER_PEER_PICKER", "consistent-hash"),
        ("GUBER_CACHE_SIZE", "5"),
    ]));
    assert!(report.is_refused() && report.toml.is_empty());
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
    let timeout = told(&report, "GUBER_BATCH_TIMEOUT");
    assert!(timeout.refused.is_some() && timeout.in_force.is_none());
    assert_eq!(told(&report, "GUBER_CACHE_SIZE").in_force.as_deref(), Some("5"));
}

#[test]
fn the_file_of_our_own_means_the_same() {
    let strings = env(&[
        ("GUBER_GRPC_ADDRESS", "0.0.0.0:1051"),
        ("GUBER_HTTP_ADDRESS", "0.0.0.0:1050"),
        ("GUBER_ADVERTISE_ADDRESS", "10.0.0.1:1051"),
        ("GUBER_CACHE_SIZE", "70000"),
        ("GUBER_LOG_LEVEL", "error"),
        ("GUBER_INSTANCE_ID", "a \"quoted\" \\ name"),
        ("GUBER_DISABLE_BATCHING", "true"),
        ("GUBER_PEER_PICKER", "replicated-hash"),
        ("FLYBALL_PEERS", "10.0.0.1:1051,10.0.0.2:1051"),
        ("FLYBALL_TIME_ZONE", "Europe/Berlin"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b,c=d"),
        ("GUBER_METRIC_FLAGS", "os"),
    ]);
    let report = from_env(&strings);
    assert!(!report.is_refused(), "{:?}", report.problems);
    let file = SourceFile { path: "flyball.toml".to_owned(), text: report.toml.clone() };
    let again = from_strings(&Strings { files: vec![file], ..Strings::default() });
    let again = again.unwrap_or_else(|error| panic!("{error}\n{}", report.toml));
    assert_eq!(again.config, from_strings(&strings).unwrap().config, "{}", report.toml);
}

#[test]
fn debug_becomes_a_level() {
    let report = from_env(&env(&[("GUBER_DEBUG", "true"), ("GUBER_LOG_LEVEL", "error")]));
    assert!(
        report.toml.contains("level = \"debug\"") && !report.toml.contains("debug = "),
        "{}",
        report.toml
    );
    let alone = from_env(&env(&[("GUBER_DEBUG", "1")]));
    assert!(alone.toml.contains("[log]\nlevel = \"debug\""), "{}", alone.toml);
}

#[test]
fn secrets_are_told_of_and_not_told() {
    let report = from_env(&env(&[
        ("FLYBALL_CLUSTER_PEER_SECRET", "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter2@collector:4317"),
        ("GUBER_MEMBERLIST_SECRET_KEYS", "hunter2"),
        ("GUBER_SOMETHING_PASSWORD", "hunter2"),
        ("ETCD3_PASSWORD", "hunter2"),
    ]));
    assert_eq!(report.variables.len(), 6);
    assert!(!serde_json::to_string(&report).unwrap().contains("hunter2"));
    let report = from_env(&env(&[("FLYBALL_CLUSTER_PEER_SECRET", "hunter2")]));
    assert!(report.toml.contains("keep it in FLYBALL_CLUSTER_PEER_SECRET"), "{}", report.toml);
}

#[test]
fn the_rest_of_the_environment_is_nobodys_business() {
    let report = from_env(&env(&[
        ("PATH", "/bin"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
        ("FLYBALL_SERVICE_HOST", "10.0.0.2"),
        ("TZ", "Europe/Berlin"),
        ("GUBER_CAHCE_SIZE", "1"),
    ]));
    let names: Vec<_> = report.variables.iter().map(|variable| variable.name.as_str()).collect();
    assert_eq!(names, ["GUBER_CAHCE_SIZE", "TZ"]);
    assert!(
        report.warnings.iter().any(|warning| warning.contains("GUBER_CACHE_SIZE")),
        "{:?}",
        report.warnings
    );
    assert!(
        told(&report, "TZ").setting.is_none() && told(&report, "TZ").differs[0].contains("FLYBALL_TIME_ZONE")
    );
}

#[test]
fn a_file_overrides_the_environment_and_is_named() {
    let mut strings = env(&[("GUBER_CACHE_SIZE", "1")]);
    strings
        .files
        .push(SourceFile { path: "g.conf".to_owned(), text: "# x\nGUBER_CACHE_SIZE=2\n".to_owned() });
    let report = from_env(&strings);
    let size = told(&report, "GUBER_CACHE_SIZE");
    assert_eq!(
        (size.value.as_str(), size.origin.as_str(), size.in_force.as_deref()),
        ("2", "g.conf:2", Some("2"))
    );
}
