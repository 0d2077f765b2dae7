//! Failures that no handler sees, in the words the contract has for them.
//!
//! tonic measures, decompresses and dispatches before our code runs, and describes what it finds in its own
//! way. Two of its texts are recognised and replaced here, once a call has failed anyway; a test provokes each
//! of them, so a tonic that words them differently does not go unnoticed. Rejected: a body that peeks at the
//! length prefix of every message, which would make all calls pay.

use http::{HeaderMap, Method, StatusCode};
use tonic::body::Body;
use tonic::{Code, Status};

use super::timeout;
use crate::MESSAGE_BYTES_MAX;
use crate::error::CallError;
use crate::method::{PEERS_V1, V1};

/// UNIMPLEMENTED, naming the unknown service, or the unknown method of a known one.
pub(super) fn unknown(path: &str) -> http::Response<Body> {
    let text = match path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) {
        Some((service @ (V1 | PEERS_V1), method)) => format!("unknown method {method} for service {service}"),
        Some((service, _)) => format!("unknown service {service}"),
        None => format!("malformed method name: {path:?}"),
    };
    Status::unimplemented(text).into_http()
}

/// What makes a request no gRPC call at all, in the order in which the original looks: then it is told twice, by
/// the HTTP status and as a gRPC error. Such a request does not count as a call.
pub(super) fn of_request(method: &Method, headers: &HeaderMap) -> Option<http::Response<Body>> {
    let (http_status, status) = if !is_grpc(headers) {
        let found = headers.get("content-type").map_or(&b""[..], |value| value.as_bytes());
        let text = format!("invalid gRPC request content-type {:?}", String::from_utf8_lossy(found));
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, Status::invalid_argument(text))
    } else if let Err(malformed) = timeout::of_headers(headers) {
        (StatusCode::BAD_REQUEST, malformed)
    } else if method != Method::POST {
        let text =
            format!("Received a HEADERS frame with :method {:?} which should be POST", method.as_str());
        (StatusCode::METHOD_NOT_ALLOWED, Status::internal(text))
    } else {
        return None;
    };
    let mut response = status.into_http();
    *response.status_mut() = http_status;
    Some(response)
}

/// `application/grpc`, alone or with a subtype (`+proto`) or parameters after it.
fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get_all("content-type").iter().any(|value| {
        let rest = value.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    })
}

/// The refusal of a compression nobody here reads.
pub(super) fn of_encoding(headers: &HeaderMap) -> Option<Status> {
    let encoding = headers.get("grpc-encoding")?;
    match encoding.as_bytes() {
        b"" | b"identity" | b"gzip" => None,
        _ => {
            let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
            let mut status = Status::unimplemented(text);
            let accepted = tonic::metadata::MetadataValue::from_static("gzip,identity");
            status.metadata_mut().insert("grpc-accept-encoding", accepted);
            Some(status)
        }
    }
}

/// The contract's words for a failure that tonic worded; `None` when they need no change.
pub(super) fn reworded(status: &Status) -> Option<Status> {
    match status.code() {
        Code::OutOfRange => {
            let found = status.message().strip_prefix("Error, decoded message length too large: found ")?;
            let bytes = found.split(' ').next()?.parse().ok()?;
            Some(CallError::MessageTooLarge(bytes).into())
        }
        Code::ResourceExhausted if status.message().starts_with("Error decompressing: size limit") => {
            Some(Status::resource_exhausted(format!(
                "grpc: received message after decompression larger than max {MESSAGE_BYTES_MAX}"
            )))
        }
        _ => None,
    }
}
