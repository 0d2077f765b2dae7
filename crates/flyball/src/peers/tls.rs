//! TLS on connections to peers, as the node sees it: a stream goes in, a secured stream comes out.
//!
//! The node does not know certificates. Whoever embeds it may have its own way to get them (files, a mesh, an agent),
//! its own TLS library and its own rules for reloading, so the builder takes a [`PeerTls`] that is ready to use; the
//! daemon's is made of its settings. It is asked anew for each connection, so what it presents and whom it believes may
//! change while the node runs, and connections that are open go on.
//!
//! Rejected: taking a client configuration of one TLS library. It would tie every embedder to that library, to one
//! version of it and to one provider of its arithmetic, for the sake of one call that is virtual once per connection and
//! once per read or write. Connections without TLS do not come here: they are served as the type they are.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A secured stream.
pub trait PeerStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> PeerStream for T {}

/// What [`PeerTls::secure`] returns.
pub type Securing = Pin<Box<dyn Future<Output = io::Result<Box<dyn PeerStream>>> + Send>>;

/// Secures connections to peers; see [`NodeBuilder::peer_tls`](crate::NodeBuilder::peer_tls).
///
/// The protocol to negotiate (ALPN) is `h2`: servers of gRPC insist on it.
pub trait PeerTls: Send + Sync + fmt::Debug + 'static {
    /// Does the handshake on a connection that has just been opened to `host`, the host of the peer's address as it is
    /// known: a name, or an IP address without brackets. The node bounds the time that this may take.
    fn secure(&self, host: &str, stream: TcpStream) -> Securing;
}

/// A stream that tells once how the first read ended.
///
/// A server of TLS 1.3 judges the client's certificate when the client is already done with its handshake. Only what
/// comes first from the server tells whether it was accepted, and until then nothing was counted.
pub(crate) struct Heard<S> {
    stream: S,
    first: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
}

impl<S> Heard<S> {
    pub(crate) fn new(stream: S) -> (Self, oneshot::Receiver<Result<(), String>>) {
        let (sender, receiver) = oneshot::channel();
        (Self { stream, first: Mutex::new(Some(sender)) }, receiver)
    }

    fn tell(&mut self, heard: Result<(), String>) {
        let first = self.first.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(first) = first.take() {
            let _ = first.send(heard);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        let heard = match &outcome {
            Ok(()) if buf.filled().len() > before => Ok(()),
            Ok(()) => Err("the peer closed the connection without a word".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        self.tell(heard);
        Poll::Ready(outcome)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn the_first_word_is_told_and_so_is_silence() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (mut ours, heard) = Heard::new(ours);
        theirs.write_all(b"x").await.unwrap();
        ours.read_u8().await.unwrap();
        assert_eq!(heard.await.unwrap(), Ok(()));

        let (ours, theirs) = tokio::io::duplex(64);
        let (mut ours, heard) = Heard::new(ours);
        drop(theirs);
        ours.read_u8().await.unwrap_err();
        assert!(heard.await.unwrap().is_err());
    }
}
