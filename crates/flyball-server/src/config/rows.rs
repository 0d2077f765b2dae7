//! The settings of a node by itself, the original's and our own. Those about peers are in [`super::peer_rows`], those
//! about TLS in [`super::tls_rows`], those about traces in [`super::otel_rows`].

use flyball_core::store::entry_bytes;

use super::Config;
use super::table::Section::{Addresses, Lifecycle, Logs, Rules, Store};
use super::table::{Field, Setting, field};
use super::values::{ByteSize, Value as _, whole_number};

/// Fields whose bounds are narrower than their type's.
const CACHE_BYTES: Field = Field { set: cache_bytes, ..field!(cache.bytes) };
const KEY_BYTES_MAX: Field = Field { set: key_bytes_max, ..field!(key_bytes_max) };
const SHARDS: Field = Field { set: shards, ..field!(cache.shards, zero = default) };
const WAIT_CEILING: Field = Field { set: wait_ceiling, ..field!(schedule_max_wait, zero = default) };

/// The smallest store. It never makes a shard smaller than this either, so with the bound of [`LONGEST_KEY`] every
/// key that a node with `exact` semantics lets in has room: a bucket that is not kept would limit nobody.
const SMALLEST_CACHE: u64 = 1 << 20;
/// The largest bound on keys, in bytes.
const LONGEST_KEY: usize = 512 << 10;
const _: () = assert!(entry_bytes(LONGEST_KEY + 1) as u64 <= SMALLEST_CACHE, "the longest key fits");

fn cache_bytes(config: &mut Config, text: &str) -> Result<(), String> {
    match ByteSize::parse(text)? {
        ByteSize(bytes) if bytes < SMALLEST_CACHE => Err("expected at least 1MiB".to_owned()),
        _ => (field!(cache.bytes).set)(config, text),
    }
}

fn key_bytes_max(config: &mut Config, text: &str) -> Result<(), String> {
    whole_number(text, 1, LONGEST_KEY as i64)?;
    (field!(key_bytes_max).set)(config, text)
}

fn shards(config: &mut Config, text: &str) -> Result<(), String> {
    whole_number(text, 0, 4_096)?;
    (field!(cache.shards, zero = default).set)(config, text)
}

fn wait_ceiling(config: &mut Config, text: &str) -> Result<(), String> {
    (field!(schedule_max_wait, zero = default).set)(config, text).map_err(|expected| {
        match super::duration::parse(text) {
            // The original's words again.
            Err(super::duration::Bad::Negative) => "Behaviors.ScheduleMaxWait cannot be negative".to_owned(),
            _ => expected,
        }
    })
}

/// In the order of the reference page.
pub(super) const ROWS: [Setting; 27] = [
    Setting::new(
        Rules,
        "semantics",
        &["FLYBALL_SEMANTICS"],
        field!(semantics),
        "Which set of answers the node gives. `exact` is what a careful user of a rate limiter expects; \
         `gubernator` equals Gubernator v2.21.0 answer by answer, oddities included, for a cluster that \
         runs both during a migration. The same on every node.",
    )
    .default("exact")
    .flag("semantics"),
    Setting::new(
        Rules,
        "time_zone",
        &["FLYBALL_TIME_ZONE"],
        field!(time_zone),
        "Time zone in which calendar limits begin and end, an IANA name such as `Europe/Berlin`. The \
         variable `TZ` is not read. The same on every node.",
    )
    .default("UTC")
    .flag("time-zone"),
    Setting::new(
        Rules,
        "created_at_tolerance",
        &["FLYBALL_CREATED_AT_TOLERANCE"],
        field!(created_at_tolerance),
        "How far a client's `created_at` may lie from this node's clock, each way. Beyond it the time is \
         moved to the nearer edge and counted. With `gubernator` semantics any time is believed.",
    )
    .default("5s")
    .flag("created-at-tolerance"),
    Setting::new(
        Rules,
        "key_bytes_max",
        &["FLYBALL_KEY_BYTES_MAX"],
        KEY_BYTES_MAX,
        "Longest `name` plus `unique_key`, in bytes, 1 to 524288. A longer pair is an error of its item. No \
         bound with `gubernator` semantics: there a key that is larger than a shard of the store, which is \
         never smaller than 1 MiB, is decided as if it were new each time and not stored; \
         `flyball_oversized_total` counts it.",
    )
    .default("4096")
    .flag("key-bytes-max"),
    Setting::new(
        Rules,
        "schedule_max_wait",
        &["GUBER_SCHEDULE_MAX_WAIT"],
        WAIT_CEILING,
        "Longest wait that is booked for a check with `max_wait`, in whole milliseconds. It holds for the \
         keys this node owns: set the same value on every node, or keys differ. Below 1ms every booking \
         is refused.",
    )
    .default("5m")
    .flag("schedule-max-wait"),
    Setting::new(
        Addresses,
        "grpc.address",
        &["GUBER_GRPC_ADDRESS"],
        field!(grpc.address),
        "Where gRPC is served. `0.0.0.0:1051` or `:1051` listens on every interface; port 0 lets the \
         system choose.",
    )
    .default("127.0.0.1:1051")
    .flag("grpc-address"),
    Setting::new(
        Addresses,
        "grpc.reflection",
        &["FLYBALL_GRPC_REFLECTION"],
        field!(grpc.reflection),
        "Serve gRPC server reflection, so that tools can ask what can be called.",
    )
    .default("true")
    .flag("grpc-reflection"),
    Setting::new(
        Addresses,
        "grpc.health",
        &["FLYBALL_GRPC_HEALTH"],
        field!(grpc.health),
        "Serve the standard gRPC health service.",
    )
    .default("true")
    .flag("grpc-health"),
    Setting::new(
        Addresses,
        "grpc.max_connection_age_seconds",
        &["GUBER_GRPC_MAX_CONN_AGE_SEC"],
        field!(grpc.max_connection_age_seconds, zero = default),
        "Seconds a gRPC connection may live before the client is asked to open a new one; it then has as \
         long again to finish its calls. 0 is without bound.",
    )
    .default("0")
    .flag("grpc-max-connection-age"),
    Setting::new(
        Addresses,
        "http.address",
        &["GUBER_HTTP_ADDRESS"],
        field!(http.address),
        "Where HTTP is served: the JSON API, metrics and health. The same forms as for gRPC; also the \
         address that `flyball healthcheck` asks.",
    )
    .default("127.0.0.1:1050")
    .flag("http-address"),
    Setting::new(
        Addresses,
        "http.status_address",
        &["GUBER_STATUS_HTTP_ADDRESS"],
        field!(http.status_address),
        "Where health and metrics are served over TLS to clients that show no certificate, for probes and scrapers of \
         a node that asks its clients for one: `/v1/HealthCheck`, `/v1/LiveCheck`, `/metrics` and the health routes. \
         Only with TLS. `flyball healthcheck` asks here if there is such a listener.",
    )
    .without("no such listener")
    .flag("status-http-address"),
    Setting::new(
        Addresses,
        "http.health_routes",
        &["FLYBALL_HTTP_HEALTH_ROUTES"],
        field!(http.health_routes),
        "Serve `/healthz`, `/livez` and `/readyz`.",
    )
    .default("true")
    .flag("http-health-routes"),
    Setting::new(
        Addresses,
        "http.openapi",
        &["FLYBALL_HTTP_OPENAPI"],
        field!(http.openapi),
        "Serve `/openapi.json`, the description of the JSON API.",
    )
    .default("true")
    .flag("http-openapi"),
    Setting::new(
        Addresses,
        "http.admin",
        &["FLYBALL_HTTP_ADMIN"],
        field!(http.admin),
        "Serve the admin page at `/` and its JSON under `/v1/admin/`. It changes nothing, but it shows keys. `auto` \
         serves it on a loopback address only, and only to requests for `localhost`, a loopback address or the \
         configured host; `on` serves it to everybody who reaches the listener, under any name.",
    )
    .default("auto")
    .flag("http-admin"),
    Setting::new(
        Addresses,
        "node.advertise_address",
        &["GUBER_ADVERTISE_ADDRESS"],
        field!(node.advertise_address),
        "Address under which peers know this node, and its identity on the ring: compared as written, so \
         `localhost:1051` and `127.0.0.1:1051` are two nodes. A host that means every interface is \
         replaced by an address of this machine.",
    )
    .without("the gRPC address")
    .flag("advertise-address"),
    Setting::new(
        Addresses,
        "node.instance_id",
        &["GUBER_INSTANCE_ID"],
        field!(node.instance_id),
        "Name of this instance in logs and traces.",
    )
    .without("the container's id, else random")
    .flag("instance-id"),
    Setting::new(
        Addresses,
        "node.data_center",
        &["GUBER_DATA_CENTER"],
        field!(node.data_center),
        "Data center of this node.",
    )
    .without("no data center")
    .flag("data-center"),
    Setting::new(
        Store,
        "cache.bytes",
        &["FLYBALL_CACHE_BYTES"],
        CACHE_BYTES,
        "Memory for buckets, at least 1MiB. When it is full, the bucket that is nearest to full of a few that are drawn \
         makes room, never silently: `gubernator_unexpired_evictions_count` counts it.",
    )
    .default("256MiB")
    .flag("cache-bytes"),
    Setting::new(
        Store,
        "cache.entries",
        &["GUBER_CACHE_SIZE"],
        field!(cache.entries, zero = default),
        "Most buckets that are kept, over all shards.",
    )
    .without("bounded by bytes alone")
    .flag("cache-size"),
    Setting::new(
        Store,
        "cache.shards",
        &["GUBER_WORKER_COUNT"],
        SHARDS,
        "Parts of the store with a lock of their own, at most 4096. More parts let more cores work at \
         once.",
    )
    .without("by the number of CPUs")
    .flag("worker-count"),
    Setting::new(
        Lifecycle,
        "shutdown.delay_seconds",
        &["GUBER_GRACEFUL_TERMINATION_DELAY_SEC"],
        field!(shutdown.delay_seconds, zero = default),
        "Seconds between SIGTERM and the moment the listeners close. In that time the node serves but \
         says that it is not ready, so that load balancers turn away.",
    )
    .default("0")
    .flag("shutdown-delay"),
    Setting::new(
        Lifecycle,
        "shutdown.timeout",
        &["FLYBALL_SHUTDOWN_TIMEOUT"],
        field!(shutdown.timeout),
        "Bound of the graceful stop that follows the delay. Calls that are still running then are cut \
         off. A second signal stops at once.",
    )
    .default("10s")
    .flag("shutdown-timeout"),
    Setting::new(
        Lifecycle,
        "healthcheck.attempts",
        &["GUBER_HTTP_RETRY_COUNT"],
        field!(healthcheck.attempts, zero = default),
        "How often `flyball healthcheck` asks before it gives up, half a second apart.",
    )
    .default("1"),
    Setting::new(
        Logs,
        "log.level",
        &["GUBER_LOG_LEVEL"],
        field!(log.level),
        "Least important line that is logged.",
    )
    .default("info")
    .flag("log-level"),
    Setting::new(
        Logs,
        "log.format",
        &["GUBER_LOG_FORMAT"],
        field!(log.format),
        "How log lines are written, to standard error.",
    )
    .default("text")
    .flag("log-format"),
    Setting::new(
        Logs,
        "log.debug",
        &["GUBER_DEBUG"],
        field!(log.debug),
        "Short for log level `debug`. It beats a log level from the same source or a weaker one.",
    )
    .default("false")
    .flag("debug"),
    Setting::new(
        Logs,
        "metrics.flags",
        &["GUBER_METRIC_FLAGS"],
        field!(metrics.flags),
        "Extra metrics. `os` adds CPU, memory and file descriptors of the process; `golang` is accepted \
         and adds nothing, there being no such runtime.",
    )
    .without("none")
    .flag("metric-flags"),
];
