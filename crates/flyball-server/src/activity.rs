//! What goes on on one connection, so that a stop can tell a client worth waiting for from one that is gone.
//!
//! A graceful stop waits for open calls. A connection without one should end by itself, but only if the client
//! does its part: over HTTP/2 it has to answer the ping that belongs to the GOAWAY, over HTTP/1 it has to finish
//! the header section it began. One that lost its network, or never meant to, would cost every stop the whole
//! bound; [`Activity::abandoned`] finds those.
//!
//! The connection's stream is watched by [`Watched`], its service by [`Counted`]; both report to the same
//! [`Activity`]. An open call is counted until its answer's body is dropped. An answer may then still wait in the
//! stream for a slow reader, which is why a blocked writer counts as busy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How often a stop looks; a connection must look abandoned twice in a row.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// One connection's doings. Clones are the same connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<State>);

#[derive(Debug, Default)]
struct State {
    open_calls: AtomicUsize,
    /// The client sent something since this was last cleared.
    heard: AtomicBool,
    /// The client does not take what we have for it.
    blocked: AtomicBool,
}

impl Activity {
    /// Ends, after a second, when from now on the client says nothing while no call of its is open and no answer
    /// waits for it. Never ends for a client that says anything: its connection ends by itself.
    pub(crate) async fn abandoned(&self) {
        self.0.heard.store(false, Relaxed);
        let mut before = self.is_idle();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let idle = self.is_idle();
            if idle && before {
                return;
            }
            before = idle;
        }
    }

    fn is_idle(&self) -> bool {
        let state = &self.0;
        state.open_calls.load(Relaxed) == 0 && !state.heard.load(Relaxed) && !state.blocked.load(Relaxed)
    }

    fn open_call(&self) -> OpenCall {
        self.0.open_calls.fetch_add(1, Relaxed);
        OpenCall(self.clone())
    }
}

/// A call that is open for as long as this lives.
#[derive(Debug)]
struct OpenCall(Activity);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.0.open_calls.fetch_sub(1, Relaxed);
    }
}

/// A stream that tells when the client speaks and when it does not listen.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    pub(crate) stream: T,
    pub(crate) activity: Activity,
}

impl<T> Watched<T> {
    fn wrote<R>(&self, outcome: Poll<R>) -> Poll<R> {
        self.activity.0.blocked.store(outcome.is_pending(), Relaxed);
        outcome
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.0.heard.store(true, Relaxed);
        }
        outcome
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A service that counts its open calls.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    pub(crate) service: S,
    pub(crate) activity: Activity,
}

impl<S, B> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Unpin,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = CountedCall<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let open = Some(self.activity.open_call());
        CountedCall { answer: self.service.call(request), open }
    }
}

/// An answer on its way.
#[derive(Debug)]
pub(crate) struct CountedCall<F> {
    answer: F,
    open: Option<OpenCall>,
}

impl<F, B, E> Future for CountedCall<F>
where
    F: Future<Output = Result<Response<B>, E>> + Unpin,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.answer).poll(cx));
        let open = self.open.take();
        Poll::Ready(answer.map(|answer| answer.map(|body| CountedBody { body, _open: open })))
    }
}

/// The body of a counted call's answer.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    body: B,
    _open: Option<OpenCall>,
}

impl<B: Body + Unpin> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn only_a_silent_connection_without_calls_is_abandoned() {
        let activity = Activity::default();
        timeout(LONG, activity.abandoned()).await.expect("nothing is open");

        let call = activity.open_call();
        timeout(LONG, activity.abandoned()).await.expect_err("a call is open");
        drop(call);
        timeout(LONG, activity.abandoned()).await.expect("and now none is");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_speaks_or_still_reads_is_waited_for() {
        let activity = Activity::default();
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = Watched { stream: ours, activity: activity.clone() };
        let abandoned = activity.abandoned();
        tokio::pin!(abandoned);
        let _ = timeout(Duration::ZERO, abandoned.as_mut()).await;
        theirs.write_all(b"pong").await.unwrap();
        ours.read_exact(&mut [0; 4]).await.unwrap();
        timeout(LONG, abandoned).await.expect_err("it answered");

        let _ = timeout(Duration::ZERO, ours.write_all(b"more than fits")).await;
        timeout(LONG, activity.abandoned()).await.expect_err("an answer waits for it");
    }
}
