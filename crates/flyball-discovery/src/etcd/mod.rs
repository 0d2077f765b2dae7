//! Peers by keys in etcd, each with a lease that its node keeps alive.
//!
//! A node writes `prefix + address` with itself as the value ([`value`]) and reads the keys of all with the prefix. The
//! two go on side by side over a connection each, since either may fail alone: an etcd that is full answers reads and
//! takes no writes. What to do next is decided by two machines without I/O, [`register`] and [`follow`], with a [`pace`]
//! each; [`client`] makes their calls. At any time there is one future of each under way, kept here and not in the call
//! to [`next`](Source::next), which may be dropped.
//!
//! Nobody needs a task for this: [`Recover`](crate::Recover) asks for the next set all the time, and what has to be
//! done in time, a sign of life every 10 s for a lease of 30, bears its pauses.
//!
//! A node that leaves ends its lease, and etcd deletes the key. The key is not deleted by its name: that would take away
//! the key of a successor that came up under the same address before this node was gone.

mod client;
mod endpoint;
mod follow;
mod outbox;
mod pace;
mod register;
#[cfg(test)]
mod tests;
mod tls;
mod value;
mod wire;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use futures_util::future::{Either, pending, select};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

pub use self::endpoint::EtcdEndpoint;
pub use self::tls::EtcdTls;

use self::client::{Connection, Keys, Watch};
use self::follow::Follow;
use self::outbox::Outbox;
use self::register::Register;
use crate::source::{NextPeers, PEERS_MAX, Source, SourceError};

/// How long it is tried to end the lease, and the bound of each try.
const LEAVE_MAX: Duration = Duration::from_secs(3);
const LEAVE_TRY: Duration = Duration::from_secs(1);

/// After the lease has ended: how long it takes the others to hear of it and to make a ring of it.
const LEAVE_HEARD: Duration = Duration::from_millis(300);

/// Where etcd is, and what is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSettings {
    /// The members; at least one. They are tried in turn.
    pub endpoints: Vec<EtcdEndpoint>,
    /// What all keys begin with; not empty.
    pub key_prefix: String,
    /// This node, as its peers shall know it.
    pub own: PeerInfo,
    /// How long a connection may take to be made.
    pub dial_timeout: Duration,
    /// Who this is.
    pub user: Option<EtcdUser>,
    /// How to speak TLS with members whose endpoint has no scheme, or `https`.
    pub tls: Option<EtcdTls>,
}

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdUser {
    /// The name.
    pub name: String,
    /// The password; never shown.
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The nodes that etcd lists.
pub struct Etcd {
    settings: Arc<EtcdSettings>,
    /// `None` until it is asked for the first time, when the clock of the runtime is there.
    machines: Option<Machines>,
    registering: Option<Doing<Registered>>,
    following: Option<Doing<Followed>>,
    /// Whether the step of the registration that is under way may write the key.
    writing: bool,
    /// The last lease, and the connection it was got by.
    lease: Option<(i64, Connection)>,
    outbox: Outbox,
    /// Whether this node goes: it follows the others, and is not one of them.
    leaving: bool,
}

#[derive(Debug)]
struct Machines {
    register: Register,
    follow: Follow,
}

type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What became of a step of the registration.
enum Registered {
    /// The lease, and the revision at which the key was written.
    New(i64, i64, Connection),
    Alive(i64, Connection),
    /// With the member, when it was one that could not be reached or would not do it.
    Failed(usize, String),
    /// The lease is gone, or nobody knows: no news yet, since it is got anew at once.
    Lost(String),
    Paused,
}

/// What became of a step of following.
enum Followed {
    Read(Session, Keys),
    Changed(Session, Option<i64>),
    Failed(usize, String),
    Lost(String),
    Paused(Option<Session>),
}

/// A connection with a watch over it.
struct Session {
    connection: Connection,
    watch: Watch,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("settings", &self.settings)
            .field("machines", &self.machines)
            .finish_non_exhaustive()
    }
}

impl Etcd {
    /// Connects to nobody yet, but looks at the files for TLS.
    ///
    /// # Errors
    /// There is no endpoint or no prefix, or a file for TLS cannot be used.
    pub fn new(settings: EtcdSettings) -> Result<Self, SourceError> {
        if settings.endpoints.is_empty() {
            return Err(SourceError::new("no etcd endpoint is given; expected at least one"));
        }
        if settings.key_prefix.is_empty() {
            return Err(SourceError::new(
                "the prefix of keys in etcd is empty; expected one such as /gubernator-peers",
            ));
        }
        if let Some(files) = &settings.tls {
            tls::client_config(files).map_err(|error| SourceError::new(format!("TLS for etcd: {error}")))?;
        }
        let members = settings.endpoints.len();
        Ok(Self {
            settings: Arc::new(settings),
            machines: None,
            registering: None,
            following: None,
            writing: false,
            lease: None,
            outbox: Outbox::new(members),
            leaving: false,
        })
    }

    /// Goes on until there is something to tell.
    async fn run(&mut self) -> Result<Vec<PeerInfo>, SourceError> {
        loop {
            if let Some(answer) = self.outbox.take() {
                return answer;
            }
            let now = Instant::now();
            let settings = &self.settings;
            let machines = self.machines.get_or_insert_with(|| Machines::new(settings, now));
            let lease = &self.lease;
            let (leaving, writing) = (self.leaving, &mut self.writing);
            let registering = self.registering.get_or_insert_with(|| match leaving {
                true => Box::pin(pending()),
                false => {
                    let step = machines.register.next(now);
                    *writing = matches!(step, register::Step::Register(_));
                    begin_register(settings, step, lease.clone())
                }
            });
            // A session goes from step to step, so a step without one is one that opens it.
            let following =
                self.following.get_or_insert_with(|| begin_follow(settings, machines.follow.next(now), None));
            // No await after this one, so a dropped call loses nothing.
            match select(registering, following).await {
                Either::Left((done, _)) => {
                    self.registering = None;
                    self.writing = false;
                    self.registered(done);
                }
                Either::Right((done, _)) => {
                    self.following = None;
                    self.followed(done);
                }
            }
        }
    }

    fn registered(&mut self, done: Registered) {
        let now = Instant::now();
        let Some(Machines { register, .. }) = &mut self.machines else { return };
        match done {
            Registered::New(lease, revision, connection) => {
                register.registered(now, revision);
                self.lease = Some((lease, connection));
                self.outbox.registering.succeeded();
            }
            Registered::Alive(lease, connection) => {
                register.kept_alive(now);
                self.lease = Some((lease, connection));
            }
            Registered::Failed(member, error) => {
                register.failed(now);
                self.outbox.registering.failed(member, error);
            }
            Registered::Lost(why) => {
                tracing::debug!("the lease in etcd cannot be kept alive and is got anew: {why}");
                register.failed(now);
                self.outbox.registering.begins_anew();
            }
            Registered::Paused => {}
        }
    }

    fn followed(&mut self, done: Followed) {
        let now = Instant::now();
        let Some(Machines { follow, register }) = &mut self.machines else { return };
        let session = match done {
            Followed::Read(session, keys) => {
                let listed = value::read(&keys.entries);
                let count = keys.entries.len();
                self.outbox.following.succeeded();
                self.outbox.faults = match count > PEERS_MAX {
                    true => format!("more than {PEERS_MAX} keys have the prefix; expected no more"),
                    false => listed.faults,
                };
                let own = (!self.leaving).then_some(self.settings.own.grpc_address.as_str());
                if follow.is_closed() {
                    register.forget_revision();
                }
                let seen = own.is_none_or(|own| listed.peers.iter().any(|peer| peer.grpc_address == own));
                if !seen && register.missing(now, keys.revision) {
                    tracing::debug!("this node's key in etcd is gone and is written again");
                    self.registering = None;
                    self.outbox.registering.begins_anew();
                }
                let peers = if count > PEERS_MAX { None } else { Some(listed.peers) };
                if let Some(peers) = follow.read(now, keys.revision, own, peers) {
                    self.outbox.news = Some(peers);
                }
                Some(session)
            }
            Followed::Changed(session, revision) => {
                follow.changed(revision);
                Some(session)
            }
            Followed::Failed(member, error) => {
                follow.failed(now);
                self.outbox.following.failed(member, error);
                None
            }
            Followed::Lost(why) => {
                tracing::debug!("the watch on etcd ended and is begun anew: {why}");
                follow.failed(now);
                self.outbox.following.begins_anew();
                None
            }
            Followed::Paused(session) => session,
        };
        if let Some(session) = session {
            self.following = Some(begin_follow(&self.settings, follow.next(now), Some(session)));
        }
    }
}

impl Machines {
    fn new(settings: &EtcdSettings, now: Instant) -> Self {
        let members = settings.endpoints.len();
        // By its address, so that nodes spread over the members, and over time.
        let mut hasher = DefaultHasher::new();
        settings.own.grpc_address.hash(&mut hasher);
        let seed = hasher.finish();
        Self { register: Register::new(members, seed, now), follow: Follow::new(members, !seed, now) }
    }
}

fn begin_register(
    settings: &Arc<EtcdSettings>,
    step: register::Step,
    lease: Option<(i64, Connection)>,
) -> Doing<Registered> {
    let settings = Arc::clone(settings);
    Box::pin(async move {
        match step {
            register::Step::Pause(until) => {
                sleep_until(until).await;
                Registered::Paused
            }
            register::Step::Register(member) => {
                let own = &settings.own;
                let key = format!("{}{}", settings.key_prefix, own.grpc_address).into_bytes();
                let at = |error| format!("{}: {error}", settings.endpoints[member]);
                let mut connection = match Connection::open(&settings, member).await {
                    Ok(connection) => connection,
                    Err(error) => return Registered::Failed(member, error),
                };
                match connection.register(key, value::write(own).into_bytes()).await {
                    Ok((lease, revision)) => Registered::New(lease, revision, connection),
                    Err(error) => Registered::Failed(member, at(error)),
                }
            }
            register::Step::KeepAlive => {
                let Some((lease, mut connection)) = lease else {
                    return Registered::Lost("it is not known".to_owned());
                };
                match connection.keep_alive(lease).await {
                    Ok(()) => Registered::Alive(lease, connection),
                    Err(error) => Registered::Lost(error),
                }
            }
        }
    })
}

fn begin_follow(
    settings: &Arc<EtcdSettings>,
    step: follow::Step,
    session: Option<Session>,
) -> Doing<Followed> {
    let settings = Arc::clone(settings);
    Box::pin(async move {
        let prefix = settings.key_prefix.as_bytes();
        match (step, session) {
            (follow::Step::Pause(until), session) => {
                sleep_until(until).await;
                Followed::Paused(session)
            }
            (follow::Step::Open(member), _) => {
                let open = async {
                    let mut connection = Connection::open(&settings, member).await?;
                    let at = |error| format!("{}: {error}", settings.endpoints[member]);
                    let keys = connection.keys(prefix).await.map_err(at)?;
                    let watch = connection.watch(prefix, keys.revision).await.map_err(at)?;
                    Ok((Session { connection, watch }, keys))
                };
                match open.await {
                    Ok((session, keys)) => Followed::Read(session, keys),
                    Err(error) => Followed::Failed(member, error),
                }
            }
            (follow::Step::Get, Some(mut session)) => match session.connection.keys(prefix).await {
                Ok(keys) => Followed::Read(session, keys),
                Err(error) => Followed::Lost(error),
            },
            (follow::Step::Watch(until), Some(mut session)) => {
                let changed = match until {
                    None => Some(session.watch.changed().await),
                    Some(until) => timeout_at(until, session.watch.changed()).await.ok(),
                };
                match changed {
                    None => Followed::Changed(session, None),
                    Some(Ok(revision)) => Followed::Changed(session, Some(revision)),
                    Some(Err(error)) => Followed::Lost(error),
                }
            }
            (follow::Step::Get | follow::Step::Watch(_), None) => Followed::Lost("there is none".to_owned()),
        }
    })
}

impl Source for Etcd {
    fn kind(&self) -> &'static str {
        "etcd"
    }

    fn origin(&self) -> String {
        let endpoints: Vec<_> = self.settings.endpoints.iter().map(ToString::to_string).collect();
        format!("{} of etcd at {}", self.settings.key_prefix, endpoints.join(", "))
    }

    fn next(&mut self) -> NextPeers<'_> {
        Box::pin(self.run())
    }

    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.leaving = true;
            // A key that is being written must not come after the end.
            if self.writing
                && let Some(registering) = self.registering.take()
                && let Ok(done) = timeout(LEAVE_TRY, registering).await
            {
                self.registered(done);
            }
            self.registering = None;
            self.outbox.registering.succeeded();
            let Some((lease, mut connection)) = self.lease.take() else { return };
            let until = Instant::now() + LEAVE_MAX;
            let mut left = Err(String::new());
            // The connection may be to a member that is gone, and etcd may be looking for a leader.
            while left.is_err() && Instant::now() < until {
                let told = timeout(LEAVE_TRY, connection.revoke(lease)).await;
                left = told.unwrap_or_else(|_| Err("no answer in time".to_owned()));
                if left.is_err()
                    && let Some(Machines { register, .. }) = &mut self.machines
                {
                    let opening = Connection::open(&self.settings, register.another_member());
                    match timeout(LEAVE_TRY, opening).await {
                        Ok(Ok(another)) => connection = another,
                        // As if nobody could be asked, for a moment: the next member is tried after it.
                        _ => sleep(LEAVE_HEARD).await,
                    }
                }
            }
            match left {
                Ok(()) => sleep(LEAVE_HEARD).await,
                Err(error) => tracing::warn!(
                    "the key in etcd could not be taken away and will be there for up to {} s: {error}",
                    register::LEASE_SECONDS
                ),
            }
        })
    }
}
