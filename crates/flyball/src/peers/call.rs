//! One gRPC call to a peer, and what its failure means.
//!
//! Messages are handed over as bytes: a batch is put together from groups that were encoded when they were
//! gathered, and a broadcast is encoded once for all its receivers.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use flyball_core::cluster::Failure;
use http::Uri;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};
use tower::service_fn;

use super::connection::Connections;
use crate::grpc::codec::decode;
use crate::method::Method;

/// The largest answer that is read. A thousand items with their metadata are far below.
const ANSWER_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Why a call to a peer has no answer.
#[derive(Clone, Debug)]
pub(crate) struct PeerError {
    /// What may have happened at the peer.
    pub(crate) failure: Failure,
    /// The gRPC code.
    pub(crate) code: Code,
    /// In gRPC's words.
    pub(crate) text: String,
}

impl PeerError {
    /// It never left this node.
    pub(crate) fn not_sent(text: impl Into<String>) -> Self {
        Self { failure: Failure::NotSent, code: Code::Unavailable, text: text.into() }
    }

    /// `headed`: the peer had begun to answer.
    fn from_status(status: &Status, headed: bool) -> Self {
        // The peer's own words have no source; what happened on the way has.
        let broken = status.source().is_some();
        let mut cause = status.source();
        while let Some(error) = cause.filter(|error| !error.is::<hyper::Error>()) {
            cause = error.source();
        }
        let hyper = cause.and_then(|error| error.downcast_ref::<hyper::Error>());
        let failure = match status.code() {
            _ if hyper.is_some_and(hyper::Error::is_canceled) => Failure::NotSent,
            _ if !headed && hyper.is_some_and(is_refused) => Failure::NotTaken,
            Code::OutOfRange
            | Code::InvalidArgument
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented
            | Code::ResourceExhausted
                if !broken =>
            {
                Failure::Answered
            }
            _ => Failure::Unanswered,
        };
        Self { failure, code: status.code(), text: status.message().to_owned() }
    }

    /// As the original logs and remembers it.
    pub(crate) fn rpc_error(&self) -> String {
        format!("rpc error: code = {} desc = {}", code_name(self.code), self.text)
    }
}

/// The peer has certainly not looked at the request (RFC 9113, 6.8 and 8.7): it refused the stream, or is going away and
/// named a stream before this one as the last that it takes. Of the others the connection says nothing when it goes.
fn is_refused(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|error| {
        let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (refused || error.is_go_away())
    })
}

/// Go's name of a code, which clients of the original match.
const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// Metadata entry with the secret that peers share, if one is configured.
pub(crate) const SECRET: &str = "flyball-peer-secret";

/// What all calls to one peer have in common.
#[derive(Debug)]
pub(crate) struct Caller {
    connections: Connections,
    origin: Uri,
    secret: Option<tonic::metadata::AsciiMetadataValue>,
}

impl Caller {
    /// For a peer at `address`.
    pub(crate) fn new(address: &str, connections: Connections, secret: Option<&str>) -> Self {
        let scheme = if connections.is_secured() { "https" } else { "http" };
        let origin = Uri::builder().scheme(scheme).authority(address).path_and_query("/").build();
        Self {
            connections,
            // An address that is no authority cannot be dialled either, which says so better.
            origin: origin.unwrap_or_else(|_| Uri::from_static("http://peer/")),
            secret: secret.and_then(|secret| secret.parse().ok()),
        }
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Calls `method` with an encoded message. Ends within `timeout`, with an answer or the reason why there is none.
    pub(crate) async fn call<A>(
        &self,
        method: Method,
        message: Bytes,
        timeout: Duration,
    ) -> Result<A, PeerError>
    where
        A: Message + Default + 'static,
    {
        // Set from the first moment at which bytes of the call may leave.
        let sent = AtomicBool::new(false);
        let called = tokio::time::timeout(timeout, self.attempt(method, message, timeout, &sent)).await;
        called.unwrap_or_else(|_| {
            let failure = if sent.load(Relaxed) { Failure::Unanswered } else { Failure::NotSent };
            Err(PeerError {
                failure,
                code: Code::DeadlineExceeded,
                text: "context deadline exceeded".to_owned(),
            })
        })
    }

    async fn attempt<A>(
        &self,
        method: Method,
        message: Bytes,
        timeout: Duration,
        sent: &AtomicBool,
    ) -> Result<A, PeerError>
    where
        A: Message + Default + 'static,
    {
        let mut first = true;
        loop {
            let sender =
                self.connections.get().await.map_err(|error| PeerError::not_sent(error.to_string()))?;
            sent.store(true, Relaxed);
            let called = self.send(sender, method, message.clone(), timeout).await;
            match called {
                // The connection ended between two calls, or just when this one came: that says nothing about the peer.
                Err(error) if error.failure.is_without_trace() && first => first = false,
                other => return other,
            }
            sent.store(false, Relaxed);
        }
    }

    async fn send<A>(
        &self,
        sender: hyper::client::conn::http2::SendRequest<tonic::body::Body>,
        method: Method,
        message: Bytes,
        timeout: Duration,
    ) -> Result<A, PeerError>
    where
        A: Message + Default + 'static,
    {
        let headed = AtomicBool::new(false);
        let service = service_fn(|request| {
            let (mut sender, headed) = (sender.clone(), &headed);
            async move {
                let response = sender.send_request(request).await?;
                headed.store(true, Relaxed);
                Ok::<_, hyper::Error>(response)
            }
        });
        let mut request = Request::new(message);
        request.set_timeout(timeout);
        if let Some(secret) = &self.secret {
            request.metadata_mut().insert(SECRET, secret.clone());
        }
        let mut grpc =
            Grpc::with_origin(service, self.origin.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        let path = PathAndQuery::from_static(method.path());
        let answer = grpc.unary(request, path, BytesCodec::<A>::default()).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| PeerError::from_status(&status, headed.load(Relaxed)))
    }
}

/// Bytes out, a message in.
struct BytesCodec<A>(std::marker::PhantomData<fn() -> A>);

impl<A> Default for BytesCodec<A> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<A: Message + Default + 'static> Codec for BytesCodec<A> {
    type Encode = Bytes;
    type Decode = A;
    type Encoder = BytesEncoder;
    type Decoder = MessageDecoder<A>;

    fn encoder(&mut self) -> BytesEncoder {
        BytesEncoder
    }

    fn decoder(&mut self) -> MessageDecoder<A> {
        MessageDecoder(std::marker::PhantomData)
    }
}

struct BytesEncoder;

impl Encoder for BytesEncoder {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

struct MessageDecoder<A>(std::marker::PhantomData<fn() -> A>);

impl<A: Message + Default> Decoder for MessageDecoder<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        decode(source)
            .map(Some)
            .map_err(|error| Status::internal(format!("an answer is no message: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::pb;

    const PREFACE_BYTES: usize = 24;
    const HEADERS: u8 = 1;
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    fn reset(stream: u8, reason: h2::Reason) -> Vec<u8> {
        [&[0, 0, 4, 3, 0, 0, 0, 0, stream][..], &u32::from(reason).to_be_bytes()].concat()
    }

    fn go_away(last: u8, reason: h2::Reason) -> Vec<u8> {
        [&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last][..], &u32::from(reason).to_be_bytes()].concat()
    }

    /// Calls a peer that answers every request with what `says` makes of its stream. Gives what became of the call, and how
    /// many requests the peer saw.
    async fn outcome(says: impl Fn(u8) -> Vec<u8>) -> (Failure, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let caller = Caller::new(&address, Connections::new(&address, Arc::default(), None, 1), None);
        let mut seen = 0;
        let peer = async {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
                stream.write_all(&SETTINGS).await.unwrap();
                let mut head = [0; 9];
                while stream.read_exact(&mut head).await.is_ok() {
                    let bytes = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                    stream.read_exact(&mut vec![0; bytes as usize]).await.unwrap();
                    if head[3] == HEADERS {
                        seen += 1;
                        stream.write_all(&says(head[8])).await.unwrap();
                        // What it will not take any more it does not wait for either.
                        if says(head[8])[3] == 7 {
                            break;
                        }
                    }
                }
            }
        };
        let timeout = Duration::from_secs(10);
        let call = caller.call::<pb::LiveCheckResp>(Method::LiveCheck, Bytes::new(), timeout);
        let failure = tokio::select! {
            answer = call => answer.unwrap_err().failure,
            () = peer => unreachable!("the peer goes on"),
        };
        (failure, seen)
    }

    #[tokio::test]
    async fn what_a_peer_has_not_taken_is_sent_once_more() {
        use h2::Reason;
        assert_eq!(outcome(|stream| reset(stream, Reason::REFUSED_STREAM)).await, (Failure::NotTaken, 2));
        for reason in [Reason::NO_ERROR, Reason::ENHANCE_YOUR_CALM] {
            let before = outcome(|_| go_away(0, reason)).await;
            assert_eq!(before, (Failure::NotTaken, 2), "{reason:?}");
        }
    }

    #[tokio::test]
    async fn what_a_peer_may_have_taken_is_not_sent_again() {
        use h2::Reason;
        for reason in [Reason::CANCEL, Reason::INTERNAL_ERROR] {
            assert_eq!(outcome(|stream| reset(stream, reason)).await, (Failure::Unanswered, 1), "{reason:?}");
        }
        for reason in [Reason::NO_ERROR, Reason::ENHANCE_YOUR_CALM] {
            let taken = outcome(|stream| go_away(stream, reason)).await;
            assert_eq!(taken, (Failure::Unanswered, 1), "{reason:?}");
        }
        let late = |stream| {
            [&[0, 0, 1, 1, 4, 0, 0, 0, stream, 0x88][..], &reset(stream, Reason::REFUSED_STREAM)].concat()
        };
        assert_eq!(outcome(late).await, (Failure::Unanswered, 1), "it had begun to answer");
    }
}
