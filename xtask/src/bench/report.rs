//! The tables, and whether the goals are met. Ratios only between figures of the same run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::cost::{Cost, Rounds};
use super::footprint::Footprint;
use super::machine::Machine;
use super::servers::Who;

/// Everything one run found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    /// Cargo profile of flyball and the floor.
    pub profile: String,
    pub rounds: Rounds,
    /// By the kind of call, in the order measured.
    pub costs: Vec<(&'static str, BTreeMap<Who, Cost>)>,
    pub footprints: BTreeMap<Who, Footprint>,
}

/// What flyball is to reach, in figures of this run.
struct Goal {
    what: String,
    goal: String,
    /// `None` when what it is compared with was not measured.
    measured: Option<String>,
    met: bool,
}

/// Most CPU per call in shares of the floor and of Gubernator, for each kind in [`Report::costs`].
const COST_GOALS: [(Option<f64>, f64); 3] = [(Some(1.3), 6.0), (Some(1.5), 40.0), (None, 8.0)];
const BYTES_PER_BUCKET: f64 = 200.0;
const IDLE_BYTES: u64 = 20_000_000;
const FIRST_ANSWER_MS: f64 = 50.0;

impl Report {
    /// For people and for the README.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let Machine { processor, cores, kernel, load_before, load_after } = &self.machine;
        let Rounds { rounds, seconds } = self.rounds;
        let _ = writeln!(
            out,
            "{processor}, {cores} cores, Linux {kernel}; load {load_before} before and {load_after} after. \
             Profile `{}`; medians of {rounds} interleaved rounds of about {seconds} s, ± half the range.\n",
            self.profile
        );
        self.costs_table(&mut out);
        self.footprint_table(&mut out);
        let _ = writeln!(out, "\n| goal | | measured | |\n|---|---|---|---|");
        for Goal { what, goal, measured, met } in self.goals() {
            let (measured, verdict) = match measured {
                Some(measured) => (measured, if met { "met" } else { "**missed**" }),
                None => ("not measured".to_owned(), ""),
            };
            let _ = writeln!(out, "| {what} | {goal} | {measured} | {verdict} |");
        }
        out
    }

    fn costs_table(&self, out: &mut String) {
        let _ = writeln!(out, "| call | server | CPU per request | CPU per decision | requests/s |");
        let _ = writeln!(out, "|---|---|---|---|---|");
        for (name, costs) in &self.costs {
            for (who, cost) in costs {
                let _ = writeln!(
                    out,
                    "| {name} | {} | {:.2} us ± {:.0} % | {:.3} us | {:.0} |",
                    who.name(),
                    cost.cpu_us_per_request.median,
                    cost.cpu_us_per_request.spread_percent(),
                    cost.cpu_us_per_decision.median,
                    cost.requests_per_second.median
                );
            }
        }
    }

    fn footprint_table(&self, out: &mut String) {
        let _ = writeln!(out, "\n| server | first answer | idle | per bucket | buckets kept |");
        let _ = writeln!(out, "|---|---|---|---|---|");
        for (who, print) in &self.footprints {
            let _ = writeln!(
                out,
                "| {} | {:.0} ms ± {:.0} % | {:.1} MB | {:.0} bytes | {} of {} |",
                who.name(),
                print.first_answer_ms.median,
                print.first_answer_ms.spread_percent(),
                print.idle_bytes as f64 / 1e6,
                print.bytes_per_bucket,
                print.kept,
                print.keys
            );
        }
        if self.footprints.contains_key(&Who::Gubernator) {
            let _ = writeln!(
                out,
                "\nGubernator's `GUBER_CACHE_SIZE` was raised to hold all keys; all else is default."
            );
        }
    }

    fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        for ((name, costs), (of_floor, of_gubernator)) in self.costs.iter().zip(COST_GOALS) {
            let cpu = |who| costs.get(&who).map(|cost| cost.cpu_us_per_request.median);
            let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
            if let Some(most) = of_floor {
                let measured = ratio(cpu(Who::Flyball), cpu(Who::Floor));
                goals.push(Goal {
                    what: format!("{name}: CPU of flyball / floor"),
                    goal: format!("at most {most}"),
                    measured: measured.map(|ratio| format!("{ratio:.2}")),
                    met: measured.is_some_and(|ratio| ratio <= most),
                });
            }
            let measured = ratio(cpu(Who::Gubernator), cpu(Who::Flyball));
            goals.push(Goal {
                what: format!("{name}: CPU of Gubernator / flyball"),
                goal: format!("at least {of_gubernator}"),
                measured: measured.map(|ratio| format!("{ratio:.1}")),
                met: measured.is_some_and(|ratio| ratio >= of_gubernator),
            });
        }
        if let Some(print) = self.footprints.get(&Who::Flyball) {
            goals.push(Goal {
                what: format!("memory per bucket, {} keys of 33 bytes", print.keys),
                goal: format!("at most {BYTES_PER_BUCKET} bytes"),
                measured: Some(format!("{:.0} bytes", print.bytes_per_bucket)),
                // Fewer kept buckets would look cheap.
                met: print.bytes_per_bucket <= BYTES_PER_BUCKET && print.kept >= print.keys,
            });
            goals.push(Goal {
                what: "memory when idle".to_owned(),
                goal: format!("at most {} MB", IDLE_BYTES / 1_000_000),
                measured: Some(format!("{:.1} MB", print.idle_bytes as f64 / 1e6)),
                met: print.idle_bytes <= IDLE_BYTES,
            });
            goals.push(Goal {
                what: "from start to first answer".to_owned(),
                goal: format!("at most {FIRST_ANSWER_MS} ms"),
                measured: Some(format!("{:.0} ms", print.first_answer_ms.median)),
                met: print.first_answer_ms.median <= FIRST_ANSWER_MS,
            });
        }
        goals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::Summary;

    fn cost(us: f64) -> Cost {
        let flat = |value: f64| Summary::of(&[value]).unwrap();
        Cost {
            cpu_us_per_request: flat(us),
            cpu_us_per_decision: flat(us),
            requests_per_second: flat(1e6 / us),
        }
    }

    fn report(gubernator: Option<f64>, kept: u64) -> Report {
        let mut costs = BTreeMap::from([(Who::Flyball, cost(13.0)), (Who::Floor, cost(10.0))]);
        costs.extend(gubernator.map(|us| (Who::Gubernator, cost(us))));
        let print = Footprint {
            first_answer_ms: Summary::of(&[20.0]).unwrap(),
            idle_bytes: 10_000_000,
            bytes_per_bucket: 150.0,
            kept,
            keys: 1_000,
        };
        Report {
            machine: Machine {
                processor: "a processor".into(),
                cores: 2,
                kernel: "6".into(),
                load_before: "0 0 0".into(),
                load_after: "1 0 0".into(),
            },
            profile: "release".into(),
            rounds: Rounds { rounds: 5, seconds: 4 },
            costs: vec![("gRPC, 1 item", costs)],
            footprints: BTreeMap::from([(Who::Flyball, print)]),
        }
    }

    #[test]
    fn goals_are_judged_by_this_runs_figures() {
        let text = report(Some(77.0), 1_000).markdown();
        assert!(
            text.contains("| gRPC, 1 item: CPU of flyball / floor | at most 1.3 | 1.30 | met |"),
            "{text}"
        );
        assert!(text.contains("CPU of Gubernator / flyball | at least 6 | 5.9 | **missed** |"), "{text}");
        assert!(text.contains("| at most 200 bytes | 150 bytes | met |"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let text = report(None, 1_000).markdown();
        assert!(text.contains("at least 6 | not measured |  |"), "{text}");
    }

    #[test]
    fn a_store_that_forgets_does_not_pass_for_small() {
        let text = report(None, 999).markdown();
        assert!(text.contains("150 bytes | **missed** |"), "{text}");
    }
}
