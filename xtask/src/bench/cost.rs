//! CPU time of the server per request and per decision, under the same load for all, one after the other in
//! every round.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;

use super::load::{CONNECTIONS, Kind, Load, STREAMS, Until};
use super::machine::Meter;
use super::servers::{Server, Who};
use super::stats::Summary;

/// What one kind of call costs one server.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    pub cpu_us_per_request: Summary,
    pub cpu_us_per_decision: Summary,
    pub requests_per_second: Summary,
}

/// How often and how long.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rounds {
    pub rounds: usize,
    pub seconds: u64,
}

/// Measures one kind of call on every server that speaks it: A B C, A B C, …
pub fn measure(load: &Load, servers: &[Server], rounds: Rounds, meter: Meter) -> Result<BTreeMap<Who, Cost>> {
    let servers: Vec<&Server> =
        servers.iter().filter(|server| load.kind != Kind::Json || server.who.has_http()).collect();
    let mut counts = Vec::new();
    for server in &servers {
        // Warms up, and tells how many requests fill the time.
        let warm = load.drive(address(load, server), Until::Seconds(rounds.seconds.min(2)))?;
        let requests = warm.requests_per_second * rounds.seconds as f64;
        counts.push((requests as u64).max(CONNECTIONS * STREAMS * 2));
    }
    let mut samples: BTreeMap<Who, Vec<[f64; 2]>> = BTreeMap::new();
    for round in 1..=rounds.rounds {
        for (server, requests) in servers.iter().zip(&counts) {
            let before = meter.cpu_seconds(server.pid())?;
            let result = load.drive(address(load, server), Until::Requests(*requests));
            let result = result.with_context(|| format!("loading {}", server.who.name()))?;
            let used = meter.cpu_seconds(server.pid())? - before;
            let per_request = used * 1e6 / result.requests as f64;
            println!(
                "  round {round}: {:<10} {:>9.2} us/request {:>10.0} requests/s",
                server.who.name(),
                per_request,
                result.requests_per_second
            );
            samples.entry(server.who).or_default().push([per_request, result.requests_per_second]);
        }
    }
    samples.into_iter().map(|(who, samples)| Ok((who, cost(&samples, load.kind)?))).collect()
}

fn address(load: &Load, server: &Server) -> std::net::SocketAddr {
    if load.kind == Kind::Json { server.http } else { server.grpc }
}

fn cost(samples: &[[f64; 2]], kind: Kind) -> Result<Cost> {
    let of = |pick: &dyn Fn(&[f64; 2]) -> f64| {
        Summary::of(&samples.iter().map(pick).collect::<Vec<_>>()).context("there was no round")
    };
    Ok(Cost {
        cpu_us_per_request: of(&|sample| sample[0])?,
        cpu_us_per_decision: of(&|sample| sample[0] / kind.items() as f64)?,
        requests_per_second: of(&|sample| sample[1])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_its_share_of_a_request() {
        let cost = cost(&[[200.0, 10.0], [100.0, 30.0], [300.0, 20.0]], Kind::Grpc { items: 1000 }).unwrap();
        assert_eq!(cost.cpu_us_per_request.median, 200.0);
        assert_eq!(cost.cpu_us_per_decision.median, 0.2);
        assert_eq!(cost.requests_per_second.median, 20.0);
    }
}
