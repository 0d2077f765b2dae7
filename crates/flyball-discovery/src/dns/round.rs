//! One round of questions, and what may be concluded from the answers.
//!
//! All names are asked at once: first A and AAAA of each name, or SRV of a service, then A and AAAA of the hosts that
//! services named. What a round finds is judged with what earlier ones found:
//!
//! * A question that **failed** (no answer, SERVFAIL) has the answer it had last. A server that never answers for
//!   AAAA, and there are such, thus hides no new A records.
//! * A name that was **answered with nothing** at all keeps the peers it had: while every node restarts there is a
//!   moment without records, and a ring emptied in it would be counted anew. So a name that is really gone has to be
//!   taken out of the configuration.
//! * A host that a service names and that has no address is left out: it was there when the service was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use super::lookup::{Answer, Data, Kind, Lookups};
use super::name::DnsName;

/// Questions that are open at the same time.
const OPEN_MAX: usize = 32;

/// Faults that are named; a failing server fails everything.
const FAULTS_MAX: usize = 3;

type Question = (String, Kind);

/// What earlier rounds found.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Of each question of the last round, the last answer with records.
    answers: BTreeMap<Question, BTreeSet<Data>>,
    /// Of each name, the last nodes that were found.
    nodes: BTreeMap<String, BTreeSet<(IpAddr, u16)>>,
}

/// What a round found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The nodes of each name, in the order of the names.
    pub(super) nodes: Vec<BTreeSet<(IpAddr, u16)>>,
    /// The least of all answers; `None` when nothing had records.
    pub(super) ttl: Option<Duration>,
    /// What went wrong, for people; empty when nothing did.
    pub(super) faults: Vec<String>,
}

/// Asks everything once. Owns what it needs, so that a round may outlive the call that began it.
pub(super) async fn run(
    lookups: Arc<dyn Lookups>,
    names: Arc<[DnsName]>,
    port: u16,
    mut memory: Memory,
) -> (Found, Memory) {
    let mut round = Round::default();
    lookups.forget();
    let first = names.iter().flat_map(|name| {
        let kinds: &[Kind] = if name.is_service() { &[Kind::Srv] } else { &[Kind::A, Kind::Aaaa] };
        kinds.iter().map(|kind| (name.absolute().to_owned(), *kind))
    });
    round.ask(&*lookups, first.collect(), &memory).await;
    let hosts = round.answers.values().flatten().filter_map(|data| match data {
        Data::Service(host, _) => Some(host.clone()),
        Data::Ip(_) => None,
    });
    let second = hosts.flat_map(|host| [(host.clone(), Kind::A), (host, Kind::Aaaa)]).collect();
    round.ask(&*lookups, second, &memory).await;
    let found = round.finish(&names, port, &mut memory);
    (found, memory)
}

#[derive(Default)]
struct Round {
    answers: BTreeMap<Question, BTreeSet<Data>>,
    ttl: Option<Duration>,
    /// Names of questions that failed.
    failed: BTreeSet<String>,
    faults: Vec<String>,
    more_faults: usize,
}

impl Round {
    async fn ask(&mut self, lookups: &dyn Lookups, questions: BTreeSet<Question>, memory: &Memory) {
        let questions: Vec<_> =
            questions.into_iter().filter(|question| !self.answers.contains_key(question)).collect();
        let asked: Vec<_> = questions.iter().map(|(name, kind)| lookups.ask(name, *kind)).collect();
        // In the order of the questions: that of the answers is another each time, and faults are compared.
        let answers: Vec<_> = stream::iter(asked).buffered(OPEN_MAX).collect().await;
        for (question, answer) in questions.into_iter().zip(answers) {
            self.take(question, answer, memory);
        }
    }

    fn take(&mut self, question: Question, answer: Result<Answer, String>, memory: &Memory) {
        let records = match answer {
            Ok(answer) => {
                self.ttl = match (self.ttl, answer.ttl) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
                answer.records
            }
            Err(why) => {
                let (name, kind) = &question;
                self.failed.insert(name.clone());
                self.fault(format!("{kind} of {name}: {why}"));
                memory.answers.get(&question).cloned().unwrap_or_default()
            }
        };
        self.answers.insert(question, records);
    }

    fn fault(&mut self, fault: String) {
        match self.faults.len() < FAULTS_MAX {
            true => self.faults.push(fault),
            false => self.more_faults += 1,
        }
    }

    /// The addresses of a host.
    fn ips<'a>(&'a self, host: &'a str) -> impl Iterator<Item = IpAddr> + 'a {
        [Kind::A, Kind::Aaaa]
            .into_iter()
            .filter_map(move |kind| self.answers.get(&(host.to_owned(), kind)))
            .flatten()
            .filter_map(|data| match data {
                Data::Ip(ip) => Some(*ip),
                Data::Service(..) => None,
            })
    }

    fn nodes(&self, name: &DnsName, port: u16) -> BTreeSet<(IpAddr, u16)> {
        if !name.is_service() {
            return self.ips(name.absolute()).map(|ip| (ip, port)).collect();
        }
        let services = self.answers.get(&(name.absolute().to_owned(), Kind::Srv)).into_iter().flatten();
        services
            .filter_map(|data| match data {
                // Port 0 is nothing that can be dialled.
                Data::Service(host, port @ 1..) => Some((host, *port)),
                _ => None,
            })
            .flat_map(|(host, port)| self.ips(host).map(move |ip| (ip, port)))
            .collect()
    }

    fn finish(mut self, names: &[DnsName], port: u16, memory: &mut Memory) -> Found {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let nodes = self.nodes(name, port);
            if nodes.is_empty() {
                // A failed question was reported already.
                if !self.failed.contains(name.absolute()) {
                    let kinds = if name.is_service() { "SRV" } else { "A and AAAA" };
                    self.fault(format!("{name} has no {kinds} records with an address"));
                }
            } else {
                memory.nodes.insert(name.absolute().to_owned(), nodes);
            }
            found.push(memory.nodes.get(name.absolute()).cloned().unwrap_or_default());
        }
        memory.answers = self.answers;
        if let (Some(last), more @ 1..) = (self.faults.last_mut(), self.more_faults) {
            last.push_str(&format!(" (and {more} more)"));
        }
        Found { nodes: found, ttl: self.ttl, faults: self.faults }
    }
}
