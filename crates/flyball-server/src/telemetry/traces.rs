//! Spans on their way to an OpenTelemetry collector.
//!
//! Off unless the standard `OTEL_*` variables name an exporter or an endpoint; then each daemon has a provider of
//! its own, never the library's global one, so that two daemons in one process report to two places. Everything
//! comes from [`Config`]: the library would read the process environment, which knows neither the configuration
//! file nor which of two daemons is meant.
//!
//! A call never waits for a collector. A finished span goes into a bounded queue; when that is full the span is
//! dropped. One thread of the library empties the queue. What it cannot deliver it drops, and says so once when
//! that begins and once when it is over, not for every batch. On the way out the queue gets [`FLUSH_WITHIN`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanData, SpanLimits,
};
use tokio::runtime::Handle;
use tonic::metadata::MetadataMap;
use tonic::transport::Endpoint;

use super::otlp_http::OtlpHttpClient;
use crate::config::{self, Compression, Config, OtlpExporter, OtlpProtocol, without_credentials};

/// How long spans may take to leave when the daemon stops.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// Why traces cannot be exported as configured.
#[derive(Debug, thiserror::Error)]
#[error("cannot export traces to '{endpoint}': {reason}; correct the OTEL_EXPORTER_OTLP_ variables")]
pub struct TracesError {
    endpoint: String,
    reason: String,
}

/// The spans of one daemon.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// The exporter `config` asks for; None when it asks for none. No connection is made yet.
    ///
    /// Must be called within a tokio runtime, which carries the connection to the collector.
    ///
    /// # Errors
    /// The endpoint or a header is unusable.
    pub fn start(config: &Config, instance_id: &str) -> Result<Option<Self>, TracesError> {
        let Some(to) = config.exporter() else { return Ok(None) };
        let exporter = Reporting::new(exporter(&to)?, without_credentials(&to.endpoint));
        let batch = &config.otel.batch;
        let queue = BatchConfigBuilder::default()
            .with_max_queue_size(batch.max_queue_size as usize)
            .with_max_export_batch_size(batch.max_export_batch_size as usize)
            .with_scheduled_delay(batch.schedule_delay.duration())
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(queue).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(sampler(config.otel.sampler()))
            .with_span_limits(limits(&config.otel.limits))
            .with_resource(resource(config, instance_id))
            .build();
        Ok(Some(Self { provider }))
    }

    /// The tracer a node gets.
    pub fn tracer(&self) -> SdkTracer {
        let scope = InstrumentationScope::builder("flyball").with_version(env!("CARGO_PKG_VERSION"));
        self.provider.tracer_with_scope(scope.build())
    }

    /// Sends what is waiting, for at most [`FLUSH_WITHIN`]; what is left then is dropped. Spans that end later
    /// are too.
    pub async fn flush_and_stop(self) {
        let provider = self.provider.clone();
        let flush = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_WITHIN));
        if let Ok(Err(error)) = flush.await {
            tracing::debug!(%error, "spans were still waiting for the collector when the daemon stopped");
        }
    }
}

impl Drop for Traces {
    /// The library's own way out waits five seconds for the collector.
    fn drop(&mut self) {
        let _ = self.provider.shutdown_with_timeout(Duration::ZERO);
    }
}

fn exporter(to: &OtlpExporter) -> Result<SpanExporter, TracesError> {
    let failed = |reason: String| TracesError { endpoint: without_credentials(&to.endpoint), reason };
    let headers = headers(to).map_err(failed)?;
    let gzip = (to.compression == Compression::Gzip).then_some(opentelemetry_otlp::Compression::Gzip);
    let built = match to.protocol {
        OtlpProtocol::Grpc => {
            // A channel of our own, because the library's would try to connect without end.
            let channel = Endpoint::from_shared(to.endpoint.clone())
                .map_err(|error| failed(error.to_string()))?
                .connect_timeout(to.timeout)
                .timeout(to.timeout)
                .connect_lazy();
            let mut builder = SpanExporter::builder()
                .with_tonic()
                .with_channel(channel)
                .with_timeout(to.timeout)
                .with_metadata(MetadataMap::from_headers(headers));
            if let Some(gzip) = gzip {
                builder = builder.with_compression(gzip);
            }
            builder.build()
        }
        OtlpProtocol::HttpProtobuf => {
            let headers = headers.iter().filter_map(|(name, value)| {
                Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
            });
            let mut builder = SpanExporter::builder()
                .with_http()
                .with_http_client(OtlpHttpClient::new(to.timeout, Handle::current()))
                .with_protocol(Protocol::HttpBinary)
                .with_endpoint(&to.endpoint)
                .with_timeout(to.timeout)
                .with_headers(headers.collect());
            if let Some(gzip) = gzip {
                builder = builder.with_compression(gzip);
            }
            builder.build()
        }
    };
    built.map_err(|error| failed(error.to_string()))
}

fn headers(to: &OtlpExporter) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &to.headers {
        let bad = || format!("'{name}' and its value are not a header");
        headers.append(
            name.parse::<HeaderName>().map_err(|_| bad())?,
            value.parse::<HeaderValue>().map_err(|_| bad())?,
        );
    }
    Ok(headers)
}

fn sampler(asked: config::Sampler) -> Sampler {
    let own = match asked.ratio {
        none if none <= 0.0 => Sampler::AlwaysOff,
        all if all >= 1.0 => Sampler::AlwaysOn,
        share => Sampler::TraceIdRatioBased(share),
    };
    if asked.parent_based { Sampler::ParentBased(Box::new(own)) } else { own }
}

fn limits(asked: &config::SpanLimits) -> SpanLimits {
    SpanLimits {
        max_attributes_per_span: asked.attributes,
        max_events_per_span: asked.events,
        max_links_per_span: asked.links,
        max_attributes_per_event: asked.attributes_per_event,
        max_attributes_per_link: asked.attributes_per_link,
    }
}

/// Who sends the spans. What an operator gave wins over what we know.
fn resource(config: &Config, instance_id: &str) -> Resource {
    let given = config.otel.resource_attributes.0.iter();
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance_id.to_owned()),
        ])
        .with_attributes(given.map(|(name, value)| KeyValue::new(name.clone(), value.clone())))
        .with_service_name(config.service_name().to_owned())
        .build()
}

/// An exporter that tells when spans begin to be lost and when they arrive again.
#[derive(Debug)]
struct Reporting<E> {
    inner: E,
    endpoint: String,
    /// Spans lost since the last one that arrived.
    lost: AtomicU64,
}

impl<E> Reporting<E> {
    fn new(inner: E, endpoint: String) -> Self {
        Self { inner, endpoint, lost: AtomicU64::new(0) }
    }

    fn report(&self, spans: u64, sent: &OTelSdkResult) {
        let endpoint = &self.endpoint;
        match sent {
            Ok(()) => match self.lost.swap(0, Ordering::Relaxed) {
                0 => {}
                lost => tracing::info!(endpoint, lost, "the trace collector takes spans again"),
            },
            Err(error) => {
                if self.lost.fetch_add(spans, Ordering::Relaxed) == 0 {
                    tracing::warn!(endpoint, %error, "the trace collector takes no spans; they are dropped until it does");
                }
            }
        }
    }
}

impl<E: opentelemetry_sdk::trace::SpanExporter> opentelemetry_sdk::trace::SpanExporter for Reporting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let sent = self.inner.export(batch).await;
        self.report(spans, &sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::Key;
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    #[test]
    fn nothing_is_exported_unless_asked() {
        assert!(Traces::start(&Config::default(), "id").unwrap().is_none());
    }

    #[test]
    fn the_resource_is_ours_until_an_operator_says_otherwise() {
        let of = |resource: &Resource, name: &'static str| {
            resource.get(&Key::from_static_str(name)).map(|value| value.to_string())
        };
        let mut config = Config::default();
        let ours = resource(&config, "a1b2");
        assert_eq!(of(&ours, "service.name").as_deref(), Some("gubernator"));
        assert_eq!(of(&ours, "service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(of(&ours, "service.instance.id").as_deref(), Some("a1b2"));
        assert_eq!(of(&ours, "telemetry.sdk.language").as_deref(), Some("rust"));

        config.otel.service_name = Some("limits".into());
        config.otel.resource_attributes.0 =
            [("service.name", "no"), ("service.instance.id", "pod-7"), ("team", "edge")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec();
        let theirs = resource(&config, "a1b2");
        assert_eq!(of(&theirs, "service.name").as_deref(), Some("limits"));
        assert_eq!(of(&theirs, "service.instance.id").as_deref(), Some("pod-7"));
        assert_eq!(of(&theirs, "team").as_deref(), Some("edge"));
    }

    #[test]
    fn samplers_are_the_standards() {
        let of = |parent_based, ratio| format!("{:?}", sampler(config::Sampler { parent_based, ratio }));
        assert_eq!(of(false, 1.0), "AlwaysOn");
        assert_eq!(of(false, 0.0), "AlwaysOff");
        assert_eq!(of(false, 0.25), "TraceIdRatioBased(0.25)");
        assert_eq!(of(true, 1.0), "ParentBased(AlwaysOn)");
        assert_eq!(of(true, 0.25), "ParentBased(TraceIdRatioBased(0.25))");
    }

    #[test]
    fn lost_spans_are_counted_until_one_arrives() {
        let reporting = Reporting::new((), "http://collector".into());
        let failed = Err(OTelSdkError::InternalFailure("refused".into()));
        reporting.report(5, &failed);
        reporting.report(7, &failed);
        assert_eq!(reporting.lost.load(Ordering::Relaxed), 12);
        reporting.report(1, &Ok(()));
        assert_eq!(reporting.lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn headers_that_http_refuses_are_named() {
        let mut config = Config::default();
        config.otel.endpoint = Some("http://collector:4317".into());
        config.otel.headers.0 = vec![("bad name".into(), "x".into())];
        let error = exporter(&config.exporter().unwrap()).unwrap_err().to_string();
        assert!(error.contains("'bad name'") && error.contains("http://collector:4317"), "{error}");
    }
}
