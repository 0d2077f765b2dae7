//! One call, over gRPC or HTTP/JSON, as cheaply as a library allows: hyper's connections without a client on
//! top, bodies that are already encoded, and answers read only for what is counted.

use std::borrow::Cow;
use std::fmt;
use std::io;

use anyhow::Context as _;
use bytes::{Buf as _, Bytes};
use clap::ValueEnum;
use flyball_core::cluster::host_of;
use flyball_proto::pb::Status;
use flyball_server::tls::{Alpn, TlsClient};
use http::header::{CONTENT_TYPE, HOST, TE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message as _;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How the node is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    /// gRPC: many calls at a time on each connection.
    Grpc,
    /// HTTP/1.1 with JSON: one call at a time on each connection.
    Http,
}

/// Why a call got no answer. Its text is the name under which it is counted, so there are few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect(io::ErrorKind),
    Secure,
    Lost,
    Timeout,
    Grpc(tonic::Code),
    Http(StatusCode),
    Unreadable,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(kind) => write!(f, "connect: {kind}"),
            Self::Secure => f.write_str("TLS handshake"),
            Self::Lost => f.write_str("connection lost"),
            Self::Timeout => f.write_str("timeout"),
            Self::Grpc(code) => write!(f, "grpc: {code:?}"),
            Self::Http(status) => write!(f, "http: {status}"),
            Self::Unreadable => f.write_str("unreadable answer"),
        }
    }
}

impl Failure {
    /// Whether this is how a port fails that speaks something else than was expected.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, Self::Lost | Self::Unreadable | Self::Http(_) | Self::Grpc(tonic::Code::Unimplemented))
    }
}

/// What the items of one answer say, summed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// Items with a decision.
    pub(crate) decisions: u64,
    pub(crate) over_limit: u64,
    pub(crate) never_fits: u64,
    pub(crate) scheduled: u64,
    /// Items without a decision, and the first reason.
    pub(crate) refused: u64,
    pub(crate) reason: Option<String>,
}

impl Verdicts {
    fn count(&mut self, status: i32, error: &str) {
        if !error.is_empty() {
            self.refused += 1;
            self.reason.get_or_insert_with(|| error.to_owned());
            return;
        }
        self.decisions += 1;
        match Status::try_from(status) {
            Ok(Status::OverLimit) => self.over_limit += 1,
            Ok(Status::NeverFits) => self.never_fits += 1,
            Ok(Status::Scheduled) => self.scheduled += 1,
            Ok(Status::UnderLimit) | Err(_) => {}
        }
    }
}

/// An open connection, or a share in one.
#[derive(Debug)]
pub(crate) enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// A second share, where the protocol allows one.
    pub(crate) fn share(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }
}

/// The node, and all of a call that is the same every time.
#[derive(Debug)]
pub(crate) struct Target {
    protocol: Protocol,
    authority: String,
    tls: Option<TlsClient>,
    uri: Uri,
    headers: HeaderMap,
}

/// 1000 answers need a tenth of this; a node that sends more is not a node.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// HTTP/2 flow control: large enough that no call of 1000 items waits for it.
const WINDOW_BYTES: u32 = 1 << 20;

impl Protocol {
    /// What a handshake of TLS agrees on.
    pub(crate) const fn alpn(self) -> Alpn {
        match self {
            Self::Grpc => Alpn::Http2,
            Self::Http => Alpn::Http1,
        }
    }
}

impl Target {
    pub(crate) fn new(protocol: Protocol, authority: String, tls: Option<TlsClient>) -> anyhow::Result<Self> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut headers = HeaderMap::new();
        let uri = match protocol {
            Protocol::Grpc => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                headers.insert(TE, HeaderValue::from_static("trailers"));
                format!("{scheme}://{authority}/pb.gubernator.V1/GetRateLimits").parse()
            }
            Protocol::Http => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(HOST, HeaderValue::from_str(&authority)?);
                "/v1/GetRateLimits".parse()
            }
        };
        Ok(Self { protocol, uri: uri.context("not an address")?, authority, tls, headers })
    }

    /// Opens a connection. It lives in a task of its own and ends with its last [`Sender`].
    pub(crate) async fn connect(&self) -> Result<Sender, Failure> {
        let stream =
            TcpStream::connect(&self.authority).await.map_err(|error| Failure::Connect(error.kind()))?;
        // Small calls must not wait to be sent together. Without the option they are merely slower.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => self.speak(stream).await,
            Some(tls) => {
                let secured = tls.secure(host_of(&self.authority), stream).await;
                self.speak(secured.map_err(|_| Failure::Secure)?).await
            }
        }
    }

    async fn speak<S>(&self, stream: S) -> Result<Sender, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(stream);
        match self.protocol {
            Protocol::Grpc => {
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .initial_stream_window_size(WINDOW_BYTES)
                    .initial_connection_window_size(4 * WINDOW_BYTES)
                    .handshake(stream)
                    .await
                    .map_err(|_| Failure::Lost)?;
                tokio::spawn(connection);
                Ok(Sender::Http2(sender))
            }
            Protocol::Http => {
                let (sender, connection) = http1::handshake(stream).await.map_err(|_| Failure::Lost)?;
                tokio::spawn(connection);
                Ok(Sender::Http1(sender))
            }
        }
    }

    /// Sends a body and reads its answer of `items` items.
    pub(crate) async fn call(
        &self,
        sender: &mut Sender,
        body: Bytes,
        items: usize,
    ) -> Result<Verdicts, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let response = match sender {
            Sender::Http1(sender) => {
                sender.ready().await.map_err(|_| Failure::Lost)?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await.map_err(|_| Failure::Lost)?;
                sender.send_request(request).await
            }
        };
        let (head, body) = response.map_err(|_| Failure::Lost)?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|_| Failure::Lost)?;
        let trailers = body.trailers().cloned();
        let bytes = body.to_bytes();
        let verdicts = match self.protocol {
            Protocol::Grpc => {
                grpc_status(trailers.as_ref().unwrap_or(&head.headers), head.status)?;
                read_grpc(bytes)?
            }
            Protocol::Http if head.status == StatusCode::OK => read_json(&bytes)?,
            Protocol::Http => return Err(Failure::Http(head.status)),
        };
        if verdicts.decisions + verdicts.refused == items as u64 {
            Ok(verdicts)
        } else {
            Err(Failure::Unreadable)
        }
    }
}

/// gRPC tells its status in the trailers, or in the headers when there is nothing else.
fn grpc_status(headers: &HeaderMap, status: StatusCode) -> Result<(), Failure> {
    match headers.get("grpc-status").map(HeaderValue::as_bytes) {
        Some(b"0") => Ok(()),
        Some(code) => Err(Failure::Grpc(tonic::Code::from_bytes(code))),
        None if status != StatusCode::OK => Err(Failure::Http(status)),
        None => Err(Failure::Unreadable),
    }
}

/// The part of a response that is counted; what else there is, the decoder skips.
#[derive(prost::Message)]
struct Answer {
    #[prost(message, repeated, tag = "1")]
    responses: Vec<Item>,
}

#[derive(prost::Message)]
struct Item {
    #[prost(int32, tag = "1")]
    status: i32,
    #[prost(string, tag = "5")]
    error: String,
}

fn read_grpc(mut bytes: Bytes) -> Result<Verdicts, Failure> {
    if bytes.len() < 5 || bytes.get_u8() != 0 || bytes.get_u32() as usize != bytes.len() {
        return Err(Failure::Unreadable);
    }
    let answer = Answer::decode(bytes).map_err(|_| Failure::Unreadable)?;
    let mut verdicts = Verdicts::default();
    for item in &answer.responses {
        verdicts.count(item.status, &item.error);
    }
    Ok(verdicts)
}

fn read_json(bytes: &[u8]) -> Result<Verdicts, Failure> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        responses: Vec<Item<'a>>,
    }
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow)]
        status: Cow<'a, str>,
        #[serde(borrow)]
        error: Cow<'a, str>,
    }
    let answer: Answer<'_> = serde_json::from_slice(bytes).map_err(|_| Failure::Unreadable)?;
    let mut verdicts = Verdicts::default();
    for item in &answer.responses {
        let status = Status::from_str_name(&item.status).unwrap_or_default();
        verdicts.count(status.into(), &item.error);
    }
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_proto::pb;

    fn answer() -> pb::GetRateLimitsResp {
        let item = |status: Status, error: &str| pb::RateLimitResp {
            status: status.into(),
            limit: 10,
            remaining: 3,
            reset_time: 1_790_000_000_000,
            error: error.to_owned(),
            metadata: [("owner".to_owned(), "a:1".to_owned())].into(),
            retry_after: 5,
        };
        pb::GetRateLimitsResp {
            responses: vec![
                item(Status::UnderLimit, ""),
                item(Status::OverLimit, ""),
                item(Status::OverLimit, ""),
                item(Status::NeverFits, ""),
                item(Status::Scheduled, ""),
                item(Status::UnderLimit, "first"),
                item(Status::OverLimit, "second"),
            ],
        }
    }

    fn expected() -> Verdicts {
        Verdicts {
            decisions: 5,
            over_limit: 2,
            never_fits: 1,
            scheduled: 1,
            refused: 2,
            reason: Some("first".to_owned()),
        }
    }

    #[test]
    fn grpc_answers_are_counted() {
        let message = answer().encode_to_vec();
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        bytes.extend(message);
        assert_eq!(read_grpc(bytes.clone().into()), Ok(expected()));
        for broken in
            [&bytes[..4], &bytes[..bytes.len() - 1], &[1, 0, 0, 0, 0][..], &[0, 0, 0, 0, 1, 255][..]]
        {
            assert_eq!(read_grpc(Bytes::copy_from_slice(broken)), Err(Failure::Unreadable));
        }
    }

    #[test]
    fn json_answers_are_counted() {
        let items: Vec<_> = answer()
            .responses
            .iter()
            .map(|item| serde_json::json!({
                "status": item.status().as_str_name(), "limit": "10", "remaining": "3", "error": item.error,
                "metadata": item.metadata
            }))
            .collect();
        let body = serde_json::json!({ "responses": items }).to_string();
        assert_eq!(read_json(body.as_bytes()), Ok(expected()));
        assert_eq!(read_json(b"<html>"), Err(Failure::Unreadable));
    }

    #[test]
    fn the_status_of_a_grpc_answer_decides() {
        let with =
            |code: &str| HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())]);
        assert_eq!(grpc_status(&with("0"), StatusCode::OK), Ok(()));
        assert_eq!(
            grpc_status(&with("8"), StatusCode::OK),
            Err(Failure::Grpc(tonic::Code::ResourceExhausted))
        );
        assert_eq!(grpc_status(&HeaderMap::new(), StatusCode::OK), Err(Failure::Unreadable));
        assert_eq!(
            grpc_status(&HeaderMap::new(), StatusCode::BAD_GATEWAY),
            Err(Failure::Http(StatusCode::BAD_GATEWAY))
        );
    }
}
