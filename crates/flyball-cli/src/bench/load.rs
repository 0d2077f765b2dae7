//! The callers: who sends the calls, over which connections.
//!
//! A *caller* has one call at a time under way; `--concurrency` of them are the most that can be. Callers are
//! dealt out over the connections. A gRPC connection carries the calls of all its callers, an HTTP/1.1
//! connection has one caller.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::pace::{Gate, Length, Schedule};
use super::questions::Questions;
use super::tally::Tally;
use super::wire::{Failure, Sender, Target, Verdicts};

/// Between two attempts to open a connection that cannot be opened.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How long calls under way may still take after an interruption.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);

/// One connection and the callers' way to it.
#[derive(Debug)]
struct Lane {
    target: Arc<Target>,
    sender: tokio::sync::Mutex<Option<Sender>>,
}

impl Lane {
    /// A share in the connection, which is opened when there is none. Callers that wait here wait for one
    /// attempt after the other, so a node that is away is not stormed.
    async fn sender(&self) -> Result<Sender, Failure> {
        let mut slot = self.sender.lock().await;
        if let Some(open) = slot.take().filter(|sender| !sender.is_closed()) {
            *slot = open.share();
            return Ok(open);
        }
        match self.target.connect().await {
            Ok(open) => {
                *slot = open.share();
                Ok(open)
            }
            Err(failure) => {
                tokio::time::sleep(RECONNECT_PAUSE).await;
                Err(failure)
            }
        }
    }

    /// Sends a call with the caller's sender, or a new one.
    async fn call(&self, mine: &mut Option<Sender>, body: Bytes, items: usize) -> Result<Verdicts, Failure> {
        let mut sender = match mine.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.sender().await?,
        };
        let outcome = self.target.call(&mut sender, body, items).await;
        // When the caller gives up in the middle, the sender is dropped here: an HTTP/1.1 connection with half
        // an answer on it is of no more use.
        *mine = Some(sender);
        outcome
    }

    /// A caller is done; the next phase may go on with its connection.
    async fn put_back(&self, sender: Option<Sender>) {
        if sender.is_some() {
            *self.sender.lock().await = sender;
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
        let lane = || Arc::new(Lane { target: Arc::clone(&target), sender: tokio::sync::Mutex::new(None) });
        Self {
            lanes: (0..plan.connections.max(1)).map(|_| lane()).collect(),
            questions: Arc::new(plan.questions),
            schedule: plan.schedule,
            callers: plan.callers,
            timeout: plan.timeout,
            tallies: plan.threads.max(1),
        }
    }

    /// Makes sure that there is a node, by opening the first connection.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) async fn reach(&self) -> Result<(), Failure> {
        let lane = &self.lanes[0];
        let sender =
            tokio::time::timeout(self.timeout, lane.sender()).await.unwrap_or(Err(Failure::Timeout))?;
        lane.put_back(Some(sender)).await;
        Ok(())
    }

    /// Runs a phase to its end or until the user interrupts it. `show` is called a few times a second.
    ///
    /// # Errors
    /// The operating system refuses a thread or a signal handler.
    pub(crate) async fn phase(
        &self,
        length: Length,
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
        loop {
            tokio::select! {
                ended = callers.join_next() => match ended {
                    None => break,
                    Some(Err(error)) if !error.is_cancelled() => return Err(error.into()),
                    Some(_) => {}
                },
                signal = tokio::signal::ctrl_c() => {
                    signal.context("cannot wait for Ctrl-C")?;
                    gate.close();
                    if interrupted {
                        callers.abort_all();
                    }
                    interrupted = true;
                }
                _ = ticks.tick() => show(glance(start.elapsed(), &tallies)),
                () = tokio::time::sleep(INTERRUPT_GRACE), if interrupted => callers.abort_all(),
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
        let lag = ticket.intended.map(|intended| sent.saturating_duration_since(intended));
        tally.lock().unwrap_or_else(PoisonError::into_inner).record(outcome, latency, lag);
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
