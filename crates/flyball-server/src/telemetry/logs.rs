//! Log lines on stderr, in the original's two shapes:
//!
//! ```text
//! time="2026-03-01T12:00:00.123456Z" level=info msg="serving gRPC" address="127.0.0.1:1051" instance=a1b2c3
//! {"time":"2026-03-01T12:00:00.123456Z","level":"info","msg":"serving gRPC","address":"127.0.0.1:1051","instance":"a1b2c3"}
//! ```
//!
//! Time, level and message come first, then the fields by name. What a field holds is quoted when it isn't plain,
//! so no input can forge a line. The JSON of the logging library names its keys differently and cannot be told
//! otherwise, hence the [`FormatEvent`] of our own; filtering, timestamps and writing are the library's.
//!
//! A process has one log, so the program installs it, once, with [`init`]; daemons only write to it.

use std::fmt::{self, Write as _};
use std::io::IsTerminal as _;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// `key=value` pairs; coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Our own crates, by the common start of their names.
const OURS: &str = "flyball";

/// Installs the process's log: lines of `level` and above on stderr. Libraries are heard from warnings on, and at
/// the trace level without limit.
///
/// Colours only when stderr is a terminal and `NO_COLOR` is unset or empty.
///
/// # Errors
/// The process has a log already.
pub fn init(level: LevelFilter, shape: Shape) -> Result<(), TryInitError> {
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    subscriber(level, Lines { shape, timer: SystemTime }, colours, std::io::stderr).try_init()
}

fn subscriber<T, W>(
    level: LevelFilter,
    lines: Lines<T>,
    colours: bool,
    writer: W,
) -> impl Subscriber + Send + Sync + 'static
where
    T: FormatTime + Send + Sync + 'static,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let libraries = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    let layer = tracing_subscriber::fmt::layer().with_ansi(colours).event_format(lines).with_writer(writer);
    tracing_subscriber::registry()
        .with(layer)
        .with(Targets::new().with_default(libraries).with_target(OURS, level))
}

struct Lines<T> {
    shape: Shape,
    timer: T,
}

impl<S, N, T> FormatEvent<S, N> for Lines<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
    T: FormatTime,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        if !metadata.target().starts_with(OURS) {
            fields.named.push(("target", metadata.target().into()));
        }
        fields.named.sort_by_key(|(name, _)| *name);

        match self.shape {
            Shape::Text => self.text(&mut line, *metadata.level(), &fields),
            Shape::Json => self.json(&mut line, *metadata.level(), &fields),
        }?;
        line.write_char('\n')
    }
}

impl<T: FormatTime> Lines<T> {
    fn text(&self, line: &mut Writer<'_>, level: Level, fields: &Fields) -> fmt::Result {
        line.write_str("time=\"")?;
        self.timer.format_time(line)?;
        let (start, end) = if line.has_ansi_escapes() { (colour(level), "\x1b[0m") } else { ("", "") };
        write!(line, "\" level={start}{}{end} msg={:?}", name(level), fields.message)?;
        for (name, value) in &fields.named {
            match value {
                Value::String(text) if !is_plain(text) => write!(line, " {name}={text:?}")?,
                Value::String(text) => write!(line, " {name}={text}")?,
                other => write!(line, " {name}={other}")?,
            }
        }
        Ok(())
    }

    fn json(&self, line: &mut Writer<'_>, level: Level, fields: &Fields) -> fmt::Result {
        line.write_str("{\"time\":\"")?;
        self.timer.format_time(line)?;
        write!(line, "\",\"level\":\"{}\",\"msg\":{}", name(level), Value::from(fields.message.as_str()))?;
        for (name, value) in &fields.named {
            // A field may not pass for one of the line's own keys.
            let prefix = if matches!(*name, "time" | "level" | "msg") { "fields." } else { "" };
            write!(line, ",\"{prefix}{name}\":{value}")?;
        }
        line.write_char('}')
    }
}

/// The original's names; its `panic` and `fatal` have no counterpart, nothing of ours is logged above `error`.
fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[36m",
        Level::DEBUG | Level::TRACE => "\x1b[2m",
    }
}

/// Whether a value can stand without quotes: the original's rule.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._/@^+".contains(&b))
}

/// What one event says.
#[derive(Default)]
struct Fields {
    message: String,
    named: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
        } else {
            self.named.push((field.name(), value));
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        self.put(field, text.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::subscriber::with_default;

    use super::*;

    struct Noon;

    impl FormatTime for Noon {
        fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
            w.write_str("2026-03-01T12:00:00Z")
        }
    }

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(level: LevelFilter, shape: Shape, colours: bool, write: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let lines = Lines { shape, timer: Noon };
        with_default(subscriber(level, lines, colours, move || writer.clone()), write);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn hostile() {
        tracing::warn!(
            zeta = 1,
            alpha = "a b\nlevel=info",
            time = true,
            empty = "",
            plain = "x/y",
            "two\nlines \"q\""
        );
    }

    #[test]
    fn text_is_sorted_and_cannot_be_forged() {
        assert_eq!(
            written(LevelFilter::INFO, Shape::Text, false, hostile),
            "time=\"2026-03-01T12:00:00Z\" level=warning msg=\"two\\nlines \\\"q\\\"\" \
             alpha=\"a b\\nlevel=info\" empty=\"\" plain=x/y time=true zeta=1\n"
        );
    }

    #[test]
    fn json_has_the_original_keys() {
        let line = written(LevelFilter::INFO, Shape::Json, true, hostile);
        assert!(
            line.starts_with("{\"time\":\"2026-03-01T12:00:00Z\",\"level\":\"warning\",\"msg\":"),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1);
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            object,
            serde_json::json!({
                "time": "2026-03-01T12:00:00Z", "level": "warning", "msg": "two\nlines \"q\"",
                "alpha": "a b\nlevel=info", "empty": "", "plain": "x/y", "fields.time": true, "zeta": 1,
            })
        );
    }

    #[test]
    fn colours_only_the_level_and_only_when_asked() {
        let line = written(LevelFilter::INFO, Shape::Text, true, || tracing::error!("x"));
        assert_eq!(line, "time=\"2026-03-01T12:00:00Z\" level=\x1b[31merror\x1b[0m msg=\"x\"\n");
        assert!(!written(LevelFilter::INFO, Shape::Text, false, || tracing::error!("x")).contains('\x1b'));
    }

    #[test]
    fn levels_filter_ours_and_libraries_apart() {
        let all = || {
            tracing::info!("ours");
            tracing::debug!("ours too");
            tracing::info!(target: "h2::proto", "chatter");
            tracing::warn!(target: "h2::proto", "trouble");
        };
        let at = |level| written(level, Shape::Text, false, all).lines().count();
        assert_eq!(at(LevelFilter::ERROR), 0);
        assert_eq!(at(LevelFilter::INFO), 2);
        assert_eq!(at(LevelFilter::DEBUG), 3);
        assert_eq!(at(LevelFilter::TRACE), 4);
        assert!(written(LevelFilter::INFO, Shape::Text, false, all).contains("target=\"h2::proto\""));
    }

    #[test]
    fn an_error_brings_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write")]
        struct Outer(#[source] io::Error);

        let error = Outer(io::Error::other("the disk is full"));
        let error: &dyn std::error::Error = &error;
        let line = written(LevelFilter::INFO, Shape::Text, false, || tracing::error!(error, "x"));
        assert!(line.ends_with(" error=\"cannot write: the disk is full\"\n"), "{line}");
    }
}
