//! The callers: who sends the calls, over which connections.
//!
//! A *caller* has one call at a time under way; `--concurrency` of them are the most that can be. Callers are
//! dealt out over the connections. A gRPC connection carries the calls of all its callers, an HTTP/1.1
//! connection has one caller.
//!
//! A node that is away must neither be stormed nor make calls look slow. So a lane opens a new connection at once
//! only when the last one has answered a call, otherwise at most every `RECONNECT_PAUSE`; calls in between fail
//! at once, all callers of the lane together. Nobody sleeps within a call: in open loop the next call has its
//! own moment, and in closed loop the caller pauses between two calls.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use flyball_server::shutdown::Signals;
use tokio::task::JoinSet;

use super::pace::{Gate, Length, Schedule};
use super::questions::Questions;
use super::tally::Tally;
use super::wire::{Failure, Sender, Target, Verdicts};

/// Between two attempts to open a connection that cannot be opened, or that never answers.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How long calls under way may still take after an interruption.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);

/// One connection and the callers' way to it.
#[derive(Debug)]
struct Lane {
    target: Arc<Target>,
    slot: tokio::sync::Mutex<Slot>,
    /// The node has answered since the last connection was opened, and has not dropped a call since.
    answers: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    /// What a caller without a connection takes its share from.
    sender: Option<Sender>,
    /// When the last attempt to open a connection ended, and how it failed, if it did.
    attempt: Option<(tokio::time::Instant, Option<Failure>)>,
}

impl Lane {
    fn new(target: Arc<Target>) -> Self {
        Self { target, slot: tokio::sync::Mutex::default(), answers: AtomicBool::new(false) }
    }

    /// A share in the connection, which is opened when there is none. Callers that waited here for an attempt that
    /// failed share its failure.
    async fn sender(&self) -> Result<Sender, Failure> {
        let mut slot = self.slot.lock().await;
        if let Some(open) = slot.sender.take().filter(|sender| !sender.is_closed()) {
            slot.sender = open.share();
            return Ok(open);
        }
        if let Some((ended, failure)) = slot.attempt
            && ended.elapsed() < RECONNECT_PAUSE
            && !self.answers.load(Ordering::Relaxed)
        {
            return Err(failure.unwrap_or(Failure::Lost));
        }
        let outcome = self.target.connect().await;
        self.answers.store(false, Ordering::Relaxed);
        slot.attempt = Some((tokio::time::Instant::now(), outcome.as_ref().err().copied()));
        slot.sender = outcome.as_ref().ok().and_then(Sender::share);
        outcome
    }

    /// Sends a call with the caller's sender, or a new one.
    async fn call(&self, mine: &mut Option<Sender>, body: Bytes, items: usize) -> Result<Verdicts, Failure> {
        let mut sender = match mine.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.sender().await?,
        };
        let outcome = self.target.call(&mut sender, body, items).await;
        self.answers.store(!matches!(outcome, Err(Failure::Lost)), Ordering::Relaxed);
        // When the caller gives up in the middle, the sender is dropped here: an HTTP/1.1 connection with half
        // an answer on it is of no more use.
        *mine = Some(sender);
        outcome
    }

    /// A caller is done; the next phase may go on with its connection.
    async fn put_back(&self, sender: Option<Sender>) {
        if sender.is_some() {
            self.slot.lock().await.sender = sender;
        }
    }
}

/// What a phase brought.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
    pub(crate) unsent: u64,
    pub(crate) interrupted: bool,
}

/// All callers and what they ask.
#[derive(Debug)]
pub(crate) struct Load {
    lanes: Vec<Arc<Lane>>,
    questions: Arc<Questions>,
    schedule: Option<Schedule>,
    callers: usize,
    timeout: Duration,
    /// How many tallies are kept: one for each thread is enough to keep them from waiting for each other.
    tallies: usize,
}

/// What makes a [`Load`].
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) questions: Questions,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) callers: usize,
    pub(crate) connections: usize,
    /// For one call, the opening of its connection included.
    pub(crate) timeout: Duration,
    pub(crate) threads: usize,
}

/// A look at a phase that is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Glance {
    pub(crate) elapsed: Duration,
    pub(crate) calls: u64,
    pub(crate) decisions: u64,
    pub(crate) over_limit: u64,
    pub(crate) failed: u64,
}

impl Load {
    pub(crate) fn new(plan: Plan) -> Self {
        let target = Arc::new(plan.target);
        let lane = || Arc::new(Lane::new(Arc::clone(&target)));
        Self {
            lanes: (0..plan.connections.max(1)).map(|_| lane()).collect(),
            questions: Arc::new(plan.questions),
            schedule: plan.schedule,
            callers: plan.callers,
            timeout: plan.timeout,
            tallies: plan.threads.max(1),
        }
    }

    /// Makes sure that there is a node which answers: a call without items, which changes nothing there.
    ///
    /// # Errors
    /// It cannot be reached, or does not answer as a node does.
    pub(crate) async fn reach(&self) -> Result<(), Failure> {
        let (lane, mut sender) = (&self.lanes[0], None);
        let call = lane.call(&mut sender, self.questions.none(), 0);
        tokio::time::timeout(self.timeout, call).await.unwrap_or(Err(Failure::Timeout))?;
        lane.put_back(sender).await;
        Ok(())
    }

    /// Runs a phase to its end or until the user interrupts it. `show` is called a few times a second.
    ///
    /// After the first of `signals` no call is sent, and those under way have [`INTERRUPT_GRACE`]; the second cuts
    /// them.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) async fn phase(
        &self,
        length: Length,
        signals: &mut Signals,
        mut show: impl FnMut(Glance),
    ) -> anyhow::Result<Measured> {
        let gate = Gate::open(self.schedule, length, self.timeout).context("cannot start the pacer")?;
        let tallies = (0..self.tallies)
            .map(|_| Ok(Arc::new(Mutex::new(Tally::new()?))))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let start = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..self.callers {
            let lane = Arc::clone(&self.lanes[caller % self.lanes.len()]);
            let tally = Arc::clone(&tallies[caller % tallies.len()]);
            callers.spawn(call_on(Arc::clone(&gate), lane, Arc::clone(&self.questions), tally, self.timeout));
        }
        let mut ticks = tokio::time::interval(Duration::from_millis(200));
        let mut interrupted = false;
        let mut grace = pin!(tokio::time::sleep(INTERRUPT_GRACE));
        loop {
            tokio::select! {
                ended = callers.join_next() => match ended {
                    None => break,
                    Some(Err(error)) if !error.is_cancelled() => return Err(error.into()),
                    Some(_) => {}
                },
                _ = signals.next() => {
                    gate.close();
                    if interrupted {
                        callers.abort_all();
                    } else {
                        grace.as_mut().reset(tokio::time::Instant::now() + INTERRUPT_GRACE);
                    }
                    interrupted = true;
                }
                _ = ticks.tick() => show(glance(start.elapsed(), &tallies)),
                () = &mut grace, if interrupted => callers.abort_all(),
            }
        }
        let elapsed = start.elapsed();
        gate.close();
        let mut tally = Tally::new()?;
        for part in &tallies {
            tally.merge(&part.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
        Ok(Measured { tally, elapsed, unsent: gate.unsent(), interrupted })
    }
}

/// A caller: one call after the other until there are no more tickets.
async fn call_on(
    gate: Arc<Gate>,
    lane: Arc<Lane>,
    questions: Arc<Questions>,
    tally: Arc<Mutex<Tally>>,
    patience: Duration,
) {
    let mut sender = None;
    while let Some(ticket) = gate.ticket().await {
        let body = questions.body(ticket.call);
        let sent = Instant::now();
        let call = lane.call(&mut sender, body, questions.batch());
        let outcome = tokio::time::timeout(patience, call).await.unwrap_or(Err(Failure::Timeout));
        let latency = ticket.intended.unwrap_or(sent).elapsed();
        // A closed loop has no other brake when every call fails at once.
        let pause = ticket.intended.is_none() && matches!(outcome, Err(Failure::Lost | Failure::Connect(_)));
        let lag = ticket.intended.map(|intended| sent.saturating_duration_since(intended));
        tally.lock().unwrap_or_else(PoisonError::into_inner).record(outcome, latency, lag);
        if pause && !lane.answers.load(Ordering::Relaxed) {
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
    lane.put_back(sender).await;
}

fn glance(elapsed: Duration, tallies: &[Arc<Mutex<Tally>>]) -> Glance {
    tallies.iter().fold(Glance { elapsed, ..Glance::default() }, |sum, tally| {
        let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        Glance {
            elapsed,
            calls: sum.calls + tally.calls,
            decisions: sum.decisions + tally.verdicts.decisions,
            over_limit: sum.over_limit + tally.verdicts.over_limit,
            failed: sum.failed + tally.failed + tally.verdicts.refused,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicUsize;

    use super::super::wire::Protocol;
    use super::*;

    fn lane(protocol: Protocol, address: &str) -> Arc<Lane> {
        Arc::new(Lane::new(Arc::new(Target::new(protocol, address.to_owned(), None).unwrap())))
    }

    /// The outcomes of `callers` calls that are made at the same time.
    async fn calls(lane: &Arc<Lane>, callers: usize) -> Vec<Result<Verdicts, Failure>> {
        let mut tasks = JoinSet::new();
        for _ in 0..callers {
            let lane = Arc::clone(lane);
            tasks.spawn(async move { lane.call(&mut None, Bytes::new(), 0).await });
        }
        tasks.join_all().await
    }

    /// Accepts connections, counts them and closes them at once.
    fn slammer() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            while listener.accept().is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        (address, count)
    }

    // The clock of these tests moves only when somebody sleeps.
    #[tokio::test(start_paused = true)]
    async fn callers_of_a_node_that_is_away_share_one_failure_and_do_not_queue() {
        let deserted = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let lane = lane(Protocol::Grpc, &deserted);
        let before = tokio::time::Instant::now();
        let outcomes = calls(&lane, 200).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        let refused = Err(Failure::Connect(std::io::ErrorKind::ConnectionRefused));
        assert!(outcomes.iter().all(|outcome| *outcome == refused), "{outcomes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_that_closes_every_connection_is_not_stormed() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let (address, connections) = slammer();
            let lane = lane(protocol, &address);
            for attempt in 1..=3 {
                for _ in 0..50 {
                    assert_eq!(lane.call(&mut None, Bytes::new(), 0).await, Err(Failure::Lost));
                }
                // Accepting is the other thread's; it has at most what was opened.
                assert!(connections.load(Ordering::Relaxed) <= attempt);
                tokio::time::advance(RECONNECT_PAUSE).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_answered_is_replaced_at_once() {
        let (address, connections) = slammer();
        let lane = lane(Protocol::Http, &address);
        assert_eq!(lane.call(&mut None, Bytes::new(), 0).await, Err(Failure::Lost));
        lane.answers.store(true, Ordering::Relaxed);
        assert_eq!(lane.call(&mut None, Bytes::new(), 0).await, Err(Failure::Lost));
        while connections.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
    }
}
