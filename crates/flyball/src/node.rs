//! The node: everything that answers checks, behind one handle.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flyball_core::cluster::PeerInfo;
use flyball_core::{Answer, Request, Rules, Source};
use flyball_proto::answers::Answers;
use flyball_proto::pb;
use prost::Message;
use tokio_util::sync::DropGuard;

use crate::MESSAGE_BYTES_MAX;
use crate::builder::NodeBuilder;
use crate::call::{Call, CallContext};
use crate::error::CallError;
use crate::intake::Arriving;
use crate::judge::{Judged, refusal};
use crate::method::Method;
use crate::metrics::Metrics;
use crate::metrics::counters::Tally;
use crate::service::Inner;

/// A rate limiter node. Cloning gives another handle to the same node; dropping the last one stops it.
///
/// The methods named after the wire's ([`get_rate_limits`](Self::get_rate_limits) and so on) are what a
/// network front end calls: they keep the books and the wire's limits. [`check`](Self::check) is for code in
/// the same process.
#[derive(Clone, Debug)]
pub struct Node {
    inner: Arc<Inner>,
    /// Background tasks hold the parts, never this: with the last handle they end.
    _stop: Arc<DropGuard>,
}

impl From<Arc<Inner>> for Node {
    fn from(inner: Arc<Inner>) -> Self {
        let stop = inner.closing.clone().drop_guard();
        Self { inner, _stop: Arc::new(stop) }
    }
}

impl Node {
    /// Starts building a node.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// Judges one request of a client, now, as its owner. Counted as a check, not as a call.
    ///
    /// For a node alone. In a cluster the owner of a key may be another node, which only
    /// [`get_rate_limits`](Self::get_rate_limits) asks.
    pub fn check(&self, request: &Request<'_>) -> Answer {
        let mut tally = Tally::default();
        let now = self.inner.clock.now();
        let answer = self.inner.apply(request, Source::Client, now, &mut tally);
        self.inner.metrics.top_refused().refused(now, refusal(request, &Some(answer)).into_iter());
        self.inner.metrics.slot().add(&tally);
        answer
    }

    /// Judges several requests as [`check`](Self::check) does, all at the same moment; those of one key in their order. There is no limit on their number.
    pub fn check_many(&self, requests: &[Request<'_>]) -> Vec<Answer> {
        let mut tally = Tally::default();
        let now = self.inner.clock.now();
        let judged = Judged { source: Source::Client, now, tally: &mut tally, times: None };
        let answers = self.inner.apply_all(requests.len(), |index| requests[index], judged, || false);
        let refused = requests.iter().zip(&answers).filter_map(|(request, answer)| refusal(request, answer));
        self.inner.metrics.top_refused().refused(now, refused);
        let answers = answers.into_iter().flatten().collect();
        self.inner.metrics.slot().add(&tally);
        answers
    }

    /// `V1.GetRateLimits`: answers in the order of the items. A bad item gets an error of its own.
    ///
    /// # Errors
    /// Too many items, too large a message, or a deadline that has passed; nothing was applied then.
    pub async fn get_rate_limits(
        &self,
        request: pb::GetRateLimitsReq,
        context: CallContext,
    ) -> Result<pb::GetRateLimitsResp, CallError> {
        let mut call = self.begin(Method::GetRateLimits, &context);
        let answer = match message_size(&request) {
            Ok(()) => self.inner.get_rate_limits(request, &context, &mut call).await,
            Err(error) => Err(error),
        };
        call.finish(answer.map(Answers::into_message))
    }

    /// `PeersV1.GetPeerRateLimits`: like [`get_rate_limits`](Self::get_rate_limits), for items that a peer
    /// already looked at. Never forwards.
    ///
    /// # Errors
    /// As [`get_rate_limits`](Self::get_rate_limits).
    pub async fn get_peer_rate_limits(
        &self,
        request: pb::GetPeerRateLimitsReq,
        context: CallContext,
    ) -> Result<pb::GetPeerRateLimitsResp, CallError> {
        let mut call = self.begin(Method::GetPeerRateLimits, &context);
        let answer = match message_size(&request) {
            Ok(()) => self.inner.get_peer_rate_limits(&request, &context, &mut call),
            Err(error) => Err(error),
        };
        call.finish(answer)
    }

    /// `PeersV1.UpdatePeerGlobals`: takes over what the owner of GLOBAL keys says about them. Items without a
    /// status are skipped and counted.
    ///
    /// # Errors
    /// Too large a message, or a deadline that has passed; nothing was applied then.
    pub async fn update_peer_globals(
        &self,
        request: pb::UpdatePeerGlobalsReq,
        context: CallContext,
    ) -> Result<pb::UpdatePeerGlobalsResp, CallError> {
        let mut call = self.begin(Method::UpdatePeerGlobals, &context);
        let answer = match message_size(&request) {
            Ok(()) => self.inner.update_peer_globals(&request, &context, &mut call),
            Err(error) => Err(error),
        };
        call.finish(answer)
    }

    /// Takes the complete set of peers that there are now, this node itself included, under the address it advertises. The
    /// set that is known already changes nothing; peers that stay keep their connections. A node that was never
    /// told of any is alone.
    pub async fn set_peers(&self, peers: Vec<PeerInfo>) {
        self.inner.set_peers(peers).await;
    }

    /// Why the node is alone although it has a source of peers; nothing once it has had a set, or without a source.
    pub fn missing_peers(&self) -> Option<String> {
        self.inner.peer_source.missing()
    }

    /// `V1.HealthCheck`: whether the node and the peers it knows are well. A node alone is well and its own
    /// only peer.
    ///
    /// # Errors
    /// [`CallError::ShuttingDown`] once it is closing. An unhealthy node is an error on the wire.
    pub fn health(&self) -> Result<pb::HealthCheckResp, CallError> {
        let mut call = self.begin(Method::HealthCheck, &CallContext::default());
        let answer = self.inner.health(&mut call);
        call.finish(answer)
    }

    /// `V1.LiveCheck`: whether the process runs.
    ///
    /// # Errors
    /// [`CallError::ShuttingDown`] once it is closing.
    pub fn live(&self) -> Result<pb::LiveCheckResp, CallError> {
        let call = self.begin(Method::LiveCheck, &CallContext::default());
        call.finish(self.inner.live())
    }

    /// Whether this node wants checks, for readiness probes. It does until it drains or closes.
    pub fn is_ready(&self) -> bool {
        !self.inner.draining.load(Ordering::Relaxed) && !self.inner.closing.is_cancelled()
    }

    /// Asks to be sent no more: readiness fails from here on, so that load balancers turn away. Everything else
    /// goes on: the node answers, and it is as healthy and alive as before.
    pub fn drain(&self) {
        self.inner.draining.store(true, Ordering::Relaxed);
    }

    /// Says goodbye: what GLOBAL limits still owe to other nodes is sent, for as long as the global timeout allows; then
    /// health, liveness and readiness fail, and background work stops. Checks that still arrive are answered.
    pub async fn close(&self) {
        self.drain();
        self.inner.flush().await;
        self.inner.closing.cancel();
    }

    /// The body of a request, under the node's bounds for messages that are still arriving. gRPC services do this
    /// themselves; for who serves the node another way.
    pub fn receive<B>(&self, body: B) -> Arriving<B> {
        Arriving::new(body, self.clone())
    }

    /// The rules by which the node judges.
    pub fn rules(&self) -> &Rules {
        &self.inner.rules
    }

    /// The node's counters and their page.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    fn begin(&self, method: Method, context: &CallContext) -> Call<'_> {
        let inner = &*self.inner;
        Call::begin(&inner.metrics, inner.tracing.as_ref(), method, || (context.trace.clone(), None))
    }
}

/// gRPC refuses large messages before they are decoded; what comes another way is measured here.
fn message_size(message: &impl Message) -> Result<(), CallError> {
    match message.encoded_len() {
        bytes if bytes > MESSAGE_BYTES_MAX => Err(CallError::MessageTooLarge(bytes)),
        _ => Ok(()),
    }
}
