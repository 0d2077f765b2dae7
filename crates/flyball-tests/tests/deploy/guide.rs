//! `docs/migrating-from-gubernator.md`: complete, and what the program says.

use flyball_server::config::{SETTINGS, variables_table};
use flyball_tests::deploy::{metrics, read, root};

const PAGE: &str = "docs/migrating-from-gubernator.md";

/// Between these marks stands what the program writes; `FLYBALL_BLESS=1` writes it anew.
const MARKS: (&str, &str) = ("<!-- variables:begin -->\n", "<!-- variables:end -->\n");

#[test]
fn the_table_of_variables_is_the_programs() {
    let page = read(PAGE).unwrap();
    let (before, rest) = page.split_once(MARKS.0).unwrap();
    let (_, after) = rest.split_once(MARKS.1).unwrap();
    let expected = format!("{before}{}{}{}{after}", MARKS.0, variables_table(), MARKS.1);
    if page != expected {
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            return std::fs::write(root().join(PAGE), expected).unwrap();
        }
        panic!("{PAGE} is not up to date: run `cargo xtask reference`");
    }
}

/// Every variable that the original and this program share is in it; so are the original's that are refused.
#[test]
fn no_variable_is_missing() {
    let page = read(PAGE).unwrap();
    let reference = read("docs/configuration.md").unwrap();
    let known = flyball_tests::deploy::variables(&reference).unwrap();
    let settings =
        SETTINGS.into_iter().flatten().flat_map(|setting| setting.env).map(|name| (*name).to_owned());
    let mut checked = 0;
    for name in settings.chain(known).filter(|name| name.starts_with("GUBER_")) {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in {PAGE}");
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
}

/// Every metric of the original has its line, and nothing else is said to be one of its metrics.
#[test]
fn no_metric_is_missing() {
    let page = read(PAGE).unwrap();
    let (_, section) = page.split_once("\n## Metrics\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let named = metrics(section).unwrap();
    for metric in ORIGINALS {
        assert!(named.contains(metric), "{metric} is not in the section on metrics");
    }
    let strangers: Vec<_> = named
        .iter()
        .filter(|name| name.starts_with("gubernator_") && !name.starts_with("gubernator_process"))
        .filter(|name| !ORIGINALS.contains(&name.as_str()))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

/// What Gubernator v2.21.0 exports.
const ORIGINALS: [&str; 27] = [
    "gubernator_batch_queue_length",
    "gubernator_batch_send_duration",
    "gubernator_batch_send_retries",
    "gubernator_broadcast_duration",
    "gubernator_broadcast_errors",
    "gubernator_cache_access_count",
    "gubernator_cache_size",
    "gubernator_check_error_counter",
    "gubernator_command_counter",
    "gubernator_concurrent_checks_counter",
    "gubernator_func_duration",
    "gubernator_getratelimit_counter",
    "gubernator_global_queue_length",
    "gubernator_global_send_duration",
    "gubernator_global_send_errors",
    "gubernator_global_send_queue_length",
    "gubernator_grpc_request_counts",
    "gubernator_grpc_request_duration",
    "gubernator_over_limit_counter",
    "gubernator_scheduled_ceiling_refused_count",
    "gubernator_scheduled_count",
    "gubernator_scheduled_debt_reset_count",
    "gubernator_unexpired_evictions_count",
    "gubernator_updatepeerglobals_counter",
    "gubernator_worker_queue_length",
    "promhttp_metric_handler_requests_in_flight",
    "promhttp_metric_handler_requests_total",
];
