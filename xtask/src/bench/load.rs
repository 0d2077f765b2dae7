//! Load by h2load: fixed bytes, one thread, so that the server is what is measured. Runs count requests, not
//! seconds, so that no request is half done when the server's CPU time is read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use crate::process::{capture, shown};
use crate::wire::{Item, grpc_frame, message};

/// Connections of every load.
pub const CONNECTIONS: u64 = 8;
/// Streams per HTTP/2 connection. HTTP/1.1 has one call at a time on each.
pub const STREAMS: u64 = 10;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// gRPC with so many items of distinct keys.
    Grpc { items: u64 },
    /// JSON over HTTP/1.1, one item.
    Json,
}

impl Kind {
    pub const fn items(self) -> u64 {
        match self {
            Self::Grpc { items } => items,
            Self::Json => 1,
        }
    }

    /// The body of one call: what the measurements of this project have always sent.
    pub fn body(self) -> Vec<u8> {
        match self {
            Self::Grpc { items } => grpc_frame(&message(&(0..items).map(item).collect::<Vec<_>>())),
            Self::Json => one_check().to_string().into_bytes(),
        }
    }
}

/// One check as JSON, to be sent by anybody.
pub fn one_check() -> serde_json::Value {
    let item = item(0);
    serde_json::json!({"requests": [{
        "name": item.name, "unique_key": item.unique_key, "hits": item.hits.to_string(),
        "limit": item.limit.to_string(), "duration": item.duration.to_string(),
    }]})
}

/// Check number `index`: a key of 33 bytes and a limit that is never reached.
pub fn item(index: u64) -> Item {
    Item {
        name: "requests_per_sec".to_owned(),
        unique_key: format!("account:{index:08}"),
        hits: 1,
        limit: 1_000_000_000,
        duration: 3_600_000,
        ..Item::default()
    }
}

/// h2load with one body.
#[derive(Clone, Debug)]
pub struct Load {
    pub h2load: PathBuf,
    pub kind: Kind,
    /// The file that holds the body.
    pub body: PathBuf,
}

/// How long or how many.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    Seconds(u64),
    Requests(u64),
}

/// What h2load says at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub requests: u64,
    pub requests_per_second: f64,
    /// Bytes of the answers' bodies.
    pub data_bytes: u64,
}

impl Load {
    /// Drives `server`; an error unless every request was answered well.
    pub fn drive(&self, server: SocketAddr, until: Until) -> Result<Outcome> {
        let connections = match until {
            Until::Requests(requests) => CONNECTIONS.min(requests),
            Until::Seconds(_) => CONNECTIONS,
        };
        let mut command = self.command(connections);
        match until {
            Until::Seconds(seconds) => command.arg("-D").arg(seconds.to_string()),
            Until::Requests(requests) => command.arg("-n").arg(requests.to_string()),
        };
        command.arg(self.url(server));
        let text = capture(&mut command)?;
        let parsed = parse(&text).with_context(|| shown(&command))?;
        self.check_answers(&parsed).with_context(|| shown(&command))?;
        Ok(parsed)
    }

    /// One call at a time over one connection: the mean time of a call, in microseconds.
    pub fn latency(&self, server: SocketAddr, requests: u64) -> Result<f64> {
        let mut command = Command::new(&self.h2load);
        command.args(["-t", "1", "-c", "1", "-m", "1", "-d"]).arg(&self.body);
        command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
        command.arg("-n").arg(requests.to_string()).arg(self.url(server));
        let text = capture(&mut command)?;
        self.check_answers(&parse(&text)?).with_context(|| shown(&command))?;
        mean_time(&text).with_context(|| format!("h2load told no time of requests:\n{text}"))
    }

    fn command(&self, connections: u64) -> Command {
        let mut command = Command::new(&self.h2load);
        command.args(["-t", "1", "-c"]).arg(connections.to_string()).arg("-d").arg(&self.body);
        match self.kind {
            Kind::Grpc { .. } => {
                command.arg("-m").arg(STREAMS.to_string());
                command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
            }
            Kind::Json => {
                command.args(["--h1", "-m", "1", "-H", "content-type: application/json"]);
            }
        }
        command
    }

    fn url(&self, server: SocketAddr) -> String {
        let path = match self.kind {
            Kind::Grpc { .. } => "pb.gubernator.V1/GetRateLimits",
            Kind::Json => "v1/GetRateLimits",
        };
        format!("http://{server}/{path}")
    }

    /// gRPC tells an error in trailers that h2load does not read, and an item's error inside the answer. Both
    /// change how long an answer is: none at all, or a sentence per item.
    fn check_answers(&self, result: &Outcome) -> Result<()> {
        let bytes = result.data_bytes as f64 / result.requests.max(1) as f64 / self.kind.items() as f64;
        let expected = match self.kind {
            // With the owner's address in a cluster.
            Kind::Grpc { .. } => 8.0..90.0,
            Kind::Json => 100.0..200.0,
        };
        if !expected.contains(&bytes) {
            bail!("an answer has {bytes:.1} bytes per item, expected are {expected:?}: are these errors?");
        }
        Ok(())
    }
}

/// Writes the body of `kind` into `folder`.
pub fn write_body(folder: &Path, name: &str, body: &[u8]) -> Result<PathBuf> {
    let file = folder.join(name);
    std::fs::write(&file, body).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

fn parse(text: &str) -> Result<Outcome> {
    let line = |start: &str| {
        let found = text.lines().find_map(|line| line.trim_start().strip_prefix(start));
        found.ok_or_else(|| anyhow!("h2load printed no line {start:?}; it said:\n{text}"))
    };
    let requests = line("requests:")?;
    let done = before(requests, " done").context("no count of requests that are done")?;
    let sum = |list, words: [&str; 3]| words.iter().filter_map(|word| before(list, word)).sum::<u64>();
    let failed = sum(requests, [" failed", " errored", " timeout"]);
    // The good ones are not compared: when time is up, some have a status and not yet their body.
    let refused = sum(line("status codes:")?, [" 3xx", " 4xx", " 5xx"]);
    if failed > 0 || refused > 0 || done == 0 {
        bail!("not every request was answered well: {}", requests.trim());
    }
    let rate = line("finished in")?.split(", ").find_map(|part| part.strip_suffix(" req/s")?.parse().ok());
    let data = line("traffic:")?.rsplit(", ").find_map(|part| {
        let (_, bytes) = part.strip_suffix(") data")?.rsplit_once('(')?;
        bytes.parse().ok()
    });
    Ok(Outcome {
        requests: done,
        requests_per_second: rate.context("no rate")?,
        data_bytes: data.context("no count of bytes")?,
    })
}

/// The mean of the line `time for request:`, in microseconds.
fn mean_time(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("time for request:"))?;
    let mean = line.split_whitespace().nth(2)?;
    let (number, unit) = mean.split_at(mean.find(|c: char| c.is_alphabetic())?);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// The number in front of ` word` in a comma-separated list.
fn before(list: &str, word: &str) -> Option<u64> {
    list.split(',').find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_times_are_read_in_every_unit() {
        assert_eq!(mean_time(OUTPUT), Some(1_180.0));
        assert_eq!(mean_time("time for request: 1us 2us 86us 1us 90%"), Some(86.0));
        assert_eq!(mean_time("nothing"), None);
    }

    const OUTPUT: &str = "\
progress: 100% done

finished in 2.98s, 6704.59 req/s, 1.99MB/s
requests: 20000 total, 20000 started, 20000 done, 20000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 5.95MB (6240000) total, 2.29MB (2400000) headers (space savings 0.00%), 2.99MB (3140000) data
                     min         max         mean         sd        +/- sd
time for request:       86us     18.24ms      1.18ms      1.28ms    91.27%
";

    #[test]
    fn the_end_of_a_run_is_understood() {
        let expected = Outcome { requests: 20_000, requests_per_second: 6704.59, data_bytes: 3_140_000 };
        assert_eq!(parse(OUTPUT).unwrap(), expected);
    }

    #[test]
    fn a_run_with_failures_is_no_measurement() {
        for (from, to) in [("0 failed", "3 failed"), ("0 4xx", "1000 4xx"), ("20000 done", "0 done")] {
            let error = parse(&OUTPUT.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains("answered well"), "{error}");
        }
        assert!(parse("").unwrap_err().to_string().contains("no line"));
    }

    #[test]
    fn bodies_are_what_they_were_in_every_run() {
        let one = Kind::Grpc { items: 1 }.body();
        assert_eq!(one.len(), 5 + 2 + 18 + 18 + 2 + 6 + 5);
        assert_eq!(item(7).unique_key, "account:00000007");
        let many = Kind::Grpc { items: 1000 }.body();
        assert_eq!(many.len(), 5 + 1000 * (one.len() - 5));
    }

    #[test]
    fn answers_that_are_errors_are_noticed() {
        let load = Load { h2load: PathBuf::new(), kind: Kind::Grpc { items: 10 }, body: PathBuf::new() };
        let answer = |data_bytes| Outcome { requests: 100, requests_per_second: 1.0, data_bytes };
        load.check_answers(&answer(100 * 10 * 20)).unwrap();
        load.check_answers(&answer(0)).unwrap_err();
        load.check_answers(&answer(100 * 10 * 160)).unwrap_err();
    }
}
