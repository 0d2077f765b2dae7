//! Accepting connections when the system has none to give, and when the daemon stops.

use std::io;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Pause after the system refuses a new connection (out of file descriptors): the refusal comes again at once.
const PAUSE: Duration = Duration::from_millis(100);
/// At most one warning in this time: connections come and go while descriptors are short, so refusals alternate
/// with successes.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// A listener that does not give up.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    /// What is served, for the log.
    name: &'static str,
    warned: Option<Instant>,
}

impl Acceptor {
    pub(crate) const fn new(listener: TcpListener, name: &'static str) -> Self {
        Self { listener, name, warned: None }
    }

    /// The next connection. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return without_delay(stream),
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    if self.may_warn(Instant::now()) {
                        tracing::warn!(%error, "cannot accept {} connections; trying again every {PAUSE:?}", self.name);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Closes the port, and returns up to `max` connections that clients had already opened: the system would
    /// reset them together with the port.
    pub(crate) fn close(self, max: usize) -> Vec<TcpStream> {
        let mut queued = Vec::new();
        // Asks the system itself: the runtime may not have heard of the newest ones yet. Never blocks.
        let Ok(listener) = self.listener.into_std() else { return queued };
        while queued.len() < max {
            match listener.accept() {
                Ok((stream, _)) => {
                    let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                    queued.extend(stream.ok().map(without_delay));
                }
                Err(error) if is_the_clients(&error) => {}
                Err(_) => break,
            }
        }
        queued
    }

    fn may_warn(&mut self, now: Instant) -> bool {
        let may = self.warned.is_none_or(|warned| now.duration_since(warned) >= WARN_EVERY);
        if may {
            self.warned = Some(now);
        }
        may
    }
}

/// Answers are small and must not wait for company.
fn without_delay(stream: TcpStream) -> TcpStream {
    // Fails only for a connection that is already gone.
    let _ = stream.set_nodelay(true);
    stream
}

/// The client went away between the kernel's handshake and our accept.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn acceptor() -> (Acceptor, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Acceptor::new(listener, "test"), address)
    }

    #[tokio::test]
    async fn closing_hands_over_what_was_queued() {
        let (acceptor, address) = acceptor().await;
        let _clients = [(); 3].map(|()| std::net::TcpStream::connect(address).unwrap());
        assert_eq!(acceptor.close(2).len(), 2, "bounded");
        TcpStream::connect(address).await.expect_err("closed");
    }

    #[tokio::test]
    async fn warnings_are_ten_seconds_apart_whatever_happens_between() {
        let (mut acceptor, address) = acceptor().await;
        let start = Instant::now();
        assert!(acceptor.may_warn(start));
        let _client = TcpStream::connect(address).await.unwrap();
        acceptor.next().await;
        assert!(!acceptor.may_warn(start + WARN_EVERY / 2), "a success begins no new spell");
        assert!(acceptor.may_warn(start + WARN_EVERY));
    }
}
