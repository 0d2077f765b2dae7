//! The one place that knows which mutex guards a shard: std's, or shuttle's when a test explores
//! interleavings.

#[cfg(feature = "shuttle")]
use shuttle::sync as imp;
#[cfg(not(feature = "shuttle"))]
use std::sync as imp;

pub(super) use imp::MutexGuard;

/// A mutex that ignores poisoning: shard methods keep no broken state behind a panic of their caller, and
/// one failed call must not take a part of all keys with it.
///
/// Aligned to two cache lines, so that neighbouring locks do not slow each other down (CPUs prefetch lines
/// in pairs).
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
