//! Ends batch windows on time.
//!
//! A window is 500 us; the runtime's timers count milliseconds, so a check could wait for three times as long as
//! it may. A thread that sleeps until the next window ends is good to some 50 us, costs nothing while
//! no window is open, and wakes at most once per window of a peer. Nearly all windows are over before, because an answer
//! came or a message was full; the thread then finds nothing to do.
//!
//! Rejected: a timer of the operating system on the runtime's event loop (one more descriptor and two system calls per
//! window, on Linux only), and spinning.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

/// Something that waits for a moment.
pub(crate) trait Timed: Send + Sync {
    /// The moment is here.
    fn is_over(self: Arc<Self>);
}

struct Entry<T> {
    at: Reverse<Instant>,
    target: Weak<T>,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

struct State<T> {
    /// At most one entry per open window, so at most one per peer and a few that are over already.
    waiting: BinaryHeap<Entry<T>>,
    running: bool,
    stopped: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// See [the module](self). The thread starts with the first window and ends when this is dropped.
pub(crate) struct Timer<T: Timed + 'static>(Arc<Shared<T>>);

impl<T: Timed> std::fmt::Debug for Timer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

impl<T: Timed> Default for Timer<T> {
    fn default() -> Self {
        let state = State { waiting: BinaryHeap::new(), running: false, stopped: false };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }
}

impl<T: Timed> Timer<T> {
    /// Calls `target` at `at`, unless it is gone by then.
    pub(crate) fn arm(&self, at: Instant, target: &Arc<T>) {
        let mut state = self.0.lock();
        let first = state.waiting.peek().is_none_or(|next| at < next.at.0);
        state.waiting.push(Entry { at: Reverse(at), target: Arc::downgrade(target) });
        if !state.running {
            state.running = true;
            let shared = Arc::clone(&self.0);
            let started =
                thread::Builder::new().name("flyball-windows".to_owned()).spawn(move || shared.run());
            if let Err(error) = started {
                // The answer of the batch under way, or its timeout, sends what is gathered.
                tracing::warn!(%error, "no thread for batch windows: checks may wait for longer than the window");
                state.running = false;
                state.waiting.clear();
            }
        } else if first {
            self.0.changed.notify_one();
        }
    }
}

impl<T: Timed> Drop for Timer<T> {
    fn drop(&mut self) {
        self.0.lock().stopped = true;
        self.0.changed.notify_one();
    }
}

impl<T: Timed> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.stopped {
            let now = Instant::now();
            match state.waiting.peek().map(|next| next.at.0) {
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) if at > now => {
                    let waited = self.changed.wait_timeout(state, at - now);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(_) => {
                    let target = state.waiting.pop().and_then(|entry| entry.target.upgrade());
                    drop(state);
                    if let Some(target) = target {
                        target.is_over();
                    }
                    state = self.lock();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use super::*;

    struct Bell(u8, Mutex<Sender<(u8, Instant)>>);

    impl Timed for Bell {
        fn is_over(self: Arc<Self>) {
            self.1.lock().unwrap().send((self.0, Instant::now())).unwrap();
        }
    }

    #[test]
    fn bells_ring_in_order_and_never_early() {
        let (sender, rung) = channel();
        let timer = Timer::default();
        let start = Instant::now();
        let bells: Vec<_> = [(3, 30), (1, 10), (2, 20)]
            .map(|(number, ms)| {
                let bell = Arc::new(Bell(number, Mutex::new(sender.clone())));
                timer.arm(start + Duration::from_millis(ms), &bell);
                (bell, ms)
            })
            .into();
        let gone = Arc::new(Bell(9, Mutex::new(sender)));
        timer.arm(start + Duration::from_millis(5), &gone);
        drop(gone);
        for expected in 1..=3_u8 {
            let (number, at) = rung.recv_timeout(Duration::from_secs(10)).unwrap();
            assert_eq!(number, expected, "who is gone does not ring");
            assert!(at >= start + Duration::from_millis(10 * u64::from(number)));
        }
        drop((timer, bells));
    }
}
