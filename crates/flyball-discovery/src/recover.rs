//! Keeps a cluster together while its source of peers fails.
//!
//! A source may fail for a second or for a day: a DNS server restarts, a file is edited badly, all pods are down at
//! once and a name has no records. None of that says that the peers are gone, and emptying the ring would make every
//! node decide alone. So the last good set stays, the source is asked again, and how long that has been going on is
//! there for metrics and the admin page.
//!
//! * A failing source is asked again after 0.5 s, then 1 s, 2 s, 4 s, and every 5 s from then on, each time less
//!   up to half of it: nodes that were started together do not ask together. A source that waits for changes by
//!   itself says so ([`SourceError::retry_after`]).
//! * An empty set counts as a failure, before the first good set as well as after: there is no cluster of nobody.
//! * A set equal to the one before is no news. It still ends a failure.
//! * A failure is logged when it begins and when its words change, not each time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use tokio::time::{Instant, sleep_until};

use crate::source::{Source, SourceError};

/// The wait after the first failure.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);

/// The longest wait.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The least wait, also for a source that paces itself: one that does so badly must not spin.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// A source that does not fail: it only has no news.
#[derive(Debug)]
pub struct Recover {
    source: Box<dyn Source>,
    rng: SplitMix64,
    /// The set in force.
    set: Option<Vec<PeerInfo>>,
    /// Failures since the last good answer.
    failures: u32,
    /// When the source may be asked again.
    retry_at: Option<Instant>,
    status: Status,
}

impl Recover {
    /// Wraps a source. The seed decides how waits are spread; nodes should have different ones.
    pub fn new(source: Box<dyn Source>, seed: u64) -> Self {
        let status = Status(Arc::new(Mutex::new(Inner {
            kind: source.kind(),
            origin: source.origin(),
            peers: 0,
            changed: None,
            failing: None,
            failures: 0,
        })));
        Self { source, rng: SplitMix64::seed_from_u64(seed), set: None, failures: 0, retry_at: None, status }
    }

    /// How the source is doing; cheap to clone and to ask, from any thread.
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// The next set that differs from the one before: sorted, each address once, never empty. Cancel safe.
    pub async fn next(&mut self) -> Vec<PeerInfo> {
        loop {
            if let Some(at) = self.retry_at {
                sleep_until(at).await;
                self.retry_at = None;
            }
            // No await after this one, so a dropped call cannot lose an answer.
            let answer = match self.source.next().await {
                Ok(set) if set.is_empty() => {
                    Err(SourceError::new(format!("{} has no peers", self.source.origin())))
                }
                answer => answer,
            };
            match answer {
                Ok(set) => {
                    self.recovered();
                    if self.set.as_ref() != Some(&set) {
                        return self.take(set);
                    }
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    /// Lets the others know that this node goes; see [`Source::leave`].
    pub async fn leave(&mut self) {
        self.source.leave().await;
    }

    fn take(&mut self, mut set: Vec<PeerInfo>) -> Vec<PeerInfo> {
        // What a source promises; cheap to hold it to that.
        if !set.is_sorted() {
            set.sort();
        }
        set.dedup_by(|later, earlier| later.grpc_address == earlier.grpc_address);
        let before = self.set.as_ref().map_or(0, Vec::len);
        // Whoever takes it tells people, and not each time.
        tracing::debug!(source = self.source.kind(), before, now = set.len(), "the set of peers changed");
        self.set = Some(set.clone());
        let mut status = self.status.lock();
        status.peers = set.len();
        status.changed = Some(Instant::now());
        set
    }

    fn recovered(&mut self) {
        self.failures = 0;
        if let Some(failing) = self.status.lock().failing.take() {
            let seconds = failing.since.elapsed().as_secs();
            tracing::info!(source = self.source.kind(), seconds, "the source of peers answers again");
        }
    }

    fn failed(&mut self, error: &SourceError) {
        self.failures = self.failures.saturating_add(1);
        let now = Instant::now();
        let wait = match error.retry_after {
            Some(wait) => wait.max(BACKOFF_MIN),
            None => backoff(self.failures, &mut self.rng),
        };
        self.retry_at = Some(now + wait);
        let mut status = self.status.lock();
        status.failures = status.failures.saturating_add(1);
        let peers = status.peers;
        match &mut status.failing {
            Some(failing) if failing.message == error.message => {
                failing.times = failing.times.saturating_add(1);
            }
            failing => {
                let (since, times) = failing.as_ref().map_or((now, 0), |before| (before.since, before.times));
                *failing =
                    Some(Failure { message: error.message.clone(), since, times: times.saturating_add(1) });
                let source = self.source.kind();
                match peers {
                    0 => tracing::warn!(source, "no peers yet: {error}; trying again"),
                    _ => tracing::warn!(source, peers, "the peers stay as they were: {error}; trying again"),
                }
            }
        }
    }
}

/// The wait after so many failures in a row, at least one.
fn backoff(failures: u32, rng: &mut SplitMix64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let longest = BACKOFF_FIRST.saturating_mul(1 << doublings).min(BACKOFF_MAX);
    let millis = longest.as_millis() as u64;
    Duration::from_millis(rng.random_range(millis / 2..=millis))
}

/// How a source is doing, as long as anybody asks.
#[derive(Clone, Debug)]
pub struct Status(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    kind: &'static str,
    origin: String,
    peers: usize,
    changed: Option<Instant>,
    failing: Option<Failure>,
    failures: u64,
}

#[derive(Debug)]
struct Failure {
    message: String,
    since: Instant,
    times: u64,
}

/// How a source is doing now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// `static`, `file`, `dns`.
    pub kind: &'static str,
    /// What it goes by: a file's name, the names that are looked up.
    pub origin: String,
    /// Peers of the set in force; 0 before the first.
    pub peers: usize,
    /// Time since the set in force came; `None` before the first.
    pub age: Option<Duration>,
    /// The failure that goes on; `None` while all is well. The set in force may be this stale.
    pub failing: Option<Failing>,
    /// Failures since the start.
    pub failures: u64,
}

/// A failure that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The last error, for people.
    pub message: String,
    /// Time since the first failure after the last good answer.
    pub lasting: Duration,
    /// Failures in that time.
    pub times: u64,
}

impl Status {
    /// What there is to say now.
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.lock();
        Snapshot {
            kind: inner.kind,
            origin: inner.origin.clone(),
            peers: inner.peers,
            age: inner.changed.map(|at| at.elapsed()),
            failing: inner.failing.as_ref().map(|failure| Failing {
                message: failure.message.clone(),
                lasting: failure.since.elapsed(),
                times: failure.times,
            }),
            failures: inner.failures,
        }
    }

    /// Nothing is done under the lock that could leave it half changed.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::time::timeout;

    use super::*;
    use crate::source::NextPeers;

    type Answer = Result<Vec<PeerInfo>, SourceError>;

    /// Answers what it was told to, then stays pending; notes when it was asked.
    #[derive(Debug)]
    struct Script {
        answers: VecDeque<Answer>,
        asked: Arc<Mutex<Vec<Instant>>>,
    }

    impl Source for Script {
        fn kind(&self) -> &'static str {
            "script"
        }

        fn origin(&self) -> String {
            "the script".to_owned()
        }

        fn next(&mut self) -> NextPeers<'_> {
            Box::pin(async {
                self.asked.lock().unwrap().push(Instant::now());
                match self.answers.pop_front() {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn set(addresses: &[&str]) -> Vec<PeerInfo> {
        addresses.iter().copied().map(PeerInfo::new).collect()
    }

    fn script(answers: impl IntoIterator<Item = Answer>) -> (Recover, Arc<Mutex<Vec<Instant>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let source = Script { answers: answers.into_iter().collect(), asked: asked.clone() };
        (Recover::new(Box::new(source), 7), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_source_is_asked_again_within_five_seconds_and_less_often_with_time() {
        let (mut recover, asked) = script((0..12).map(|_| Err(SourceError::new("down"))));
        assert!(timeout(Duration::from_secs(60), recover.next()).await.is_err());
        let asked = asked.lock().unwrap();
        let waits: Vec<_> = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
        assert_eq!(waits.len(), 12);
        for (number, (wait, longest)) in
            waits.iter().zip([500, 1000, 2000, 4000].into_iter().chain([5000; 8])).enumerate()
        {
            // Timers have a grain of a millisecond.
            assert!((longest / 2..=longest + 1).contains(wait), "wait {number} of {waits:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_follow_the_seed() {
        let waits = |seed| {
            let mut rng = SplitMix64::seed_from_u64(seed);
            (1..9).map(|failures| backoff(failures, &mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        assert!(backoff(u32::MAX, &mut SplitMix64::seed_from_u64(1)) <= BACKOFF_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_set_is_held_back_and_reported() {
        let (mut recover, _) = script([Ok(vec![]), Ok(set(&["a:1"])), Ok(vec![]), Ok(vec![])]);
        let status = recover.status();
        assert_eq!(recover.next().await, set(&["a:1"]));
        assert_eq!(status.snapshot().failing, None);
        assert!(timeout(Duration::from_secs(20), recover.next()).await.is_err());
        let snapshot = status.snapshot();
        assert_eq!((snapshot.peers, snapshot.failures), (1, 3));
        let failing = snapshot.failing.unwrap();
        assert_eq!((failing.message.as_str(), failing.times), ("the script has no peers", 2));
        assert_eq!(failing.lasting, Duration::from_secs(20));
        assert_eq!(snapshot.age, Some(Duration::from_secs(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_set_is_no_news_but_ends_a_failure() {
        let (mut recover, _) =
            script([Ok(set(&["a:1"])), Err(SourceError::new("down")), Ok(set(&["a:1"])), Ok(set(&["b:1"]))]);
        let status = recover.status();
        recover.next().await;
        assert_eq!(recover.next().await, set(&["b:1"]));
        let snapshot = status.snapshot();
        assert_eq!((snapshot.failing, snapshot.failures, snapshot.age), (None, 1, Some(Duration::ZERO)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_paces_itself_is_asked_soon_but_never_spins() {
        let (mut recover, asked) = script((0..10).map(|_| Err(SourceError::paced("down"))));
        assert!(timeout(Duration::from_secs(60), recover.next()).await.is_err());
        let asked = asked.lock().unwrap();
        assert!(asked.windows(2).all(|pair| {
            let wait = pair[1] - pair[0];
            (BACKOFF_MIN..BACKOFF_MIN * 2).contains(&wait)
        }));
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_a_call_loses_nothing_and_keeps_the_pace() {
        let (mut recover, asked) = script([Err(SourceError::new("down")), Ok(set(&["a:1"]))]);
        let mut tries = 0;
        let found = loop {
            tries += 1;
            if let Ok(found) = timeout(Duration::from_millis(10), recover.next()).await {
                break found;
            }
        };
        assert_eq!(found, set(&["a:1"]));
        assert!(tries > 20, "{tries}");
        assert_eq!(asked.lock().unwrap().len(), 2);
    }
}
