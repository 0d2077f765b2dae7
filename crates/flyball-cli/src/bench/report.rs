//! What is told at the end. The JSON form is a promise: scripts read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::tally::Tally;
use super::wire::Protocol;
use crate::human::{count, micros};
use crate::output;

/// The settings of a run, as they were used.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) protocol: Protocol,
    pub(crate) address: String,
    /// Calls per second of an open loop; `null` for a closed loop.
    pub(crate) rate: Option<u64>,
    pub(crate) concurrency: usize,
    pub(crate) connections: usize,
    pub(crate) batch: usize,
    pub(crate) keys: u64,
    /// `null` when keys were visited in sequence.
    pub(crate) skew: Option<f64>,
    pub(crate) seed: u64,
}

/// Percentiles in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    #[serde(rename = "p99.9")]
    pub(crate) p999: u64,
    pub(crate) max: u64,
    pub(crate) mean: f64,
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
            mean: histogram.mean(),
        })
    }
}

/// A finished run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    settings: Settings,
    /// Ended early by Ctrl-C.
    interrupted: bool,
    elapsed_s: f64,
    /// Calls with an answer.
    pub(crate) calls: u64,
    calls_per_s: f64,
    /// Items with a decision.
    decisions: u64,
    decisions_per_s: f64,
    over_limit: u64,
    never_fits: u64,
    scheduled: u64,
    /// Calls without an answer.
    failed_calls: u64,
    /// Items with an error instead of a decision.
    failed_items: u64,
    /// Both by kind.
    errors: BTreeMap<String, u64>,
    /// Open loop: calls that fell due and could not be sent before the end.
    unsent: u64,
    latency_us: Option<Percentiles>,
    /// Open loop: by how much calls were sent later than intended. It is part of the latency.
    lag_us: Option<Percentiles>,
}

impl Report {
    pub(crate) fn new(
        settings: Settings,
        tally: &Tally,
        elapsed: Duration,
        unsent: u64,
        interrupted: bool,
    ) -> Self {
        let elapsed_s = elapsed.as_secs_f64();
        let per_second = |number: u64| if elapsed_s > 0.0 { number as f64 / elapsed_s } else { 0.0 };
        let verdicts = &tally.verdicts;
        Self {
            settings,
            interrupted,
            elapsed_s,
            calls: tally.calls,
            calls_per_s: per_second(tally.calls),
            decisions: verdicts.decisions,
            decisions_per_s: per_second(verdicts.decisions),
            over_limit: verdicts.over_limit,
            never_fits: verdicts.never_fits,
            scheduled: verdicts.scheduled,
            failed_calls: tally.failed,
            failed_items: verdicts.refused,
            errors: tally.errors.clone(),
            unsent,
            latency_us: Percentiles::of(&tally.latency),
            lag_us: Percentiles::of(&tally.lag),
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<12}{value}");
        };
        let Settings { protocol, address, rate, concurrency, connections, batch, keys, .. } = &self.settings;
        let mode = match rate {
            Some(rate) => format!("open loop at {} calls/s", count(*rate)),
            None => "closed loop".to_owned(),
        };
        let protocol = if *protocol == Protocol::Grpc { "gRPC" } else { "HTTP/JSON" };
        row("node", format!("{address}, {protocol}"));
        row(
            "load",
            format!(
                "{mode}, {concurrency} callers on {connections} connections, {} keys, {batch} items a call",
                count(*keys)
            ),
        );
        let interrupted = if self.interrupted { ", interrupted" } else { "" };
        row("time", format!("{:.2} s{interrupted}", self.elapsed_s));
        row("calls", per_second(self.calls, self.calls_per_s));
        row("decisions", per_second(self.decisions, self.decisions_per_s));
        for (name, number) in
            [("over limit", self.over_limit), ("never fits", self.never_fits), ("booked", self.scheduled)]
        {
            if number > 0 || name == "over limit" {
                let share = 100.0 * number as f64 / (self.decisions.max(1) as f64);
                row(name, format!("{:<14}{share:.1} %", count(number)));
            }
        }
        for (name, percentiles) in [("latency", &self.latency_us), ("sent late", &self.lag_us)] {
            if let Some(p) = percentiles {
                let [p50, p90, p99, p999, max] = [p.p50, p.p90, p.p99, p.p999, p.max].map(micros);
                row(name, format!("p50 {p50}   p90 {p90}   p99 {p99}   p99.9 {p999}   max {max}"));
            }
        }
        if self.unsent > 0 {
            row("not sent", format!("{}: due, but no caller was free; in no percentile", count(self.unsent)));
        }
        for (kind, number) in &self.errors {
            row("error", format!("{:<14}{}", count(*number), output::foreign(kind)));
        }
        text
    }
}

fn per_second(number: u64, rate: f64) -> String {
    format!("{:<14}{} /s", count(number), count(rate.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Failure, Verdicts};
    use super::*;

    fn report() -> Report {
        let settings = Settings {
            protocol: Protocol::Grpc,
            address: "127.0.0.1:1051".to_owned(),
            rate: Some(5_000),
            concurrency: 64,
            connections: 2,
            batch: 10,
            keys: 1_000_000,
            skew: Some(1.1),
            seed: 1,
        };
        let mut tally = Tally::new().unwrap();
        for call in 1..=1_000 {
            let verdicts = Verdicts { decisions: 10, over_limit: 4, ..Verdicts::default() };
            tally.record(Ok(verdicts), Duration::from_micros(call), Some(Duration::from_micros(7)));
        }
        tally.record(Err(Failure::Lost), Duration::ZERO, None);
        Report::new(settings, &tally, Duration::from_millis(2_000), 3, true)
    }

    #[test]
    fn people_see_what_matters() {
        assert_eq!(
            report().text(),
            "node        127.0.0.1:1051, gRPC\n\
             load        open loop at 5 000 calls/s, 64 callers on 2 connections, 1 000 000 keys, 10 items a call\n\
             time        2.00 s, interrupted\n\
             calls       1 000         500 /s\n\
             decisions   10 000        5 000 /s\n\
             over limit  4 000         40.0 %\n\
             latency     p50 500 us   p90 900 us   p99 990 us   p99.9 999 us   max 1.00 ms\n\
             sent late   p50 7 us   p90 7 us   p99 7 us   p99.9 7 us   max 7 us\n\
             not sent    3: due, but no caller was free; in no percentile\n\
             error       1             connection lost\n"
        );
    }

    #[test]
    fn scripts_see_everything() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["protocol"], "grpc");
        assert_eq!(json["calls_per_s"], 500.0);
        assert_eq!(json["decisions"], 10_000);
        assert_eq!(json["latency_us"]["p99.9"], 999);
        assert_eq!(json["errors"]["connection lost"], 1);
        assert_eq!((&json["unsent"], &json["interrupted"]), (&3.into(), &true.into()));
    }

    #[test]
    fn reasons_from_the_node_cannot_steer_the_terminal() {
        let mut tally = Tally::new().unwrap();
        let reason = Some("\x1b[2Jgone".to_owned());
        tally.record(Ok(Verdicts { refused: 1, reason, ..Verdicts::default() }), Duration::ZERO, None);
        let text = Report::new(report().settings, &tally, Duration::ZERO, 0, false).text();
        assert!(text.ends_with("error       1             item: \\u{1b}[2Jgone\n"), "{text}");
    }

    #[test]
    fn nothing_measured_is_no_number() {
        let report = Report::new(report().settings, &Tally::new().unwrap(), Duration::ZERO, 0, false);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["latency_us"], &json["calls_per_s"]), (&serde_json::Value::Null, &0.0.into()));
        assert!(report.text().contains("calls       0             0 /s\n"));
    }
}
