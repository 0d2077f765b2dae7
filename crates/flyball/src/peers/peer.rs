//! One peer: what travels to it, how it is, and what is counted about it.
//!
//! Who has checks for a peer hands over a *group*, encoded, and waits for its answer. Handing over is a short lock and no task:
//! only a batch that leaves has a task, which sends it, hands out the answers and takes the next batch with it if one has
//! gathered meanwhile. So a caller that goes away takes nothing with it but its own interest: groups nobody waits for
//! are left out when their batch leaves, and what has left is not called back.
//!
//! A peer that is removed from the view answers what is under way and takes nothing new.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flyball_core::cluster::{Batcher, Failure, Health, HealthSettings, PeerInfo, Pushed, Size};
use flyball_core::time::Instant as CoreInstant;
use flyball_proto::answers::Owner;
use prost::Message;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::Code;

use super::call::{Caller, PeerError};
use super::connection::Connections;
use super::group::{ForwardError, Group, Reply, hand_out, put_together};
use super::source::OwnSource;
use super::timer::{Timed, Timer};
use super::tls::PeerTls;
use crate::MESSAGE_BYTES_MAX;
use crate::method::Method;
use crate::metrics::timing::Timing;
use crate::pb;
use crate::settings::ClusterSettings;

/// What all peers of a node share.
#[derive(Debug)]
pub(crate) struct PeerShared {
    pub(crate) settings: ClusterSettings,
    pub(crate) source: Arc<OwnSource>,
    tls: Option<Arc<dyn PeerTls>>,
    timer: Timer<Peer>,
    started: Instant,
    runtime: Option<tokio::runtime::Handle>,
}

impl PeerShared {
    pub(crate) fn new(
        settings: ClusterSettings,
        source: Arc<OwnSource>,
        tls: Option<Arc<dyn PeerTls>>,
    ) -> Self {
        Self {
            settings,
            source,
            tls,
            timer: Timer::default(),
            started: Instant::now(),
            runtime: tokio::runtime::Handle::try_current().ok(),
        }
    }

    /// The clock of the machines.
    pub(crate) fn now(&self) -> CoreInstant {
        CoreInstant(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A moment of the machines as the runtime's timers know it.
    pub(crate) fn moment(&self, at: CoreInstant) -> Instant {
        self.started + Duration::from_nanos(at.0)
    }

    /// Runs a task beside whoever asks, on the runtime the node was built on.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
    }
}

/// What is counted about a peer.
#[derive(Debug, Default)]
pub(crate) struct PeerCounts {
    /// Calls that ended, of any method.
    pub(crate) calls: AtomicU64,
    /// Those of them that failed.
    pub(crate) failures: AtomicU64,
    /// Checks that were answered by the fallback in its stead.
    pub(crate) fallbacks: AtomicU64,
    /// Calls under way.
    pub(crate) under_way: AtomicU64,
}

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct Peer {
    info: PeerInfo,
    /// As answers for its keys name it.
    owner: Arc<Owner>,
    caller: Caller,
    batcher: Mutex<Batcher<Group>>,
    health: Mutex<Health>,
    /// As `health` says, to be asked without its lock.
    up: AtomicBool,
    /// A task looks after it.
    probed: AtomicBool,
    /// Something failed since the last success.
    troubled: AtomicBool,
    closed: AtomicBool,
    pub(crate) counts: PeerCounts,
    /// Of forwarded calls.
    pub(crate) sends: Timing,
    shared: Arc<PeerShared>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    Single,
}

impl Kind {
    const fn step(self) -> &'static str {
        match self {
            Self::Batch => "getPeerRateLimitsBatch",
            Self::Single => "getPeerRateLimitSingle",
        }
    }
}

impl Peer {
    /// A peer nobody has called yet. Nothing is dialled.
    pub(crate) fn new(info: PeerInfo, shared: &Arc<PeerShared>, seed: u64) -> Self {
        let settings = &shared.settings;
        let tls = shared.tls.clone();
        let connections =
            Connections::new(&info.grpc_address, Arc::clone(&shared.source), tls, settings.connections);
        let caller = Caller::new(&info.grpc_address, connections, settings.access.secret.as_deref());
        let health = HealthSettings { seed, ..settings.health };
        let owner = Arc::new(Owner::new(&info.grpc_address));
        Self {
            info,
            owner,
            caller,
            batcher: Mutex::new(Batcher::new(settings.batch)),
            health: Mutex::new(Health::new(health)),
            up: AtomicBool::new(true),
            probed: AtomicBool::new(false),
            troubled: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            counts: PeerCounts::default(),
            sends: Timing::default(),
            shared: Arc::clone(shared),
        }
    }

    pub(crate) fn info(&self) -> &PeerInfo {
        &self.info
    }

    pub(crate) fn address(&self) -> &str {
        &self.info.grpc_address
    }

    pub(crate) const fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Whether a call should be made.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Relaxed)
    }

    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn batcher(&self) -> MutexGuard<'_, Batcher<Group>> {
        self.batcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks gathered or under way.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let batcher = self.batcher();
        (batcher.gathered(), batcher.waiting() - batcher.gathered())
    }

    /// Opens a connection that has to be secured before anybody needs it. So certificates that do not fit are told when
    /// the node starts, and not by the first check; what else goes wrong says nothing yet.
    pub(crate) fn greet(self: &Arc<Self>) {
        if self.shared.tls.is_some() {
            let peer = Arc::clone(self);
            self.shared.spawn(async move { drop(peer.caller.connections().get().await) });
        }
    }

    /// Hands over a group; `alone`: it leaves at once and shares its message with nobody. The answer comes, or an error
    /// does, within the forward timeout and a batch window.
    pub(crate) fn forward(
        self: &Arc<Self>,
        encoded: BytesMut,
        items: usize,
        alone: bool,
    ) -> Result<oneshot::Receiver<Reply>, ForwardError> {
        let kind = if alone { Kind::Single } else { Kind::Batch };
        if self.closed.load(Relaxed) {
            return Err(closing(kind));
        }
        if !self.is_up() {
            let health = self.health();
            let last = health.errors(self.shared.now()).next_back();
            let text = last.map_or("rpc error: code = Unavailable desc = the peer is down", |(text, _)| text);
            return Err(self.failed_text(kind, Failure::NotSent, text));
        }
        if encoded.len() > MESSAGE_BYTES_MAX {
            return Err(self.failed_text(kind, Failure::Answered, &client_error(&too_large(encoded.len()))));
        }
        let (reply, answer) = oneshot::channel();
        let size = Size { items, bytes: encoded.len() };
        let group = Group { items, encoded, reply };
        if alone {
            if !self.batcher().alone(items) {
                return Err(self.full(kind));
            }
            self.send_in_background(vec![group], kind);
            return Ok(answer);
        }
        let pushed = self.batcher().push(group, size, self.shared.now());
        match pushed {
            Pushed::Full(_) => Err(self.full(kind)),
            Pushed::Send(batches, deadline) => {
                for batch in batches.into_iter().flatten() {
                    self.send_in_background(batch, kind);
                }
                if let Some(deadline) = deadline {
                    self.shared.timer.arm(self.shared.moment(deadline).into_std(), self);
                }
                Ok(answer)
            }
        }
    }

    fn send_in_background(self: &Arc<Self>, groups: Vec<Group>, kind: Kind) {
        self.shared.spawn(Arc::clone(self).send(groups, kind));
    }

    /// Sends a batch and those that have gathered when it is answered.
    async fn send(self: Arc<Self>, groups: Vec<Group>, kind: Kind) {
        let mut next = Some(groups);
        while let Some(groups) = next {
            let items = groups.iter().map(|group| group.items).sum();
            self.send_one(groups, kind).await;
            next = match kind {
                Kind::Batch => self.batcher().finished(items),
                Kind::Single => {
                    self.batcher().alone_finished(items);
                    None
                }
            };
        }
    }

    async fn send_one(self: &Arc<Self>, mut groups: Vec<Group>, kind: Kind) {
        groups.retain(|group| !group.reply.is_closed());
        let items: usize = groups.iter().map(|group| group.items).sum();
        if items == 0 {
            return;
        }
        let message = put_together(&mut groups);
        let started = std::time::Instant::now();
        let timeout = self.shared.settings.forward_timeout;
        let answer: Result<pb::GetPeerRateLimitsResp, _> =
            self.call(Method::GetPeerRateLimits, message, timeout, client_error).await;
        let now = std::time::Instant::now();
        self.sends.record(now - started, 1, now);
        let error = match answer {
            Ok(answer) if answer.rate_limits.len() == items => {
                hand_out(groups, answer.rate_limits);
                return;
            }
            Ok(_) => {
                let text = "server responded with incorrect rate limit list size";
                self.note_failure(Failure::Answered, text);
                self.failed_text(kind, Failure::Unanswered, text)
            }
            Err(error) => self.failed_text(kind, error.failure, &client_error(&error)),
        };
        let error = Arc::new(error);
        for group in groups {
            let _ = group.reply.send(Err(Arc::clone(&error)));
        }
    }

    /// One call of any kind, with its outcome noted. `words` is how a failure is remembered.
    pub(crate) async fn call<A>(
        self: &Arc<Self>,
        method: Method,
        message: Bytes,
        timeout: Duration,
        words: fn(&PeerError) -> String,
    ) -> Result<A, PeerError>
    where
        A: Message + Default + 'static,
    {
        self.counts.under_way.fetch_add(1, Relaxed);
        let answer = self.caller.call(method, message, timeout).await;
        self.counts.under_way.fetch_sub(1, Relaxed);
        self.counts.calls.fetch_add(1, Relaxed);
        match &answer {
            Ok(_) => self.note_success(),
            Err(error) => {
                self.counts.failures.fetch_add(1, Relaxed);
                self.note_failure(error.failure, &words(error));
            }
        }
        answer
    }

    fn note_success(&self) {
        if !self.troubled.load(Relaxed) {
            return;
        }
        let mut health = self.health();
        let recovered = health.succeeded();
        self.troubled.store(false, Relaxed);
        self.up.store(true, Relaxed);
        drop(health);
        if recovered {
            tracing::info!(peer = self.address(), "the peer answers again");
        }
    }

    fn note_failure(self: &Arc<Self>, failure: Failure, text: &str) {
        if self.closed.load(Relaxed) {
            return;
        }
        let mut health = self.health();
        let was_up = health.is_up();
        let fell = health.failed(failure, text, self.shared.now());
        let rose = !was_up && health.is_up();
        self.troubled.store(true, Relaxed);
        self.up.store(health.is_up(), Relaxed);
        drop(health);
        if rose {
            // An error is an answer too.
            tracing::info!(peer = self.address(), error = text, "the peer answers again");
        } else if fell {
            tracing::warn!(
                peer = self.address(),
                error = text,
                "the peer is down; its checks take the fallback"
            );
            // A frozen peer's connection would take new calls in and answer none.
            self.caller.connections().reset();
            if !self.probed.swap(true, Relaxed) {
                self.shared.spawn(Arc::clone(self).probe_until_up());
            }
        } else {
            tracing::debug!(peer = self.address(), error = text, "a call to the peer failed");
        }
    }

    /// Looks after a peer that is down, until it answers or is removed.
    async fn probe_until_up(self: Arc<Self>) {
        loop {
            let next = self.health().poll_timeout();
            let Some(next) = next else {
                self.probed.store(false, Relaxed);
                // It may have fallen again before that was said, and then nobody else looks after it.
                if self.is_up() || self.probed.swap(true, Relaxed) {
                    return;
                }
                continue;
            };
            tokio::time::sleep_until(self.shared.moment(next)).await;
            if self.closed.load(Relaxed) {
                return;
            }
            if !self.health().handle_timeout(self.shared.now()) {
                continue;
            }
            let timeout = self.shared.settings.forward_timeout.max(Duration::from_millis(100));
            let answer: Result<pb::LiveCheckResp, _> =
                self.caller.call(Method::LiveCheck, Bytes::new(), timeout).await;
            // A peer too old to know the method is there all the same.
            match answer {
                Ok(_) => self.note_success(),
                Err(error) if matches!(error.failure, Failure::Answered | Failure::NotTaken) => {
                    self.note_success();
                }
                Err(error) => {
                    self.caller.connections().reset();
                    self.note_failure(error.failure, &client_error(&error));
                }
            }
        }
    }

    /// Ends what this node has to do with the peer: what is gathered fails, what is under way goes on for as long as the
    /// forward timeout lets it. Can be done twice.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Relaxed) {
            return;
        }
        let gathered = self.batcher().close();
        let error = Arc::new(closing(Kind::Batch));
        for group in gathered {
            let _ = group.reply.send(Err(Arc::clone(&error)));
        }
        self.caller.connections().close();
    }

    fn full(&self, kind: Kind) -> ForwardError {
        let waiting = self.shared.settings.batch.waiting_max;
        let error = PeerError::not_sent(format!("{waiting} checks already wait for this peer"));
        self.failed_text(kind, Failure::NotSent, &client_error(&error))
    }

    fn failed_text(&self, kind: Kind, failure: Failure, text: &str) -> ForwardError {
        ForwardError { failure, text: format!("Error in {}: Request error: {text}", kind.step()) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Timed for Peer {
    fn is_over(self: Arc<Self>) {
        let batch = self.batcher().handle_timeout(self.shared.now());
        if let Some(batch) = batch {
            self.send_in_background(batch, Kind::Batch);
        }
    }
}

/// As the original words and remembers a failed forward.
pub(crate) fn client_error(error: &PeerError) -> String {
    format!("Error in client.GetPeerRateLimits: {}", error.rpc_error())
}

/// What a peer would say of a message of this size, which is therefore not sent.
fn too_large(bytes: usize) -> PeerError {
    PeerError {
        failure: Failure::Answered,
        code: Code::ResourceExhausted,
        text: format!("grpc: received message larger than max ({bytes} vs. {MESSAGE_BYTES_MAX})"),
    }
}

fn closing(kind: Kind) -> ForwardError {
    let error = PeerError {
        failure: Failure::NotSent,
        code: Code::Cancelled,
        text: "grpc: the client connection is closing".to_owned(),
    };
    ForwardError {
        failure: Failure::NotSent,
        text: format!("Error in {}: {}", kind.step(), error.rpc_error()),
    }
}
