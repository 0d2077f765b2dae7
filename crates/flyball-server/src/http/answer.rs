//! Responses: a status, a content type and a body that is already whole.

use bytes::Bytes;
use flyball::status::http_status;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use tonic::Code;

use super::json::error_body;

pub(super) type Answer = Response<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

fn answer(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// A document.
pub(super) fn json(body: impl Into<Bytes>) -> Answer {
    answer(StatusCode::OK, JSON, body)
}

/// A page for a browser.
pub(super) fn html(page: &'static str) -> Answer {
    answer(StatusCode::OK, HTML, page)
}

/// The good answer of an API call. The second header is the trace of the gRPC connection that the original has
/// inside.
pub(super) fn call(body: Bytes) -> Answer {
    let mut answer = json(body);
    answer.headers_mut().insert(
        HeaderName::from_static("grpc-metadata-content-type"),
        HeaderValue::from_static("application/grpc"),
    );
    answer
}

/// The body every refused call has; the status follows from the code.
pub(super) fn error(code: Code, message: &str) -> Answer {
    answer(http_status(code), JSON, error_body(code, message))
}

/// A line for a person or a probe.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, TEXT, body)
}

/// A page for a scraper.
pub(super) fn metrics(page: String) -> Answer {
    answer(StatusCode::OK, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"), page)
}

/// The request line makes no sense; nothing more is read from this connection.
pub(super) fn malformed() -> Answer {
    let mut answer = text(StatusCode::BAD_REQUEST, "400 Bad Request: the path is malformed");
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Ask there instead, with the same method.
pub(super) fn redirect(method: &Method, location: &str) -> Answer {
    // A path comes from a parsed URI, so it is a header value.
    let Ok(value) = HeaderValue::from_str(location) else {
        return malformed();
    };
    let mut answer = if method == Method::GET || method == Method::HEAD {
        let page = format!("<a href=\"{}\">Temporary Redirect</a>.\n\n", html_escape(location));
        answer(StatusCode::TEMPORARY_REDIRECT, HTML, page)
    } else {
        let mut answer = Response::new(Full::default());
        *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        answer
    };
    answer.headers_mut().insert(LOCATION, value);
    answer
}

fn html_escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}
