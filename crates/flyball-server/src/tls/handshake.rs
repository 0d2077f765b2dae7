//! From an accepted connection to a secured one.
//!
//! A handshake is done in the task of its connection, so one that is slow keeps nobody from being accepted. It is
//! bounded in time, and so is the number under way: where there are too many, the *oldest* gives way, since an honest
//! client is done within a few round trips and who lingers is slow or hostile. Rejected: making newcomers wait, which
//! lets a few hundred silent connections close the port.
//!
//! A client that does not speak TLS is refused at its first byte. One that speaks HTTP to an HTTP port is told so, in
//! HTTP and in the original's words; nothing it asked is looked at.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;

/// A handshake takes an honest client a few round trips.
pub(super) const WITHIN: Duration = Duration::from_secs(10);
/// Handshakes under way on one port. Each holds some tens of kilobytes.
const UNDER_WAY_MAX: usize = 1_024;
/// At most one warning about failed handshakes of a port in this time.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE: u8 = 22;
/// What a client that spoke HTTP gets.
const NOT_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
Client sent an HTTP request to an HTTPS server.\n";
/// What such a client may still send before the connection is closed: closing on unread bytes would take our answer away
/// from it.
const DRAINED_MAX: u64 = 64 << 10;
const DRAINED_WITHIN: Duration = Duration::from_millis(500);

/// A port that speaks TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    Grpc,
    Http,
    Status,
}

impl Surface {
    pub(super) const ALL: [Self; 3] = [Self::Grpc, Self::Http, Self::Status];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Status => "status",
        }
    }
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Secured,
    /// One side did not take what the other offered.
    Failed,
    /// The client spoke something else.
    NotTls,
    /// It took too long.
    Slow,
    /// It made room for others.
    Crowded,
    /// The client went away before it said anything: a probe of the port.
    Silent,
}

impl Outcome {
    pub(super) const ALL: [Self; 6] =
        [Self::Secured, Self::Failed, Self::NotTls, Self::Slow, Self::Crowded, Self::Silent];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Secured => "secured",
            Self::Failed => "failed",
            Self::NotTls => "not_tls",
            Self::Slow => "slow",
            Self::Crowded => "crowded",
            Self::Silent => "silent",
        }
    }
}

/// A secured connection, and what the handshake told.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) stream: TlsStream<TcpStream>,
    /// The client showed a certificate, and it was verified.
    pub(crate) verified: bool,
    /// HTTP/2 was agreed on.
    pub(crate) http2: bool,
}

/// Secures the connections of one port. Clones are the same port.
#[derive(Clone, Debug)]
pub struct TlsPort {
    tls: Tls,
    surface: Surface,
    under_way: Arc<Mutex<UnderWay>>,
    warned: Arc<Mutex<Warned>>,
}

/// By their number, so the first is the oldest.
#[derive(Debug, Default)]
struct UnderWay {
    next: u64,
    handshakes: BTreeMap<u64, oneshot::Sender<()>>,
}

#[derive(Debug, Default)]
struct Warned {
    last: Option<Instant>,
    since: u64,
}

/// A handshake's place, given back when it is dropped.
struct Place<'p> {
    port: &'p TlsPort,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.port.under_way).handshakes.remove(&self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TlsPort {
    pub(super) fn new(tls: Tls, surface: Surface) -> Self {
        Self { tls, surface, under_way: Arc::default(), warned: Arc::default() }
    }

    /// Does the handshake. `None`: there is no connection any more.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<Secured> {
        let client = stream.peer_addr().ok();
        let (place, displaced) = self.enter();
        let (outcome, secured) = tokio::select! {
            biased;
            shaken = timeout(WITHIN, self.shake(stream)) => match shaken {
                Ok(Ok(secured)) => (Outcome::Secured, Ok(secured)),
                Ok(Err((outcome, why))) => (outcome, Err(why)),
                Err(_) => (Outcome::Slow, Err(format!("not done within {WITHIN:?}"))),
            },
            _ = displaced => {
                (Outcome::Crowded, Err(format!("the oldest of more than {UNDER_WAY_MAX} at a time")))
            }
        };
        drop(place);
        self.tls.numbers().handshake(self.surface, outcome);
        match secured {
            Ok(secured) => Some(secured),
            Err(why) => {
                self.tell(client, outcome, &why);
                None
            }
        }
    }

    fn enter(&self) -> (Place<'_>, oneshot::Receiver<()>) {
        let (displace, displaced) = oneshot::channel();
        let mut under_way = lock(&self.under_way);
        if under_way.handshakes.len() >= UNDER_WAY_MAX
            && let Some((_, oldest)) = under_way.handshakes.pop_first()
        {
            let _ = oldest.send(());
        }
        let number = under_way.next;
        under_way.next += 1;
        under_way.handshakes.insert(number, displace);
        (Place { port: self, number }, displaced)
    }

    async fn shake(&self, stream: TcpStream) -> Result<Secured, (Outcome, String)> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1..) if first[0] == HANDSHAKE => {}
            Ok(1..) => return Err(self.refuse(stream, first[0]).await),
            Ok(0) => return Err((Outcome::Silent, "it closed the connection".to_owned())),
            Err(error) => return Err((Outcome::Silent, error.to_string())),
        }
        let configs = self.tls.configs();
        let config = match self.surface {
            Surface::Grpc => &configs.grpc,
            Surface::Http => &configs.http,
            Surface::Status => &configs.status,
        };
        let accepting = TlsAcceptor::from(Arc::clone(config)).accept(stream);
        let stream = accepting.await.map_err(|error| (Outcome::Failed, error.to_string()))?;
        let (_, connection) = stream.get_ref();
        let shown = connection.peer_certificates().is_some_and(|shown| !shown.is_empty());
        let verified = shown && self.surface != Surface::Status && self.tls.verifies_clients();
        let http2 = connection.alpn_protocol() == Some(b"h2");
        Ok(Secured { stream, verified, http2 })
    }

    /// Refuses a client that speaks something else.
    async fn refuse(&self, mut stream: TcpStream, first: u8) -> (Outcome, String) {
        let refused = (Outcome::NotTls, "it does not speak TLS".to_owned());
        // Methods are capital letters.
        if self.surface == Surface::Grpc || !first.is_ascii_uppercase() {
            return refused;
        }
        if stream.write_all(NOT_HTTP).await.is_ok() && stream.shutdown().await.is_ok() {
            let mut rest = stream.take(DRAINED_MAX);
            let _ = timeout(DRAINED_WITHIN, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
        }
        refused
    }

    fn tell(&self, client: Option<SocketAddr>, outcome: Outcome, why: &str) {
        let client = client.map_or_else(|| "unknown".to_owned(), |client| client.to_string());
        let listener = self.surface.label();
        if outcome == Outcome::Silent {
            tracing::debug!(listener, client, "a client left before the TLS handshake: {why}");
            return;
        }
        let mut warned = lock(&self.warned);
        let now = Instant::now();
        if warned.last.is_some_and(|last| now.duration_since(last) < WARN_EVERY) {
            warned.since += 1;
            drop(warned);
            tracing::debug!(listener, client, "a TLS handshake failed: {why}");
            return;
        }
        let more = std::mem::take(&mut warned.since);
        warned.last = Some(now);
        drop(warned);
        tracing::warn!(listener, client, more, "a TLS handshake failed: {why}");
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
