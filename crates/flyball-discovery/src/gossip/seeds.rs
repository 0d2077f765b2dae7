//! Whom a node asks first, and again when it has lost everybody.
//!
//! Each address of each seed is asked for everything it knows, and one answer is enough. Until there is one the node
//! asks again, soon at first. Afterwards it asks once a minute those seeds that nobody has who is there: two halves of
//! a cluster that lost each other for so long that they have forgotten each other would otherwise never meet again.
//! The original does not do that.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::codec::message::Record;
use super::codec::stream::Secrecy;
use super::streams;
use crate::address;

/// Most seeds.
pub const SEEDS_MAX: usize = 1_000;

/// Most addresses that are asked in one go; the rest are left out.
const ADDRESSES_MAX: usize = 256;

/// How many are asked at a time.
const AT_ONCE: usize = 16;

/// How long finding the addresses of a seed and asking one of them may take.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
const ASK_WITHIN: Duration = Duration::from_secs(10);

/// How many faults are named in a message.
const FAULTS_SHOWN: usize = 3;

/// The wait after the first failure, and the longest, before and after the first success.
const BACKOFF_FIRST: Duration = Duration::from_millis(300);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
const LONELY_BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Nodes to begin with: `host`, `host:port`, each perhaps with a node's name and a slash in front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeds(Vec<String>);

impl Seeds {
    /// A comma separated list. An entry without a port means the one that the node itself listens on.
    ///
    /// # Errors
    /// Says which entry is wrong and what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries: Vec<_> = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
        for entry in &entries {
            // Any port will do to judge one without.
            address::parse(host_of(entry), 1).map_err(|why| format!("{} {why}", address::quoted(entry)))?;
        }
        match entries.len() {
            0..=SEEDS_MAX => Ok(Self(entries.into_iter().map(str::to_owned).collect())),
            count => Err(format!("{count} nodes; expected at most {SEEDS_MAX}")),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As `host:port`, each once.
    pub(super) fn addresses(&self, default_port: u16) -> Vec<String> {
        let parsed = self.0.iter().filter_map(|entry| address::parse(host_of(entry), default_port).ok());
        let all: BTreeSet<_> = parsed.collect();
        all.into_iter().collect()
    }
}

/// A seed without the name of the node: names are not needed to find it.
fn host_of(entry: &str) -> &str {
    entry.split_once('/').map_or(entry, |(_, host)| host)
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// When seeds are asked.
#[derive(Debug)]
pub(super) struct Joining {
    /// `host:port` of each.
    pub(super) seeds: Arc<[String]>,
    /// Somebody answered once, or there is nobody to ask.
    pub(super) joined: bool,
    failures: u32,
}

impl Joining {
    pub(super) fn new(seeds: Vec<String>) -> Self {
        Self { joined: seeds.is_empty(), seeds: seeds.into(), failures: 0 }
    }

    /// Takes note of a round, and says how long to wait before the next.
    pub(super) fn conclude(
        &mut self,
        answered: bool,
        alone: bool,
        interval: Duration,
        rng: &mut impl Rng,
    ) -> Duration {
        self.joined |= answered;
        if self.joined && !alone {
            self.failures = 0;
            return spread(interval, rng);
        }
        // The only node of those that are seeds waits for the others just as well.
        let most = if self.joined { LONELY_BACKOFF_MAX } else { BACKOFF_MAX };
        let wait = BACKOFF_FIRST.saturating_mul(1 << self.failures.min(16)).min(most);
        self.failures = self.failures.saturating_add(1);
        spread(wait, rng)
    }
}

/// Up to half less, so that nodes do not ask in step.
fn spread(longest: Duration, rng: &mut impl Rng) -> Duration {
    longest.mul_f64(rng.random_range(0.5..=1.0))
}

/// What a round found.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) states: Vec<Vec<Record>>,
    /// Among the seeds is this node itself, or one that is known.
    pub(super) known: bool,
    faults: BTreeSet<String>,
    count: usize,
}

impl Round {
    /// What went wrong, the same text for the same faults.
    pub(super) fn fault(&self) -> String {
        let shown: Vec<_> = self.faults.iter().take(FAULTS_SHOWN).map(String::as_str).collect();
        let more = match self.faults.len().saturating_sub(FAULTS_SHOWN) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let count = self.count;
        format!("none of {count} known nodes answers to gossip: {}{more}", shown.join("; "))
    }

    pub(super) fn add_fault(&mut self, fault: String) {
        self.faults.insert(fault);
    }
}

/// Asks every address of every seed but those `known`, with `question` as it travels.
pub(super) async fn ask(
    seeds: Arc<[String]>,
    known: BTreeSet<SocketAddr>,
    question: Arc<[u8]>,
    secrecy: Arc<Secrecy>,
) -> Round {
    let mut round = Round { count: seeds.len(), ..Round::default() };
    let mut addresses = BTreeSet::new();
    for group in seeds.chunks(AT_ONCE) {
        let mut lookups = JoinSet::new();
        for seed in group {
            let seed = seed.clone();
            lookups.spawn(async move {
                let found = timeout(LOOKUP_WITHIN, lookup_host(&seed)).await;
                let found = match found {
                    Ok(Ok(found)) => Ok(found.collect::<Vec<_>>()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err(format!("looking up its address took longer than {LOOKUP_WITHIN:?}")),
                };
                found.map_err(|why| format!("{seed}: {why}"))
            });
        }
        while let Some(found) = lookups.join_next().await {
            match found {
                Ok(Ok(found)) => addresses.extend(found.into_iter().map(super::sockets::canonical)),
                Ok(Err(fault)) => round.add_fault(fault),
                Err(_) => {}
            }
        }
    }
    round.known = addresses.iter().any(|address| known.contains(address));
    let unknown: Vec<_> = addresses.difference(&known).copied().take(ADDRESSES_MAX).collect();
    for group in unknown.chunks(AT_ONCE) {
        let mut asked = JoinSet::new();
        for to in group.iter().copied() {
            let (question, secrecy) = (question.clone(), secrecy.clone());
            asked.spawn(async move {
                let answer = streams::exchange(to, &question, &secrecy, ASK_WITHIN).await;
                answer.map_err(|why| format!("{to}: {why}"))
            });
        }
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(state)) => round.states.push(state),
                Ok(Err(fault)) => round.add_fault(fault),
                Err(_) => {}
            }
        }
    }
    round
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::SplitMix64;

    use super::*;

    #[test]
    fn seeds_are_hosts_with_or_without_port_and_name() {
        let seeds = Seeds::parse("10.0.0.1, b:1,node-3/10.0.0.3:7,node-4/c,,[::1]").unwrap();
        assert_eq!(seeds.addresses(7946), ["10.0.0.1:7946", "10.0.0.3:7", "[::1]:7946", "b:1", "c:7946"]);
        for (text, reason) in
            [("a b", "no valid host"), ("a:x", "port"), ("n/", "empty"), ("::1", "brackets")]
        {
            let error = Seeds::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(Seeds::parse("").unwrap().is_empty());
        assert!(Seeds::parse(&vec!["a"; 1_001].join(",")).unwrap_err().contains("1001"));
    }

    #[test]
    fn who_finds_nobody_asks_again_for_ever_and_less_often() {
        let mut rng = SplitMix64::seed_from_u64(1);
        let mut joining = Joining::new(vec!["a:1".to_owned()]);
        let interval = Duration::from_secs(60);
        let mut waits = |joining: &mut Joining, answered, alone, longest: &[u64]| {
            for longest in longest {
                let wait = joining.conclude(answered, alone, interval, &mut rng).as_millis() as u64;
                assert!((longest / 2..=*longest).contains(&wait), "{wait} of {longest}");
            }
        };
        waits(&mut joining, false, true, &[300, 600, 1_200, 2_400, 4_800, 5_000, 5_000]);
        assert!(!joining.joined);
        waits(&mut joining, true, false, &[60_000, 60_000]);
        waits(&mut joining, false, true, &[300, 600, 1_200, 2_400, 4_800, 9_600, 19_200, 30_000, 30_000]);
        assert!(joining.joined);
    }
}
