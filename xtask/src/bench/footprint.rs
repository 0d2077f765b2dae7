//! What a server takes while it does little: memory when idle and per bucket, and the time until it first answers.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::http;
use super::load::{Kind, Load, Until, item, write_body};
use super::machine::resident_bytes;
use super::servers::{Program, Server, pause};
use super::stats::Summary;
use crate::wire::{grpc_frame, message};

/// Memory and start of one server.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Footprint {
    /// From the start of the process to the first answer to a check.
    pub first_answer_ms: Summary,
    /// Resident, after the first answer and a second of rest.
    pub idle_bytes: u64,
    /// Resident memory that the keys added, by each.
    pub bytes_per_bucket: f64,
    /// Keys that the server says it keeps, of those that it was given.
    pub kept: u64,
    pub keys: u64,
}

/// Keys in one call: the most that the wire allows.
const KEYS_PER_CALL: u64 = 1_000;
/// Starts that are timed.
const STARTS: usize = 5;

/// Measures one server, freshly started, with `keys` keys (whole thousands).
pub fn measure(program: &Program, folder: &Path, h2load: &Path, keys: u64) -> Result<Footprint> {
    let mut times = Vec::new();
    for _ in 1..STARTS {
        times.push(program.start(folder)?.1.as_secs_f64() * 1e3);
    }
    let (server, last) = program.start(folder)?;
    times.push(last.as_secs_f64() * 1e3);
    pause(Duration::from_secs(1));
    let idle_bytes = resident_bytes(server.pid())?;

    let fill = |from: u64| fill(&server, folder, h2load, from);
    // Buffers and threads that any load brings are not the buckets'; these keys are counted once, below.
    (0..100).try_for_each(|_| fill(0))?;
    let before = resident_bytes(server.pid())?;
    (KEYS_PER_CALL..keys).step_by(KEYS_PER_CALL as usize).try_for_each(fill)?;
    pause(Duration::from_secs(2));
    let after = resident_bytes(server.pid())?;
    let added = keys - KEYS_PER_CALL;
    Ok(Footprint {
        first_answer_ms: Summary::of(&times).context("no start was timed")?,
        idle_bytes,
        bytes_per_bucket: after.saturating_sub(before) as f64 / added as f64,
        kept: kept(&server)?,
        keys,
    })
}

/// Sends one call with the keys from `from` on.
fn fill(server: &Server, folder: &Path, h2load: &Path, from: u64) -> Result<()> {
    let items: Vec<_> = (from..from + KEYS_PER_CALL).map(item).collect();
    let body = write_body(folder, "fill.bin", &grpc_frame(&message(&items)))?;
    let load = Load { h2load: h2load.to_owned(), kind: Kind::Grpc { items: KEYS_PER_CALL }, body };
    load.drive(server.grpc, Until::Requests(1))?;
    Ok(())
}

/// The number of buckets, from the server's own metrics.
fn kept(server: &Server) -> Result<u64> {
    let page = http::call(server.http, "/metrics", None)?;
    let value = page.lines().find_map(|line| line.strip_prefix("gubernator_cache_size "));
    match value.and_then(|value| value.trim().parse::<f64>().ok()) {
        Some(value) => Ok(value as u64),
        None => bail!("{} has no metric gubernator_cache_size", server.who.name()),
    }
}
