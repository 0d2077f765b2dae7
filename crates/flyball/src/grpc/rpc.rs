//! The five methods as types: who may call, how much there is to do, and who answers.

use std::future::Future;

use flyball_proto::answers::Answers;
use http::HeaderMap;
use prost::Message;

use crate::call::{Call, CallContext};
use crate::error::CallError;
use crate::method::Method;
use crate::metrics::counters::Tally;
use crate::pb;
use crate::peers::guard::CallOrigin;
use crate::service::Inner;

/// One method of the wire.
pub(super) trait Rpc: 'static {
    const METHOD: Method;
    type Request: Message + Default + 'static;
    type Answer: Message + Default + 'static;

    /// Whether this caller may.
    fn admit(_: &Inner, _: CallOrigin, _: &HeaderMap) -> Result<(), CallError> {
        Ok(())
    }

    /// How much there is to do.
    fn items(_: &Self::Request) -> usize {
        0
    }

    fn answer(
        node: &Inner,
        request: Self::Request,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> impl Future<Output = Result<Self::Answer, CallError>> + Send;
}

pub(super) struct GetRateLimits;

impl Rpc for GetRateLimits {
    const METHOD: Method = Method::GetRateLimits;
    type Request = pb::GetRateLimitsReq;
    type Answer = Answers;

    fn items(request: &pb::GetRateLimitsReq) -> usize {
        request.requests.len()
    }

    async fn answer(
        node: &Inner,
        request: pb::GetRateLimitsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<Answers, CallError> {
        node.get_rate_limits(request, context, call).await
    }
}

pub(super) struct HealthCheck;

impl Rpc for HealthCheck {
    const METHOD: Method = Method::HealthCheck;
    type Request = pb::HealthCheckReq;
    type Answer = pb::HealthCheckResp;

    async fn answer(
        node: &Inner,
        _: pb::HealthCheckReq,
        _: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<pb::HealthCheckResp, CallError> {
        node.health(call)
    }
}

pub(super) struct LiveCheck;

impl Rpc for LiveCheck {
    const METHOD: Method = Method::LiveCheck;
    type Request = pb::LiveCheckReq;
    type Answer = pb::LiveCheckResp;

    async fn answer(
        node: &Inner,
        _: pb::LiveCheckReq,
        _: &CallContext,
        _: &mut Call<'_>,
    ) -> Result<pb::LiveCheckResp, CallError> {
        node.live()
    }
}

/// The peers' service is for peers.
fn admit_peer(node: &Inner, from: CallOrigin, headers: &HeaderMap) -> Result<(), CallError> {
    node.guard.admit(from, headers).map_err(|refused| {
        let tally = Tally { strangers: 1, ..Tally::default() };
        node.metrics.slot().add(&tally);
        CallError::NotAPeer(refused.0)
    })
}

pub(super) struct GetPeerRateLimits;

impl Rpc for GetPeerRateLimits {
    const METHOD: Method = Method::GetPeerRateLimits;
    type Request = pb::GetPeerRateLimitsReq;
    type Answer = pb::GetPeerRateLimitsResp;

    fn admit(node: &Inner, from: CallOrigin, headers: &HeaderMap) -> Result<(), CallError> {
        admit_peer(node, from, headers)
    }

    fn items(request: &pb::GetPeerRateLimitsReq) -> usize {
        request.requests.len()
    }

    async fn answer(
        node: &Inner,
        request: pb::GetPeerRateLimitsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<pb::GetPeerRateLimitsResp, CallError> {
        node.get_peer_rate_limits(&request, context, call)
    }
}

pub(super) struct UpdatePeerGlobals;

impl Rpc for UpdatePeerGlobals {
    const METHOD: Method = Method::UpdatePeerGlobals;
    type Request = pb::UpdatePeerGlobalsReq;
    type Answer = pb::UpdatePeerGlobalsResp;

    fn admit(node: &Inner, from: CallOrigin, headers: &HeaderMap) -> Result<(), CallError> {
        admit_peer(node, from, headers)
    }

    fn items(request: &pb::UpdatePeerGlobalsReq) -> usize {
        request.globals.len()
    }

    async fn answer(
        node: &Inner,
        request: pb::UpdatePeerGlobalsReq,
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Result<pb::UpdatePeerGlobalsResp, CallError> {
        node.update_peer_globals(&request, context, call)
    }
}
