//! Frees expired buckets in the background.
//!
//! The task holds the store, never the node: when the last handle of the node is dropped, its guard cancels
//! the token and the task ends.
//!
//! A sweep goes in steps of well under a millisecond, and between two of them the worker's other tasks have their
//! turn: windows aligned to the calendar let a million keys expire at once.

use std::sync::Arc;
use std::time::Duration;

use flyball_core::store::Store;
use flyball_core::time::Clock;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::fallback::Fallback;

/// How often. An expired bucket counts as absent at once; this is only about its memory.
const EVERY: Duration = Duration::from_millis(250);

/// Starts the task on the current runtime, if there is one.
pub(crate) fn spawn(
    store: Arc<Store>,
    fallback: Arc<Fallback>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) {
    let Ok(runtime) = Handle::try_current() else {
        tracing::warn!("no tokio runtime: expired buckets are freed only when room is needed");
        return;
    };
    runtime.spawn(async move {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let now = clock.now();
            let mut sweep = store.begin_sweep(now);
            while sweep.step() && !stop.is_cancelled() {
                yield_now().await;
            }
            fallback.sweep(now);
        }
    });
}
