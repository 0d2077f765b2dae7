//! The only place where tests of this crate wait by the real clock: for another process to become ready or to
//! end, for a recorded scenario that is about real time, and for what a real component does in its own time.
//! Everything else passes a fake clock to a node.

use std::time::{Duration, Instant};

use crate::conformance::attempt::now_ms;

/// Sleeps for so many milliseconds; not at all for a negative number.
#[expect(clippy::disallowed_methods, reason = "waits for another process or for recorded real time")]
pub fn sleep_ms(ms: i64) {
    std::thread::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
}

/// Sleeps until the real clock shows `at` Unix milliseconds.
pub fn sleep_until_ms(at: i64) {
    loop {
        let left = at - now_ms();
        if left <= 0 {
            return;
        }
        sleep_ms(left);
    }
}

/// Asks every 10 ms, for at most `most`, until there is an answer.
pub fn poll<T>(most: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + most;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        sleep_ms(10);
    }
}
