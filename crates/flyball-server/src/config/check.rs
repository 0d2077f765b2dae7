//! What no single value can know: whether the values fit together, and with the world they are used in.

use jiff::tz::TimeZoneDatabase;

use super::choices::LogLevel;
use super::error::{Problem, Warning, quoted};
use super::raw::{Given, Raw, Strings};
use super::values::HostPort;
use super::{Config, discovery, etcd, table, tls};

/// Completes the configuration (time zone, log level) and reports what does not fit.
pub(super) fn check(
    config: &mut Config,
    raw: &Raw,
    strings: &Strings,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) {
    tls::check(config, raw, problems, warnings);
    let mut report = |name: &str, advice: String| {
        if let (Some(setting), Some(given)) = (table::by_name(name), raw.given_by_name(name)) {
            problems.push(Problem::value(setting, given, advice));
        }
    };
    let name = &config.time_zone.name;
    // The given database may be newer than the one compiled in, or lack everything.
    match strings.zones.get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)) {
        Ok(zone) => config.time_zone.zone = zone,
        Err(_) => report(
            "time_zone",
            "no such time zone; expected an IANA name such as Europe/Berlin or UTC".to_owned(),
        ),
    }
    if collide(&config.grpc.address, &config.http.address) {
        // Blame a value that was given; the other may be a default.
        let (blamed, other) = match raw.given_by_name("http.address") {
            Some(_) => ("http.address", &config.grpc.address),
            None => ("grpc.address", &config.http.address),
        };
        let (mine, others) = if blamed == "http.address" { ("HTTP", "gRPC") } else { ("gRPC", "HTTP") };
        report(blamed, format!("{others} listens on {other} already; expected another port for {mine}"));
    }
    if let Some(status) = config.http.status_address.as_ref().filter(|_| config.tls.on) {
        for (others, other) in [("gRPC", &config.grpc.address), ("HTTP", &config.http.address)] {
            if collide(status, other) {
                let advice =
                    format!("{others} listens on {other} already; expected another port for the status");
                report("http.status_address", advice);
                break;
            }
        }
    }
    if config.node.advertise_address.as_ref().is_some_and(|address| address.port == 0) {
        report("node.advertise_address", "expected the port that peers dial, not 0".to_owned());
    }
    etcd::complete(config, raw);
    discovery::check(config, raw, &mut report, warnings);
    if config.otel.is_on() {
        if let Err(wrong) = config.otel.address() {
            report(wrong.setting, wrong.advice.to_owned());
        }
        for (name, value) in &config.otel.headers.0 {
            let fine = http::HeaderName::try_from(name).is_ok() && http::HeaderValue::try_from(value).is_ok();
            if !fine {
                report(
                    "otel.exporter_otlp_headers",
                    "expected names and values that HTTP headers may have".to_owned(),
                );
                break;
            }
        }
    }
    if config.otel.batch.max_export_batch_size > config.otel.batch.max_queue_size {
        let size = config.otel.batch.max_queue_size;
        let blamed = match raw.given_by_name("otel.bsp_max_export_batch_size") {
            Some(_) => "otel.bsp_max_export_batch_size",
            None => "otel.bsp_max_queue_size",
        };
        let export = config.otel.batch.max_export_batch_size;
        report(blamed, format!("an export of {export} spans does not fit into a queue of {size}"));
    }
    config.log.level = log_level(config, raw);
    if config.peer_picker.kind.is_none() {
        for name in ["peer_picker.hash", "peer_picker.replicas"] {
            if let Some(given) = raw.given_by_name(name) {
                let as_given = given.origin.given_as();
                warnings.push(Warning(format!(
                    "{as_given} ({}) has no effect unless GUBER_PEER_PICKER is set",
                    given.origin
                )));
            }
        }
    }
    if let Some(zone) = raw.variables.get("TZ").filter(|given| is_foreign_zone(given))
        && raw.given_by_name("time_zone").is_none()
    {
        warnings.push(Warning(format!(
            "TZ={} is not read: calendar limits follow UTC; set FLYBALL_TIME_ZONE to change that",
            quoted(&zone.text)
        )));
    }
}

/// Whether two listeners cannot both have their address.
fn collide(one: &HostPort, other: &HostPort) -> bool {
    // Listeners take the IPv4 address of that name.
    let host = |address: &HostPort| match address.host.as_str() {
        "localhost" => "127.0.0.1".to_owned(),
        host => host.to_owned(),
    };
    let same_host = host(one) == host(other) || one.is_wildcard() || other.is_wildcard();
    one.port != 0 && one.port == other.port && same_host
}

/// `debug` is a log level like any other, so the stronger source wins; from the same source `debug` does, as
/// with the original.
fn log_level(config: &Config, raw: &Raw) -> LogLevel {
    let rank = |name| raw.given_by_name(name).map_or(0, |given| given.origin.rank());
    match config.log.debug && rank("log.debug") >= rank("log.level") {
        true => LogLevel::Debug,
        false => config.log.level,
    }
}

fn is_foreign_zone(given: &Given) -> bool {
    !matches!(given.text.as_str(), "" | "UTC" | "Etc/UTC" | "UTC0" | ":UTC" | "GMT")
}
