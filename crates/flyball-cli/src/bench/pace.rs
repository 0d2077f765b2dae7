//! When calls are sent.
//!
//! *Closed loop*: each of a fixed number of callers sends its next call when it has the answer to the last. It
//! finds the throughput of a node, but its latencies flatter: a node that stalls is asked less while it stalls.
//!
//! *Open loop*: call *n* is meant for `n / rate` after the start, whatever the answers do, as the calls of
//! many independent clients are. Latency counts from that intended moment, so a stall is felt by every call
//! that was due during it, also by those that had to queue in the generator (*coordinated omission* is the
//! name for forgetting them).
//!
//! Both are one mechanism: callers take tickets from a [`Gate`]. In open loop a ticket also needs a permit, and
//! the pacer issues permits as calls fall due. What is due and not yet taken is one number, so a node that
//! never answers costs no memory. The pacer is a thread because the runtime's timer ticks in milliseconds and
//! thirty calls at once are not thirty calls in a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// The fixed rate of an open loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Calls per second, above 0.
    pub(crate) rate: u64,
}

const SECOND: u128 = 1_000_000_000;

impl Schedule {
    /// When call number `call` is meant to be sent, counted from the start.
    pub(crate) fn intended(self, call: u64) -> Duration {
        let nanos = (u128::from(call) * SECOND).div_ceil(u128::from(self.rate));
        Duration::new(
            u64::try_from(nanos / SECOND).unwrap_or(u64::MAX),
            u32::try_from(nanos % SECOND).unwrap_or(0),
        )
    }

    /// How many calls are meant to have been sent when `elapsed` has passed.
    pub(crate) fn due(self, elapsed: Duration) -> u64 {
        let whole = elapsed.as_nanos().saturating_mul(u128::from(self.rate)) / SECOND;
        u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// How many calls a run of `time` has.
    pub(crate) fn calls_in(self, time: Duration) -> u64 {
        let calls = time.as_nanos().saturating_mul(u128::from(self.rate)).div_ceil(SECOND);
        u64::try_from(calls).unwrap_or(u64::MAX)
    }
}

/// How long a phase of a run is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// This long.
    Time(Duration),
    /// So many calls.
    Calls(u64),
}

/// The right to send one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Its number.
    pub(crate) call: u64,
    /// In open loop, when it should have been sent.
    pub(crate) intended: Option<Instant>,
}

/// Hands out the tickets of one phase.
#[derive(Debug)]
pub(crate) struct Gate {
    start: Instant,
    taken: AtomicU64,
    /// So many tickets at most.
    calls: u64,
    closed: AtomicBool,
    loop_: Loop,
}

#[derive(Debug)]
enum Loop {
    /// No tickets from this moment on.
    Closed { until: Option<Instant> },
    Open {
        schedule: Schedule,
        permits: Semaphore,
        issued: AtomicU64,
        pacer: std::sync::OnceLock<thread::Thread>,
    },
}

impl Gate {
    /// Opens a phase now. In open loop the calls that are due at its end and not sent get `patience` more.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) fn open(
        schedule: Option<Schedule>,
        length: Length,
        patience: Duration,
    ) -> std::io::Result<Arc<Self>> {
        let start = Instant::now();
        let (calls, loop_) = match (schedule, length) {
            (None, Length::Calls(calls)) => (calls, Loop::Closed { until: None }),
            (None, Length::Time(time)) => (u64::MAX, Loop::Closed { until: start.checked_add(time) }),
            (Some(schedule), length) => {
                let calls = match length {
                    Length::Calls(calls) => calls,
                    Length::Time(time) => schedule.calls_in(time),
                };
                // Far below what a semaphore can hold, far above what a run can send.
                let calls = calls.min(1 << 60);
                let (permits, issued) = (Semaphore::new(0), AtomicU64::new(0));
                (calls, Loop::Open { schedule, permits, issued, pacer: std::sync::OnceLock::new() })
            }
        };
        let gate =
            Arc::new(Self { start, taken: AtomicU64::new(0), calls, closed: AtomicBool::new(false), loop_ });
        if let Loop::Open { schedule, pacer, .. } = &gate.loop_ {
            let (schedule, paced) = (*schedule, Arc::clone(&gate));
            let thread = thread::Builder::new().name("pacer".to_owned());
            let handle = thread.spawn(move || paced.pace(schedule, patience))?;
            let _ = pacer.set(handle.thread().clone());
        }
        Ok(gate)
    }

    /// The next ticket, when it is due; `None` when the phase is over.
    pub(crate) async fn ticket(&self) -> Option<Ticket> {
        match &self.loop_ {
            Loop::Closed { until } => {
                let over = until.is_some_and(|until| Instant::now() >= until);
                if over || self.closed.load(Ordering::Relaxed) {
                    return None;
                }
                let call = self.taken.fetch_add(1, Ordering::Relaxed);
                (call < self.calls).then_some(Ticket { call, intended: None })
            }
            Loop::Open { schedule, permits, .. } => {
                permits.acquire().await.ok()?.forget();
                let call = self.taken.fetch_add(1, Ordering::Relaxed);
                if call + 1 == self.calls {
                    self.close();
                }
                Some(Ticket { call, intended: self.start.checked_add(schedule.intended(call)) })
            }
        }
    }

    /// Ends the phase: no more tickets.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Loop::Open { permits, pacer, .. } = &self.loop_ {
            permits.close();
            if let Some(pacer) = pacer.get() {
                pacer.unpark();
            }
        }
    }

    /// Open loop: how many calls fell due and were never sent.
    pub(crate) fn unsent(&self) -> u64 {
        match &self.loop_ {
            Loop::Closed { .. } => 0,
            Loop::Open { issued, .. } => {
                issued.load(Ordering::Relaxed).saturating_sub(self.taken.load(Ordering::Relaxed))
            }
        }
    }

    /// The pacer: issues permits until all calls were due, then waits out the patience and closes.
    fn pace(&self, schedule: Schedule, patience: Duration) {
        let Loop::Open { permits, issued, .. } = &self.loop_ else { return };
        let last = schedule.intended(self.calls).saturating_add(patience);
        while !self.closed.load(Ordering::Relaxed) {
            let elapsed = self.start.elapsed();
            let before = issued.load(Ordering::Relaxed);
            let due = schedule.due(elapsed).min(self.calls);
            if due > before {
                issued.store(due, Ordering::Relaxed);
                permits.add_permits(usize::try_from(due - before).unwrap_or(Semaphore::MAX_PERMITS));
            }
            let wake = if due < self.calls { schedule.intended(due) } else { last };
            if elapsed >= last {
                self.close();
            } else {
                thread::park_timeout(wake.saturating_sub(elapsed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_evenly_spaced() {
        let schedule = Schedule { rate: 1_000 };
        assert_eq!(schedule.intended(0), Duration::ZERO);
        assert_eq!(schedule.intended(1), Duration::from_millis(1));
        assert_eq!(schedule.intended(60_000), Duration::from_secs(60));
        // No drift, however far: a rate that does not divide the second stays exact on whole seconds.
        let schedule = Schedule { rate: 7 };
        assert_eq!(schedule.intended(7 * 86_400 * 365), Duration::from_secs(86_400 * 365));
    }

    #[test]
    fn a_call_is_due_at_its_moment_and_not_before() {
        for rate in [1, 3, 7, 1_000, 33_333, 999_999_999] {
            let schedule = Schedule { rate };
            for call in [0, 1, 2, 10, 12_345, 1 << 40] {
                let intended = schedule.intended(call);
                assert!(schedule.due(intended) > call, "rate {rate}, call {call}");
                if let Some(before) = intended.checked_sub(Duration::from_nanos(1)) {
                    assert!(schedule.due(before) <= call, "rate {rate}, call {call}");
                }
            }
        }
    }

    #[test]
    fn a_run_has_rate_times_time_calls() {
        assert_eq!(Schedule { rate: 500 }.calls_in(Duration::from_secs(2)), 1_000);
        assert_eq!(Schedule { rate: 3 }.calls_in(Duration::from_millis(500)), 2);
        assert_eq!(Schedule { rate: u64::MAX }.calls_in(Duration::MAX), u64::MAX);
        assert_eq!(Schedule { rate: u64::MAX }.due(Duration::MAX), u64::MAX);
    }

    #[tokio::test]
    async fn an_open_gate_gives_every_ticket_once_with_its_moment() {
        let schedule = Schedule { rate: 10_000 };
        let gate = Gate::open(Some(schedule), Length::Calls(50), Duration::from_secs(60)).unwrap();
        for call in 0..50 {
            let ticket = gate.ticket().await.unwrap();
            assert_eq!(ticket.call, call);
            assert_eq!(ticket.intended, Some(gate.start + schedule.intended(call)));
        }
        assert!(gate.ticket().await.is_none());
        assert_eq!(gate.unsent(), 0);
    }

    #[tokio::test]
    async fn no_ticket_comes_before_its_moment() {
        let gate =
            Gate::open(Some(Schedule { rate: 200 }), Length::Calls(10), Duration::from_secs(60)).unwrap();
        while let Some(ticket) = gate.ticket().await {
            assert!(Instant::now() >= ticket.intended.unwrap());
        }
    }

    #[tokio::test]
    async fn what_is_due_and_never_taken_is_counted() {
        let gate = Gate::open(Some(Schedule { rate: 100_000 }), Length::Calls(20), Duration::ZERO).unwrap();
        // Nobody takes a ticket, so the pacer closes the gate when its patience ends.
        let Loop::Open { permits, .. } = &gate.loop_ else { panic!("an open loop") };
        while !permits.is_closed() {
            tokio::task::yield_now().await;
        }
        assert!(gate.ticket().await.is_none());
        assert_eq!(gate.unsent(), 20);
    }

    #[tokio::test]
    async fn a_closed_loop_ends_by_count_by_time_and_by_hand() {
        let counted = Gate::open(None, Length::Calls(2), Duration::ZERO).unwrap();
        assert!(counted.ticket().await.is_some() && counted.ticket().await.is_some());
        assert!(counted.ticket().await.is_none());
        let timed = Gate::open(None, Length::Time(Duration::ZERO), Duration::ZERO).unwrap();
        assert!(timed.ticket().await.is_none());
        let stopped = Gate::open(None, Length::Time(Duration::MAX), Duration::ZERO).unwrap();
        assert!(stopped.ticket().await.is_some_and(|ticket| ticket.intended.is_none()));
        stopped.close();
        assert!(stopped.ticket().await.is_none());
    }
}
