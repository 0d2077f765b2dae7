//! One connection to one member of etcd, and the few calls that are made over it.
//!
//! A connection is used until something fails and is then thrown away: it never dials again by itself. Who wants
//! another one asks for it, at another member. Every call is bounded and demands a member that has a leader, so a
//! member cut off from the others says so at once instead of answering with yesterday's keys. A member that is frozen
//! is noticed by pings, no more often than etcd permits by default (every 5 s).

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use hyper_util::rt::TokioIo;
use prost::Message;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::endpoint::EtcdEndpoint;
use super::register::LEASE_SECONDS;
use super::tls;
use super::value::Entry;
use super::wire::{self, method};
use super::{EtcdSettings, EtcdUser};
use crate::source::PEERS_MAX;

/// Bound of one call.
const CALL_MAX: Duration = Duration::from_secs(5);

/// Time between pings while a watch is open, and how long one may take.
const PING_EVERY: Duration = Duration::from_secs(6);
const PING_MAX: Duration = Duration::from_secs(3);

/// A connection. Cheap to clone; all clones share one.
#[derive(Clone)]
pub(super) struct Connection {
    grpc: Grpc<Channel>,
    user: Option<EtcdUser>,
    token: Option<MetadataValue<Ascii>>,
}

/// All keys at one revision.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) revision: i64,
    pub(super) entries: Vec<Entry>,
}

/// Events after a revision.
pub(super) struct Watch {
    events: Streaming<wire::WatchResponse>,
}

impl Connection {
    /// Connects to a member, and shows who this is if there is a user. The error begins with the member.
    pub(super) async fn open(settings: &EtcdSettings, member: usize) -> Result<Self, String> {
        let Some(endpoint) = settings.endpoints.get(member) else {
            return Err("no etcd endpoint is given".to_owned());
        };
        let at = |error: String| format!("{endpoint}: {error}");
        let opened = timeout(settings.dial_timeout, dial(settings, endpoint)).await;
        let channel = opened
            .unwrap_or_else(|_| Err(format!("no connection within {:?}", settings.dial_timeout)))
            .map_err(at)?;
        let mut connection = Self { grpc: Grpc::new(channel), user: settings.user.clone(), token: None };
        connection.authenticate().await.map_err(|status| at(explain(&status)))?;
        Ok(connection)
    }

    /// Gets a lease and writes a key under it: the lease, and the revision at which the key is there.
    pub(super) async fn register(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(i64, i64), String> {
        let grant = wire::LeaseGrantRequest { ttl: LEASE_SECONDS };
        let lease: wire::Lease = self.call(method::LEASE_GRANT, grant).await?;
        if !lease.error.is_empty() {
            return Err(lease.error);
        }
        let put = wire::PutRequest { key, value, lease: lease.id };
        let done: wire::Done = self.call(method::PUT, put).await?;
        Ok((lease.id, done.header.map_or(0, |header| header.revision)))
    }

    /// Gives a sign of life. A stream of its own for each: there is then nothing to keep, or to lose, between them.
    pub(super) async fn keep_alive(&mut self, lease: i64) -> Result<(), String> {
        let ask = async {
            let once = stream::iter([wire::LeaseId { id: lease }]);
            let mut answers: Streaming<wire::Lease> = self.stream(method::LEASE_KEEP_ALIVE, once).await?;
            answers.message().await
        };
        match bounded(ask).await? {
            Some(answer) if answer.ttl > 0 => Ok(()),
            _ => Err("the lease is gone".to_owned()),
        }
    }

    /// Ends a lease, and with it the keys under it.
    pub(super) async fn revoke(&mut self, lease: i64) -> Result<(), String> {
        let _: wire::Done = self.call(method::LEASE_REVOKE, wire::LeaseId { id: lease }).await?;
        Ok(())
    }

    /// All keys with the prefix, and one more than there may be peers.
    pub(super) async fn keys(&mut self, prefix: &[u8]) -> Result<Keys, String> {
        let range = wire::RangeRequest {
            key: prefix.to_vec(),
            range_end: wire::range_end(prefix),
            limit: PEERS_MAX as i64 + 1,
        };
        let answer: wire::RangeResponse = self.call(method::RANGE, range).await?;
        let revision = answer.header.map_or(0, |header| header.revision);
        let entry = |pair: wire::KeyValue| Entry { key: pair.key, value: pair.value };
        Ok(Keys { revision, entries: answer.kvs.into_iter().map(entry).collect() })
    }

    /// Begins to watch all keys with the prefix after a revision, and waits until that has begun.
    pub(super) async fn watch(&mut self, prefix: &[u8], after: i64) -> Result<Watch, String> {
        let create = wire::WatchCreate {
            key: prefix.to_vec(),
            range_end: wire::range_end(prefix),
            start_revision: after.saturating_add(1),
        };
        let begin = async {
            // The watch ends with what is sent to it, so that never ends.
            let requests =
                stream::iter([wire::WatchRequest { create: Some(create) }]).chain(stream::pending());
            let mut events: Streaming<wire::WatchResponse> = self.stream(method::WATCH, requests).await?;
            let first = events.message().await?;
            Ok((events, first))
        };
        let (events, first) = bounded(begin).await?;
        match first {
            Some(first) if first.created && !first.canceled => Ok(Watch { events }),
            Some(first) => Err(why_canceled(&first)),
            None => Err("the watch ended before it began".to_owned()),
        }
    }

    /// One call with one answer; once more with a new token when etcd does not know the old one any longer.
    async fn call<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, String>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let call = async {
            match self.ask(path, question.clone()).await {
                Err(status) if status.code() == Code::Unauthenticated && self.user.is_some() => {
                    self.authenticate().await?;
                    self.ask(path, question).await
                }
                answer => answer,
            }
        };
        bounded(call).await
    }

    async fn ask<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = self.request(question);
        self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        Ok(self.grpc.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
    }

    async fn stream<Q, A, S>(&mut self, path: &'static str, questions: S) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        let request = self.request(questions);
        self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        Ok(self.grpc.streaming(request, PathAndQuery::from_static(path), codec).await?.into_inner())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        request
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(deepest(&error)))
    }

    async fn authenticate(&mut self) -> Result<(), Status> {
        self.token = None;
        let Some(user) = self.user.clone() else { return Ok(()) };
        let question = wire::AuthenticateRequest { name: user.name, password: user.password };
        let asked = timeout(CALL_MAX, self.ask(method::AUTHENTICATE, question)).await;
        let answer: Result<wire::AuthenticateResponse, Status> = asked.unwrap_or_else(|_| Err(late()));
        match answer {
            Ok(answer) => {
                let token = MetadataValue::try_from(answer.token);
                self.token = Some(token.map_err(|_| Status::internal("etcd's token is no text"))?);
                Ok(())
            }
            // As etcd's own clients: who needs no password is not told to take it away.
            Err(status) if status.message().contains("authentication is not enabled") => Ok(()),
            Err(status) => Err(status),
        }
    }
}

impl Watch {
    /// Waits for an event, and takes those that are there already with it: the revision of the last.
    pub(super) async fn changed(&mut self) -> Result<i64, String> {
        loop {
            let answer = self.events.message().await.map_err(|status| explain(&status))?;
            let answer = answer.ok_or("the watch ended")?;
            if answer.canceled {
                return Err(why_canceled(&answer));
            }
            // Without events it only says how far it is.
            if !answer.events.is_empty() {
                return Ok(answer.header.map_or(i64::MAX, |header| header.revision));
            }
        }
    }
}

async fn dial(settings: &EtcdSettings, endpoint: &EtcdEndpoint) -> Result<Channel, String> {
    let (host, port) = endpoint.host_and_port();
    let secure = endpoint.secure().unwrap_or(settings.tls.is_some());
    let tls = match secure {
        false => None,
        true => {
            let files = settings.tls.clone().unwrap_or_default();
            let made = tokio::task::spawn_blocking(move || tls::client_config(&files)).await;
            Some(made.map_err(|_| "reading the TLS files was interrupted".to_owned())??)
        }
    };
    let tcp = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    // Small messages that wait for each other.
    let _ = tcp.set_nodelay(true);
    let io: Io = match tls {
        None => Box::pin(tcp),
        Some(config) => {
            let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
            let connected = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
            Box::pin(connected.map_err(|error| format!("TLS: {error}"))?)
        }
    };
    let uri = format!("http://{}", endpoint.authority());
    let channel = Endpoint::from_shared(uri)
        .map_err(|error| error.to_string())?
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_MAX)
        .keep_alive_while_idle(false);
    let mut once = Some(io);
    // Asked a second time when the connection is gone; then whoever uses it is to hear of that.
    let connector = tower::service_fn(move |_: Uri| {
        let io = once.take().ok_or_else(|| io::Error::other("the connection is gone"));
        std::future::ready(io.map(TokioIo::new))
    });
    channel.connect_with_connector(connector).await.map_err(|error| deepest(&error))
}

trait ReadWrite: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> ReadWrite for T {}

type Io = Pin<Box<dyn ReadWrite>>;

async fn bounded<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, String> {
    let answer = timeout(CALL_MAX, call).await.unwrap_or_else(|_| Err(late()));
    answer.map_err(|status| explain(&status))
}

fn late() -> Status {
    Status::deadline_exceeded(format!("no answer within {CALL_MAX:?}"))
}

fn why_canceled(answer: &wire::WatchResponse) -> String {
    match (answer.compact_revision, answer.cancel_reason.as_str()) {
        (0, "") => "the watch was ended by etcd".to_owned(),
        (0, reason) => format!("the watch was ended by etcd: {reason}"),
        (revision, _) => format!("what happened before revision {revision} is compacted"),
    }
}

/// What went wrong, and what to do where that can be told.
fn explain(status: &Status) -> String {
    let said = match (status.message(), status.source()) {
        // Of the transport, whose cause lies deeper.
        ("" | "transport error", Some(cause)) => deepest(cause),
        ("", None) => status.code().to_string(),
        (message, _) => message.to_owned(),
    };
    match status.code() {
        Code::PermissionDenied => {
            format!("{said}; the user needs to read and write all keys with the prefix")
        }
        Code::InvalidArgument if said.contains("authentication failed") => {
            format!("{said}; correct GUBER_ETCD_USER and GUBER_ETCD_PASSWORD")
        }
        Code::InvalidArgument if said.contains("user name is empty") => {
            format!("{said}; set GUBER_ETCD_USER and GUBER_ETCD_PASSWORD")
        }
        _ => said,
    }
}

/// The innermost cause: the outer ones say only that there was one.
fn deepest(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
