//! Where hyper's HTTP/2 server runs the calls of a connection: where they are, if they can.
//!
//! Most calls are a small message that has arrived whole by the time its headers are seen, and a decision takes
//! less than handing a task to another thread. So a call is polled once on the spot, within the connection's own
//! task, and only if it has to wait does it become a task. That saves the task, its queue and a wake-up of
//! another thread for each call.
//!
//! Large calls must not keep the connection's other calls waiting: they step back before they decide (see
//! `flyball::grpc`), and so become tasks that other threads can take.
//!
//! The first poll uses a waker that does nothing; the task polls again at once and registers its own.

use std::future::Future;
use std::task::{Context, Waker};

use hyper::rt::Executor;

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnTheSpot;

impl<F> Executor<F> for OnTheSpot
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut call = Box::pin(call);
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_call_that_need_not_wait_is_done_at_once() {
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        OnTheSpot.execute(async move { flag.store(true, Ordering::SeqCst) });
        assert!(done.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_call_that_waits_or_steps_back_becomes_a_task() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let (answer, answered) = tokio::sync::oneshot::channel();
        OnTheSpot.execute(async move {
            tokio::task::yield_now().await;
            let heard: u32 = told.await.expect("the sender waits for the answer");
            answer.send(heard).expect("the receiver waits");
        });
        tell.send(7).expect("the call waits");
        assert_eq!(answered.await, Ok(7));
    }
}
