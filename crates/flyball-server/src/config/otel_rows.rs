//! The settings about traces: which spans are made, and those of the OpenTelemetry standard under its own names. The
//! key of the latter in our TOML file is the variable in lower case, its first word as the table.

use super::Config;
use super::table::Section::Traces;
use super::table::{Field, Setting, field};
use super::values::whole_number;

/// A queue of none would drop every span, and one without bound is none of ours.
const QUEUE: Field = Field { set: queue, ..field!(otel.batch.max_queue_size) };
const EXPORT: Field = Field { set: export, ..field!(otel.batch.max_export_batch_size) };

/// Most spans in the queue: some hundred megabytes.
const QUEUE_MAX: i64 = 1 << 20;

fn queue(config: &mut Config, text: &str) -> Result<(), String> {
    whole_number(text, 1, QUEUE_MAX)?;
    (field!(otel.batch.max_queue_size).set)(config, text)
}

fn export(config: &mut Config, text: &str) -> Result<(), String> {
    whole_number(text, 1, QUEUE_MAX)?;
    (field!(otel.batch.max_export_batch_size).set)(config, text)
}

/// In the order of the reference page.
pub(super) const ROWS: [Setting; 22] = [
    Setting::new(
        Traces,
        "tracing.level",
        &["GUBER_TRACING_LEVEL"],
        field!(tracing.level),
        "Which of the node's own spans are made. `ERROR` none: the spans of incoming calls remain; `INFO` \
         all but those of calls to peers; `DEBUG` all.",
    )
    .default("INFO")
    .flag("tracing-level"),
    Setting::new(
        Traces,
        "otel.sdk_disabled",
        &["OTEL_SDK_DISABLED"],
        field!(otel.disabled),
        "Export nothing, whatever else is set.",
    )
    .default("false"),
    Setting::new(
        Traces,
        "otel.traces_exporter",
        &["OTEL_TRACES_EXPORTER"],
        field!(otel.traces_exporter),
        "Where spans go. Nothing is exported unless an exporter or an endpoint is named.",
    )
    .without("`otlp` if an endpoint is set, else `none`"),
    Setting::new(
        Traces,
        "otel.exporter_otlp_endpoint",
        &["OTEL_EXPORTER_OTLP_ENDPOINT"],
        field!(otel.endpoint),
        "Base address of the collector; over HTTP `/v1/traces` is added. Setting it switches the export \
         on.",
    )
    .without("`http://localhost:4317`, over HTTP port 4318")
    .url(),
    Setting::new(
        Traces,
        "otel.exporter_otlp_traces_endpoint",
        &["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"],
        field!(otel.traces_endpoint),
        "Address for traces, used as it is. Setting it switches the export on.",
    )
    .without("the base address")
    .url(),
    Setting::new(
        Traces,
        "otel.exporter_otlp_protocol",
        &["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"],
        field!(otel.protocol),
        "How spans are sent.",
    )
    .default("grpc"),
    Setting::new(
        Traces,
        "otel.exporter_otlp_headers",
        &["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
        field!(otel.headers),
        "Sent with every export, for instance credentials. Never shown.",
    )
    .without("none")
    .secret(),
    Setting::new(
        Traces,
        "otel.exporter_otlp_timeout",
        &["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"],
        field!(otel.timeout),
        "Bound of one export.",
    )
    .default("10000"),
    Setting::new(
        Traces,
        "otel.exporter_otlp_compression",
        &["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"],
        field!(otel.compression),
        "Compression of the exported bytes.",
    )
    .default("none"),
    Setting::new(
        Traces,
        "otel.exporter_otlp_insecure",
        &["OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"],
        field!(otel.insecure),
        "Whether an endpoint without a scheme is plaintext. False is refused: TLS to a collector is not \
         available in this version.",
    )
    .without("plaintext"),
    Setting::new(
        Traces,
        "otel.traces_sampler",
        &["OTEL_TRACES_SAMPLER"],
        field!(otel.sampler),
        "Which traces are recorded.",
    )
    .default("parentbased_always_on"),
    Setting::new(
        Traces,
        "otel.traces_sampler_arg",
        &["OTEL_TRACES_SAMPLER_ARG"],
        field!(otel.sampler_ratio),
        "Share of traces, for the samplers that draw.",
    )
    .default("1"),
    Setting::new(
        Traces,
        "otel.service_name",
        &["OTEL_SERVICE_NAME"],
        field!(otel.service_name),
        "Name of the service in traces.",
    )
    .without("`service.name` of the resource attributes, else `gubernator`"),
    Setting::new(
        Traces,
        "otel.resource_attributes",
        &["OTEL_RESOURCE_ATTRIBUTES"],
        field!(otel.resource_attributes),
        "Facts about this process, on every span.",
    )
    .without("none"),
    Setting::new(
        Traces,
        "otel.bsp_schedule_delay",
        &["OTEL_BSP_SCHEDULE_DELAY"],
        field!(otel.batch.schedule_delay),
        "Longest time a finished span waits for company before it is sent.",
    )
    .default("5000"),
    Setting::new(
        Traces,
        "otel.bsp_max_queue_size",
        &["OTEL_BSP_MAX_QUEUE_SIZE"],
        QUEUE,
        "Finished spans that may wait; more are dropped.",
    )
    .default("2048"),
    Setting::new(
        Traces,
        "otel.bsp_max_export_batch_size",
        &["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"],
        EXPORT,
        "Most spans of one export, at most the size of the queue.",
    )
    .default("512"),
    Setting::new(
        Traces,
        "otel.span_attribute_count_limit",
        &["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT"],
        field!(otel.limits.attributes),
        "Most attributes of a span.",
    )
    .default("128"),
    Setting::new(
        Traces,
        "otel.span_event_count_limit",
        &["OTEL_SPAN_EVENT_COUNT_LIMIT"],
        field!(otel.limits.events),
        "Most events of a span.",
    )
    .default("128"),
    Setting::new(
        Traces,
        "otel.span_link_count_limit",
        &["OTEL_SPAN_LINK_COUNT_LIMIT"],
        field!(otel.limits.links),
        "Most links of a span.",
    )
    .default("128"),
    Setting::new(
        Traces,
        "otel.event_attribute_count_limit",
        &["OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT"],
        field!(otel.limits.attributes_per_event),
        "Most attributes of an event.",
    )
    .default("128"),
    Setting::new(
        Traces,
        "otel.link_attribute_count_limit",
        &["OTEL_LINK_ATTRIBUTE_COUNT_LIMIT"],
        field!(otel.limits.attributes_per_link),
        "Most attributes of a link.",
    )
    .default("128"),
];
