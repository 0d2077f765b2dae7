//! HTTP/2 connections to one peer.
//!
//! Opened when they are first needed and again after they ended; nothing is dialled for a peer that nobody calls. Calls
//! take the connections in turns. While one is being opened, whoever needs it waits for the same attempt, and shares
//! its failure: a dead peer is dialled once, not once per waiting call.
//!
//! A call is bound to the node's own address, where that is one of this machine's (see `source.rs`): the receiving node
//! knows its peers by it (see `guard.rs`).
//!
//! An idle connection is kept alive by TCP, not by HTTP/2: an original closes connections on which pings come more often
//! than every two hours, and takes a call with it that arrives at that moment. A process that hangs while its machine
//! answers is found out by its calls.
//!
//! Where the node was given a way to secure connections, all of them are, and a connection counts as open only when the
//! peer has said something on it: until then it may still refuse our certificate, and nothing was counted.
//!
//! Rejected: tonic's `Channel`. It puts a queue and a task between a call and its connection, retries by rules of
//! its own, and cannot tell "never sent" from "perhaps applied", on which counting once depends.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyball_core::cluster::host_of;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tonic::body::Body;

use super::source::OwnSource;
use super::tls::{Heard, PeerTls};

/// How long a peer may take to accept a connection.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the handshake of a secured connection may take, and again the first word of the peer after it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);
/// A handshake that fails is told at most this often for each peer.
const TELL_EVERY: Duration = Duration::from_secs(30);
/// The peer's machine is asked for a sign of life on a connection where nothing happened for so long …
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(10);
/// … again and again at this interval …
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(2);
/// … and the connection ends when so many were not answered.
const KEEP_ALIVE_TRIES: u32 = 3;
/// What may be under way in one direction before it is acknowledged: a large message, and several of them.
const STREAM_WINDOW: u32 = 2 * 1_024 * 1_024;
const CONNECTION_WINDOW: u32 = 16 * 1_024 * 1_024;

/// Why there is no connection. `Display` words it as clients of the original know it.
#[derive(Clone, Debug)]
pub(crate) struct DialError {
    address: String,
    cause: String,
    /// It was open and could not be secured.
    handshake: bool,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.handshake {
            return write!(
                f,
                "connection error: desc = \"transport: authentication handshake failed: {}\"",
                self.cause
            );
        }
        write!(
            f,
            "connection error: desc = \"transport: Error while dialing: dial tcp {}: {}\"",
            self.address, self.cause
        )
    }
}

/// An open connection.
#[derive(Debug)]
struct Open {
    sender: SendRequest<Body>,
    /// Of the own address from which it was opened.
    generation: u64,
}

/// One connection, or the place for one.
#[derive(Debug, Default)]
struct Slot {
    open: Mutex<Option<Open>>,
    /// Held while dialling. Inside: how many attempts there were, and how the last one failed.
    dialling: tokio::sync::Mutex<(u64, Option<DialError>)>,
    attempts: AtomicUsize,
}

/// The connections to one address.
#[derive(Debug)]
pub(crate) struct Connections {
    address: String,
    source: Arc<OwnSource>,
    tls: Option<Arc<dyn PeerTls>>,
    /// When a failed handshake was last told.
    told: Mutex<Option<Instant>>,
    slots: Box<[Slot]>,
    next: AtomicUsize,
    closed: AtomicBool,
}

impl Connections {
    /// None open yet.
    pub(crate) fn new(
        address: &str,
        source: Arc<OwnSource>,
        tls: Option<Arc<dyn PeerTls>>,
        count: usize,
    ) -> Self {
        Self {
            address: address.to_owned(),
            source,
            tls,
            told: Mutex::new(None),
            slots: (0..count.max(1)).map(|_| Slot::default()).collect(),
            next: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether connections are secured.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// A connection to send on.
    pub(crate) async fn get(&self) -> Result<SendRequest<Body>, DialError> {
        let slot = &self.slots[self.next.fetch_add(1, Relaxed) % self.slots.len()];
        if let Some(open) = slot.usable(self.source.generation()) {
            return Ok(open);
        }
        let before = slot.attempts.load(Relaxed) as u64;
        let mut dialling = slot.dialling.lock().await;
        if let Some(open) = slot.usable(self.source.generation()) {
            return Ok(open);
        }
        let (attempts, failure) = &mut *dialling;
        if let (true, Some(failure)) = (*attempts > before, &failure) {
            return Err(failure.clone());
        }
        let generation = self.source.generation();
        let dialled = self.dial().await;
        *attempts += 1;
        slot.attempts.store(*attempts as usize, Relaxed);
        match dialled {
            Ok(sender) => {
                *failure = None;
                *slot.lock() = Some(Open { sender: sender.clone(), generation });
                Ok(sender)
            }
            Err(error) => {
                *failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Forgets the open connections; calls on them go on or fail by themselves.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            slot.lock().take();
        }
    }

    /// Opens none any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
        self.reset();
    }

    async fn dial(&self) -> Result<SendRequest<Body>, DialError> {
        let failed = |cause| DialError { address: self.address.clone(), cause, handshake: false };
        if self.closed.load(Relaxed) {
            return Err(failed("the client connection is closing".to_owned()));
        }
        let stream = match timeout(DIAL_TIMEOUT, self.connect()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(failed(plain(&error))),
            Err(_) => return Err(failed("i/o timeout".to_owned())),
        };
        match &self.tls {
            None => self.speak(stream).await.map_err(failed),
            Some(tls) => self.secure(tls.as_ref(), stream).await.map_err(|cause| {
                self.tell(&cause);
                DialError { handshake: true, ..failed(cause) }
            }),
        }
    }

    /// HTTP/2 on a connection.
    async fn speak<S>(&self, stream: S) -> Result<SendRequest<Body>, String>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| error.to_string())?;
        let address = self.address.clone();
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(peer = address, %error, "a connection to a peer ended");
            }
        });
        Ok(sender)
    }

    /// HTTP/2 on a connection that is secured first and on which the peer has said something.
    async fn secure(&self, tls: &dyn PeerTls, stream: TcpStream) -> Result<SendRequest<Body>, String> {
        let securing = timeout(HANDSHAKE_TIMEOUT, tls.secure(host_of(&self.address), stream));
        let stream = match securing.await {
            Ok(secured) => secured.map_err(|error| error.to_string())?,
            Err(_) => return Err("i/o timeout".to_owned()),
        };
        let (stream, heard) = Heard::new(stream);
        let sender = self.speak(stream).await?;
        match timeout(HANDSHAKE_TIMEOUT, heard).await {
            Ok(Ok(heard)) => heard.map(|()| sender),
            Ok(Err(_)) => Err("the connection ended before the peer said anything".to_owned()),
            Err(_) => Err("i/o timeout".to_owned()),
        }
    }

    /// A handshake failed: certificates do not fit, and somebody has to hear of it before the first check does.
    fn tell(&self, cause: &str) {
        let mut told = self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        if told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY) {
            *told = Some(now);
            tracing::warn!(peer = self.address, error = cause, "cannot secure a connection to the peer");
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
        for address in lookup_host(&self.address).await? {
            match self.connect_to(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let keep_alive = TcpKeepalive::new()
                        .with_time(KEEP_ALIVE_AFTER)
                        .with_interval(KEEP_ALIVE_EVERY)
                        .with_retries(KEEP_ALIVE_TRIES);
                    SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(source) = self.source.toward(address.ip())
            && let Err(error) = socket.bind(SocketAddr::new(source, 0))
        {
            // Behind an address translation the own address is not one of this machine's.
            tracing::debug!(%source, %error, "calls to peers are not bound to this node's address");
        }
        socket.connect(address).await
    }
}

impl Slot {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn usable(&self, generation: u64) -> Option<SendRequest<Body>> {
        let open = self.lock();
        let open = open.as_ref().filter(|open| !open.sender.is_closed() && open.generation == generation)?;
        Some(open.sender.clone())
    }
}

/// What the system says, in the words that clients know.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const PREFACE_BYTES: usize = 24;
    const PING: u8 = 6;
    const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_sends_no_pings_and_stays_open() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connections =
            Connections::new(&listener.local_addr().unwrap().to_string(), Arc::default(), None, 1);
        let (dialled, accepted) = tokio::join!(connections.get(), listener.accept());
        let (sender, (mut stream, _)) = (dialled.unwrap(), accepted.unwrap());
        stream.write_all(&EMPTY_SETTINGS).await.unwrap();

        let mut sent = Vec::new();
        let reading = async { while stream.read_buf(&mut sent).await.unwrap() > 0 {} };
        assert!(timeout(Duration::from_secs(600), reading).await.is_err(), "it was closed");
        assert!(!sender.is_closed());
        let mut frames = &sent[PREFACE_BYTES..];
        let mut kinds = Vec::new();
        while let [a, b, c, kind, ..] = *frames {
            kinds.push(kind);
            frames = &frames[9 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c))..];
        }
        assert!(!kinds.is_empty() && !kinds.contains(&PING), "{kinds:?}");
        let socket = connections.connect().await.unwrap();
        assert!(SockRef::from(&socket).keepalive().unwrap());
    }

    #[tokio::test]
    async fn connections_come_from_the_own_address_as_soon_as_it_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let source = Arc::new(OwnSource::new("node-1:1051"));
        let connections =
            Connections::new(&listener.local_addr().unwrap().to_string(), Arc::clone(&source), None, 1);
        let mut open = Vec::new();
        for (own, expected) in [(None, "127.0.0.1"), (Some("127.0.0.5"), "127.0.0.5")] {
            source.take(own.into_iter().map(|own| own.parse().unwrap()));
            let (dialled, accepted) = tokio::join!(connections.get(), listener.accept());
            let (mut stream, from) = accepted.unwrap();
            stream.write_all(&EMPTY_SETTINGS).await.unwrap();
            assert_eq!(from.ip().to_string(), expected);
            open.push((dialled.unwrap(), stream));
            connections.get().await.unwrap();
        }
        assert!(!open[0].0.is_closed(), "calls that are under way on the old one go on");
    }
}
