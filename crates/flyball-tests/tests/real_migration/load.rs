//! The steady load of an original client (`tools/go/client`, command `load`), told step by step.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use flyball_tests::tools::Tool;
use serde::Deserialize;

/// What happened since the last report.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    /// Calls that ended with an error, and items that were answered with one.
    pub(crate) failed: u64,
    pub(crate) granted: u64,
    /// Grants from the share of a node that could not reach the owner.
    pub(crate) degraded: u64,
    /// The first of the failed.
    failures: Option<Vec<Failure>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Failure {
    /// Who answered; nobody, when there was no connection.
    asked: String,
    text: String,
}

impl Tally {
    /// Failures that these nodes answered.
    pub(crate) fn failed_by(&self, addresses: &[&str]) -> u64 {
        let failures = self.failures.iter().flatten();
        failures.filter(|failure| addresses.contains(&failure.asked.as_str())).count() as u64
    }

    /// Each text, how often.
    pub(crate) fn texts(&self) -> BTreeMap<String, usize> {
        self.failures.iter().flatten().fold(BTreeMap::new(), |mut texts, failure| {
            *texts.entry(format!("[{}] {}", failure.asked, failure.text)).or_default() += 1;
            texts
        })
    }
}

/// A running client.
#[derive(Debug)]
pub(crate) struct Load {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Load {
    /// So many calls a second, in turn to these nodes.
    pub(crate) fn start(per_second: u32, addresses: &[String]) -> Self {
        let mut command = Tool::GoClient.command();
        command.arg("load").arg(per_second.to_string()).args(addresses);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let ask = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, ask, answers }
    }

    /// What happened since the last report.
    pub(crate) fn report(&mut self) -> Tally {
        self.ask.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
