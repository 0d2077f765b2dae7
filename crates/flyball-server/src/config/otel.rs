//! The standard OpenTelemetry variables, and the exporter they ask for.
//!
//! The exporter's own library would read the process environment itself. It must not: a line of the
//! configuration file counts too and never gets there, and two nodes in one process may differ. So everything
//! is read here and handed over.
//!
//! Nothing is exported unless an endpoint or an exporter is named: a daemon without a collector must not spend
//! its life failing to reach one.

use std::time::Duration;

use super::values::{Value, choice, items, whole_number};

/// The OpenTelemetry variables as given. What comes of them is [`super::Config::exporter`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Otel {
    /// Switches everything off.
    pub disabled: bool,
    /// Exporters that were named.
    pub traces_exporter: Exporters,
    /// How spans are sent.
    pub protocol: OtlpProtocol,
    /// Base address of the collector.
    pub endpoint: Option<String>,
    /// Address for traces, used as it is.
    pub traces_endpoint: Option<String>,
    /// Sent with every export.
    pub headers: Pairs,
    /// Bound of one export.
    pub timeout: Millis,
    /// Of the exported bytes.
    pub compression: Compression,
    /// Whether an endpoint without a scheme is plaintext.
    pub insecure: Option<bool>,
    /// Which traces are recorded.
    pub sampler: SamplerKind,
    /// Share of traces, for the samplers that draw.
    pub sampler_ratio: Ratio,
    /// `service.name`, when given by its own variable.
    pub service_name: Option<String>,
    /// Facts about this process, on every span.
    pub resource_attributes: Pairs,
    /// The queue of finished spans.
    pub batch: SpanBatch,
    /// How much a span may carry.
    pub limits: SpanLimits,
}

/// Where spans go, completely decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpExporter {
    /// How spans are sent.
    pub protocol: OtlpProtocol,
    /// A complete URL with scheme `http`; over HTTP with the path for traces.
    pub endpoint: String,
    /// Sent with every export: names and values that HTTP allows.
    pub headers: Vec<(String, String)>,
    /// Bound of one export.
    pub timeout: Duration,
    /// Of the exported bytes.
    pub compression: Compression,
}

/// Which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// The caller's own decision comes first, where there is one.
    pub parent_based: bool,
    /// Share of the traces that begin here: 0.0 none, 1.0 all.
    pub ratio: f64,
}

/// The queue of finished spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanBatch {
    /// Longest time a span waits for company.
    pub schedule_delay: Millis,
    /// Spans that may wait; more are dropped.
    pub max_queue_size: u32,
    /// Most spans of one export.
    pub max_export_batch_size: u32,
}

/// How much a span may carry; what is beyond is dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanLimits {
    /// Attributes of a span.
    pub attributes: u32,
    /// Events of a span.
    pub events: u32,
    /// Links of a span.
    pub links: u32,
    /// Attributes of an event.
    pub attributes_per_event: u32,
    /// Attributes of a link.
    pub attributes_per_link: u32,
}

choice! {
    /// How spans are sent.
    OtlpProtocol {
        /// gRPC.
        #[default]
        Grpc = "grpc",
        /// Protobuf over HTTP/1.1.
        HttpProtobuf = "http/protobuf",
    }
}

choice! {
    /// Compression of the exported bytes.
    Compression {
        /// None.
        #[default]
        None = "none",
        /// gzip.
        Gzip = "gzip",
    }
}

choice! {
    /// The standard's names for [`Sampler`]s.
    SamplerKind {
        /// All that the caller does not decide.
        #[default]
        ParentBasedAlwaysOn = "parentbased_always_on",
        /// None that the caller does not decide.
        ParentBasedAlwaysOff = "parentbased_always_off",
        /// A share of those that the caller does not decide.
        ParentBasedRatio = "parentbased_traceidratio",
        /// All.
        AlwaysOn = "always_on",
        /// None.
        AlwaysOff = "always_off",
        /// A share.
        Ratio = "traceidratio",
    }
}

impl Otel {
    /// The sampler that kind and ratio make.
    pub fn sampler(&self) -> Sampler {
        let (parent_based, ratio) = match self.sampler {
            SamplerKind::ParentBasedAlwaysOn => (true, 1.0),
            SamplerKind::ParentBasedAlwaysOff => (true, 0.0),
            SamplerKind::ParentBasedRatio => (true, self.sampler_ratio.0),
            SamplerKind::AlwaysOn => (false, 1.0),
            SamplerKind::AlwaysOff => (false, 0.0),
            SamplerKind::Ratio => (false, self.sampler_ratio.0),
        };
        Sampler { parent_based, ratio }
    }

    /// Whether spans are exported.
    pub fn is_on(&self) -> bool {
        let endpoint_named = self.endpoint.is_some() || self.traces_endpoint.is_some();
        !self.disabled && self.traces_exporter.otlp.unwrap_or(endpoint_named)
    }

    /// The address spans go to: a URL with scheme `http`.
    pub(super) fn address(&self) -> Result<String, BadEndpoint> {
        let http = self.protocol == OtlpProtocol::HttpProtobuf;
        if let Some(endpoint) = &self.traces_endpoint {
            return self.url(endpoint, "otel.exporter_otlp_traces_endpoint");
        }
        let base = match &self.endpoint {
            Some(endpoint) if endpoint.contains(['?', '#']) && !endpoint.contains('@') => {
                let advice = "a base address has no query; expected a URL such as http://collector:4317";
                let setting = "otel.exporter_otlp_endpoint";
                return Err(BadEndpoint { setting, endpoint: endpoint.clone(), advice });
            }
            Some(endpoint) => self.url(endpoint, "otel.exporter_otlp_endpoint")?,
            None if http => "http://localhost:4318".to_owned(),
            None => "http://localhost:4317".to_owned(),
        };
        Ok(if http { format!("{}/v1/traces", base.trim_end_matches('/')) } else { base })
    }

    fn url(&self, endpoint: &str, setting: &'static str) -> Result<String, BadEndpoint> {
        let bad = |advice| BadEndpoint { setting, endpoint: endpoint.to_owned(), advice };
        let no_tls = "TLS to a collector is not available in this version; expected http://host:port";
        let url = match endpoint.contains("://") {
            false if self.insecure == Some(false) => return Err(bad(no_tls)),
            false => format!("http://{endpoint}"),
            true => endpoint.to_owned(),
        };
        let no_url = || match endpoint.contains('@') {
            true => bad(
                "credentials do not belong into the URL but into OTEL_EXPORTER_OTLP_HEADERS; expected a URL such as \
                 http://collector:4317",
            ),
            false => bad("expected a URL such as http://collector:4317"),
        };
        let uri = url.parse::<http::Uri>().map_err(|_| no_url())?;
        // The library lets anything stand for a port, and credentials belong into the headers.
        let authority = uri.authority().map(|authority| match authority.port_u16() {
            Some(port) => authority.as_str() == format!("{}:{port}", authority.host()),
            None => authority.as_str() == authority.host(),
        });
        match (uri.scheme_str(), authority) {
            (Some("https"), _) => Err(bad(no_tls)),
            (Some("http"), Some(true)) if uri.host() != Some("") => Ok(url),
            _ => Err(no_url()),
        }
    }
}

/// An endpoint that is no address of a collector.
#[derive(Debug)]
pub(super) struct BadEndpoint {
    /// The setting it is in.
    pub(super) setting: &'static str,
    /// As given.
    pub(super) endpoint: String,
    /// What was expected.
    pub(super) advice: &'static str,
}

/// The exporters that were named: `Some(true)` when OTLP is among them, `Some(false)` for only `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exporters {
    /// See the type.
    pub otlp: Option<bool>,
}

impl Value for Exporters {
    const KIND: &'static str = "list of `otlp`, `none`";

    fn parse(text: &str) -> Result<Self, String> {
        let mut otlp = None;
        for word in items(text) {
            match word {
                "otlp" => otlp = Some(true),
                "none" => otlp = otlp.or(Some(false)),
                _ => return Err("expected otlp or none".to_owned()),
            }
        }
        Ok(Self { otlp })
    }

    fn show(&self) -> String {
        match self.otlp {
            Some(true) => "otlp".to_owned(),
            Some(false) => "none".to_owned(),
            None => String::new(),
        }
    }
}

/// Milliseconds as a bare number: the standard's unit of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Millis(pub u32);

impl Millis {
    /// The same as a duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }
}

impl Value for Millis {
    const KIND: &'static str = "integer, ms";

    fn parse(text: &str) -> Result<Self, String> {
        whole_number(text, 0, i64::from(i32::MAX))
            .map(|number| Self(number as u32))
            .map_err(|expected| format!("{expected}, in milliseconds"))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A share, 0.0 to 1.0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ratio(pub f64);

impl Value for Ratio {
    const KIND: &'static str = "number from 0 to 1";

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(number) if (0.0..=1.0).contains(&number) => Ok(Self(number)),
            _ => Err("expected a number from 0 to 1, such as 0.25".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// `name=value` pairs with percent escapes, comma separated. The pairs are kept decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

/// Bytes that [`Value::show`] escapes: all but those that stand for themselves everywhere.
const ESCAPED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'/').remove(b':');

impl Value for Pairs {
    const KIND: &'static str = "list of `name=value`";

    fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected name=value pairs, comma separated, special characters as %XX".to_owned();
        let decoded = |part: &str| {
            let bytes = percent_encoding::percent_decode_str(part.trim());
            bytes.decode_utf8().map(|text| text.into_owned()).map_err(|_| expected())
        };
        let mut pairs = Vec::new();
        for item in items(text) {
            let (name, value) = item.split_once('=').ok_or_else(expected)?;
            let name = decoded(name)?;
            if name.is_empty() {
                return Err(expected());
            }
            pairs.push((name, decoded(value)?));
        }
        Ok(Self(pairs))
    }

    fn show(&self) -> String {
        let escape = |text| percent_encoding::utf8_percent_encode(text, ESCAPED);
        let pairs: Vec<_> =
            self.0.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        pairs.join(",")
    }
}
