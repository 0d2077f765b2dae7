//! Calls straight into the services, byte by byte, without a network.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use flyball::{ClusterSettings, FakeClock, Node, PeerAccess, Rules, Semantics, Settings, Timestamp, pb};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tonic::Code;
use tower::Service;

pub(crate) const GET: &str = "/pb.gubernator.V1/GetRateLimits";
pub(crate) const HEALTH: &str = "/pb.gubernator.V1/HealthCheck";
pub(crate) const LIVE: &str = "/pb.gubernator.V1/LiveCheck";
pub(crate) const PEER_GET: &str = "/pb.gubernator.PeersV1/GetPeerRateLimits";
pub(crate) const PEER_UPDATE: &str = "/pb.gubernator.PeersV1/UpdatePeerGlobals";

/// The moment at which tests play.
pub(crate) const NOW: Timestamp = Timestamp(1_800_000_000_000);

pub(crate) fn clock() -> Arc<FakeClock> {
    Arc::new(FakeClock::new(NOW))
}

pub(crate) fn settings(semantics: Semantics) -> Settings {
    Settings {
        advertise_address: "10.0.0.1:1051".to_owned(),
        data_center: "dc-a".to_owned(),
        rules: Rules { semantics, ..Rules::default() },
        // Calls of these tests come from nowhere, or from loopback.
        cluster: ClusterSettings {
            access: PeerAccess { open: true, ..PeerAccess::default() },
            ..ClusterSettings::default()
        },
        ..Settings::default()
    }
}

pub(crate) fn node() -> Node {
    Node::builder().settings(settings(Semantics::Exact)).clock(clock()).build()
}

/// Ten per minute of a token bucket.
pub(crate) fn item(key: &str) -> pb::RateLimitReq {
    pb::RateLimitReq {
        name: "n".to_owned(),
        unique_key: key.to_owned(),
        hits: 1,
        limit: 10,
        duration: 60_000,
        ..Default::default()
    }
}

pub(crate) fn ask(items: Vec<pb::RateLimitReq>) -> pb::GetRateLimitsReq {
    pb::GetRateLimitsReq { requests: items }
}

/// A message with gRPC's prefix.
pub(crate) fn frame(payload: &[u8], compressed: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(payload.len() + 5);
    frame.put_u8(u8::from(compressed));
    frame.put_u32(u32::try_from(payload.len()).unwrap());
    frame.put_slice(payload);
    frame.freeze()
}

pub(crate) fn post<B>(path: &str, headers: &[(&str, &str)], body: B) -> http::Request<B> {
    let mut request = http::Request::post(path).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) http_status: u16,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The answer of a call that succeeded.
    pub(crate) fn decode<M: Message + Default>(&self) -> M {
        assert_eq!(self.code, Code::Ok, "{}", self.message);
        M::decode(&self.body[5..]).unwrap()
    }

    pub(crate) fn error(&self) -> (Code, &str) {
        (self.code, &self.message)
    }
}

/// Sends one request to a service.
pub(crate) async fn send<S, B>(mut service: S, request: http::Request<B>) -> Reply
where
    S: Service<http::Request<B>, Response = http::Response<tonic::body::Body>>,
    S::Error: std::fmt::Debug,
{
    let (parts, body) = service.call(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = tonic::Status::from_header_map(&parts.headers)
        .or_else(|| tonic::Status::from_header_map(&trailers))
        .expect("a status in headers or trailers");
    Reply {
        http_status: parts.status.as_u16(),
        code: status.code(),
        message: status.message().to_owned(),
        headers: parts.headers,
        body: body.to_bytes(),
    }
}

/// Sends a message to the method of this path.
pub(crate) async fn call(node: &Node, path: &str, headers: &[(&str, &str)], message: &impl Message) -> Reply {
    call_raw(node, path, headers, frame(&message.encode_to_vec(), false)).await
}

/// Sends bytes to the method of this path.
pub(crate) async fn call_raw(node: &Node, path: &str, headers: &[(&str, &str)], body: Bytes) -> Reply {
    send(flyball::grpc::routes(node), post(path, headers, Full::new(body))).await
}
