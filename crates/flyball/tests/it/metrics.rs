//! The metrics page: names, labels, types and values.

use std::collections::BTreeMap;

use flyball::{Metrics, MetricsOptions, Node, Semantics, pb};

use crate::common::*;

/// Series as written, with their values; and families with their types.
struct Page {
    series: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
}

fn page(node: &Node) -> Page {
    let mut page = Page { series: BTreeMap::new(), types: BTreeMap::new() };
    for line in node.metrics().render().lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            assert!(page.types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(
                page.series.insert(series.to_owned(), value.parse().unwrap()).is_none(),
                "{series} twice"
            );
        }
    }
    page
}

impl Page {
    fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("{series} is missing"))
    }

    fn has(&self, family: &str) -> bool {
        self.types.contains_key(family)
    }
}

#[tokio::test]
async fn before_the_first_call_only_unlabelled_families_are_there() {
    let page = page(&node());
    let expected = [
        ("gubernator_broadcast_duration", "summary"),
        ("gubernator_broadcast_errors", "counter"),
        ("gubernator_cache_size", "gauge"),
        ("gubernator_concurrent_checks_counter", "gauge"),
        ("gubernator_global_queue_length", "gauge"),
        ("gubernator_global_send_duration", "summary"),
        ("gubernator_global_send_errors", "counter"),
        ("gubernator_global_send_queue_length", "gauge"),
        ("gubernator_over_limit_counter", "counter"),
        ("gubernator_scheduled_ceiling_refused_count", "counter"),
        ("gubernator_scheduled_count", "counter"),
        ("gubernator_scheduled_debt_reset_count", "counter"),
        ("gubernator_unexpired_evictions_count", "counter"),
        ("gubernator_updatepeerglobals_counter", "counter"),
    ];
    let gubernator: Vec<_> = page
        .types
        .iter()
        .filter(|(name, _)| name.starts_with("gubernator_"))
        .map(|(name, kind)| (name.as_str(), kind.as_str()))
        .collect();
    assert_eq!(gubernator, expected);
    assert!(page.value("gubernator_broadcast_duration{quantile=\"0.99\"}").is_nan());
    assert_eq!(page.value("gubernator_broadcast_duration_count"), 0.0);
    assert_eq!(page.value("promhttp_metric_handler_requests_total{code=\"503\"}"), 0.0);
    assert_eq!(page.value(&format!("flyball_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1.0);
}

#[tokio::test]
async fn checks_are_counted_by_what_came_of_them() {
    let node = node();
    let mut leaky = item("l");
    (leaky.algorithm, leaky.hits) = (1, 10);
    let mut wait = leaky.clone();
    (wait.hits, wait.max_wait) = (1, 60_000);
    let mut bad_calendar = item("c");
    (bad_calendar.behavior, bad_calendar.duration) = (4, 77);
    let mut unknown = item("u");
    unknown.algorithm = 9;
    let mut far = item("far");
    far.created_at = Some(NOW.ms() + 3_600_000);
    let mut items = vec![item(""), leaky, wait, bad_calendar, unknown, far];
    items.extend(vec![item("t"); 12]);
    call(&node, GET, &[], &ask(items)).await.decode::<pb::GetRateLimitsResp>();

    let page = page(&node);
    let expected = [
        ("gubernator_getratelimit_counter{calltype=\"local\"}", 15.0),
        ("gubernator_over_limit_counter", 2.0),
        ("gubernator_scheduled_count", 1.0),
        ("gubernator_cache_access_count{type=\"miss\"}", 4.0),
        ("gubernator_cache_access_count{type=\"hit\"}", 12.0),
        ("gubernator_cache_size", 3.0),
        ("gubernator_check_error_counter{error=\"Invalid request\"}", 1.0),
        ("gubernator_check_error_counter{error=\"Invalid algorithm\"}", 1.0),
        ("gubernator_check_error_counter{error=\"Error in tokenBucket\"}", 1.0),
        ("gubernator_command_counter{method=\"GetRateLimit\",worker=\"0\"}", 17.0),
        ("gubernator_worker_queue_length{method=\"GetRateLimit\",worker=\"0\"}", 0.0),
        ("gubernator_concurrent_checks_counter", 0.0),
        ("flyball_created_at_clamped_total", 1.0),
        ("gubernator_func_duration_count{name=\"V1Instance.GetRateLimits\"}", 1.0),
        ("gubernator_func_duration_count{name=\"V1Instance.getLocalRateLimit\"}", 15.0),
        ("gubernator_func_duration_count{name=\"tokenBucket\"}", 13.0),
        ("gubernator_func_duration_count{name=\"V1Instance.getRateLimit_leakyBucket\"}", 2.0),
    ];
    for (series, value) in expected {
        assert_eq!(page.value(series), value, "{series}");
    }
    assert!(page.value("gubernator_func_duration{name=\"tokenBucket\",quantile=\"1\"}") > 0.0);
    assert!(page.value("gubernator_func_duration_sum{name=\"tokenBucket\"}") > 0.0);
    assert!(page.value("flyball_store_bytes") > 0.0);
    assert!(!page.series.contains_key("gubernator_getratelimit_counter{calltype=\"global\"}"));
}

#[tokio::test]
async fn calls_are_counted_by_method_and_outcome() {
    let node = node();
    let get =
        |status: &str| format!("gubernator_grpc_request_counts{{method=\"{GET}\",status=\"{status}\"}}");
    call(&node, GET, &[], &ask(vec![item("k")])).await;
    // Both outcomes appear with the first call of a method.
    let first = page(&node);
    assert_eq!((first.value(&get("success")), first.value(&get("failed"))), (1.0, 0.0));
    assert!(!first.series.keys().any(|series| series.contains("HealthCheck")));

    // Refused before, in and after decoding; by deadline; over HTTP, so to speak; and one more that is fine.
    call_raw(&node, GET, &[], frame(&[0x09], false)).await;
    call_raw(&node, GET, &[], bytes::Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff])).await;
    call(&node, GET, &[("grpc-encoding", "br")], &ask(vec![])).await;
    call(&node, GET, &[], &ask(vec![item("k"); 1_001])).await;
    call(&node, GET, &[("grpc-timeout", "0n")], &ask(vec![item("k")])).await;
    let _ = node.get_rate_limits(ask(vec![item("k"); 1_001]), Default::default()).await;
    let _ = node.get_rate_limits(ask(vec![item("k")]), Default::default()).await;
    let _ = node.health();
    call(&node, "/pb.gubernator.V1/Nope", &[], &ask(vec![])).await;
    call(&node, "/nobody.Knows/Nope", &[], &ask(vec![])).await;

    let page = page(&node);
    assert_eq!((page.value(&get("success")), page.value(&get("failed"))), (2.0, 6.0));
    let count = format!("gubernator_grpc_request_duration_count{{method=\"{GET}\"}}");
    assert_eq!(page.value(&count), 8.0);
    assert!(
        page.value(&format!("gubernator_grpc_request_duration{{method=\"{GET}\",quantile=\"0.99\"}}")) > 0.0
    );
    let bucket = format!("flyball_request_duration_seconds_bucket{{method=\"{GET}\",le=\"+Inf\"}}");
    assert_eq!(page.value(&bucket), 8.0);
    assert_eq!(
        page.value(&format!("gubernator_grpc_request_counts{{method=\"{HEALTH}\",status=\"success\"}}")),
        1.0
    );
    assert_eq!(page.value("gubernator_check_error_counter{error=\"Request too large\"}"), 2.0);
    assert_eq!(page.value("gubernator_check_error_counter{error=\"Timeout\"}"), 1.0);
    assert!(!page.series.keys().any(|series| series.contains("Nope")));
}

#[tokio::test]
async fn a_caller_that_leaves_is_a_failed_call_and_no_longer_running() {
    let node = node();
    let body = http_body_util::StreamBody::new(tokio_stream::pending::<
        Result<http_body::Frame<bytes::Bytes>, std::io::Error>,
    >());
    let mut call = Box::pin(send(node.v1_service(), post(GET, &[], body)));
    assert!(poll_once(&mut call).is_none());
    assert_eq!(page(&node).value("gubernator_concurrent_checks_counter"), 1.0);
    drop(call);
    let page = page(&node);
    assert_eq!(page.value("gubernator_concurrent_checks_counter"), 0.0);
    let failed = format!("gubernator_grpc_request_counts{{method=\"{GET}\",status=\"failed\"}}");
    assert_eq!(page.value(&failed), 1.0);
}

/// One poll.
fn poll_once<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn broadcasts_are_counted_item_by_item() {
    let node = node();
    let update = |status| pb::UpdatePeerGlobal { key: "n_k".to_owned(), status, ..Default::default() };
    let globals = vec![update(Some(pb::RateLimitResp::default())), update(None)];
    call(&node, PEER_UPDATE, &[], &pb::UpdatePeerGlobalsReq { globals, ..Default::default() }).await;
    let page = page(&node);
    assert_eq!(page.value("gubernator_updatepeerglobals_counter"), 2.0);
    assert_eq!(page.value("flyball_peer_updates_skipped_total"), 1.0);
    assert_eq!(page.value("gubernator_command_counter{method=\"AddCacheItem\",worker=\"0\"}"), 1.0);
    assert_eq!(page.value("gubernator_func_duration_count{name=\"V1Instance.UpdatePeerGlobals\"}"), 1.0);
}

#[tokio::test]
async fn scrapes_count_themselves() {
    let node = node();
    assert!(node.metrics().scrape().contains("\npromhttp_metric_handler_requests_in_flight 1\n"));
    let page = page(&node);
    assert_eq!(page.value("promhttp_metric_handler_requests_in_flight"), 0.0);
    assert_eq!(page.value("promhttp_metric_handler_requests_total{code=\"200\"}"), 1.0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_process_is_shown_on_request() {
    assert!(!page(&node()).has("gubernator_process_open_fds"));
    let options = MetricsOptions { process: true, version: "7.8.9".to_owned() };
    let node = Node::builder().settings(settings(Semantics::Exact)).metrics(Metrics::new(options)).build();
    let page = page(&node);
    assert_eq!(page.types["gubernator_process_cpu_seconds_total"], "counter");
    for gauge in ["open_fds", "max_fds", "resident_memory_bytes", "virtual_memory_bytes"] {
        assert!(page.value(&format!("gubernator_process_{gauge}")) >= 1.0, "{gauge}");
    }
    assert!(page.value("gubernator_process_virtual_memory_max_bytes") >= 1e6);
    // Between 2020 and 2100.
    let start = page.value("gubernator_process_start_time_seconds");
    assert!((1.577e9..4.103e9).contains(&start), "{start}");
    assert_eq!(page.value("flyball_build_info{version=\"7.8.9\"}"), 1.0);
}

#[tokio::test]
async fn the_number_of_series_does_not_depend_on_what_callers_send() {
    let node = node();
    let items: Vec<_> = (0..1_000)
        .map(|index| {
            let mut item = item(&format!("key-{index}"));
            (item.name, item.algorithm) = (format!("name-{index}"), index % 5);
            item
        })
        .collect();
    for _ in 0..2 {
        call(&node, GET, &[], &ask(items[..10].to_vec())).await;
    }
    let before = page(&node).series.len();
    call(&node, GET, &[], &ask(items)).await;
    assert_eq!(page(&node).series.len(), before);
}
