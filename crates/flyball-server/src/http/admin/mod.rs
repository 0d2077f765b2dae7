//! The admin page: a node for people to look at, and the same numbers as JSON.
//!
//! Nothing here changes anything, and every list is bounded by the node's overview. What it shows is not for
//! everybody, though: keys are names of users and addresses. So by itself it is served only by a listener on
//! loopback, elsewhere when it is switched on, and [`AdminAccess`] is the whole decision.
//!
//! On loopback the danger is a web page in the operator's own browser. It cannot read another origin's answers (there
//! are no CORS headers), unless it makes its own host name resolve to 127.0.0.1: then it *is* the same origin. What
//! it cannot change is the name in `Host`, so only names that nobody else can point here are answered. Rejected: a
//! token in the URL, which would end the point of a page that is simply there.
//!
//! Keys are written by whoever sends checks. The page puts them on screen as text and nothing else, and a
//! `Content-Security-Policy` with the hash of its one script makes sure that nothing else could run.

mod json;
mod page;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use flyball::Node;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::uri::Authority;
use http::{HeaderMap, Uri};
use tonic::Code;

use super::answer::{self, Answer};
use crate::config::{AdminSwitch, HostPort};

/// Who is shown the admin page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminAccess {
    /// Nobody: its paths are as unknown as any other.
    #[default]
    Off,
    /// Who asks for a loopback address, for `localhost`, or for this host.
    ThisMachine(Arc<str>),
    /// Everybody who reaches the listener.
    Everybody,
}

impl AdminAccess {
    /// What the setting means for a listener that was asked for as `address` and got `bound`.
    pub fn new(switch: AdminSwitch, address: &HostPort, bound: SocketAddr) -> Self {
        match switch {
            AdminSwitch::On => Self::Everybody,
            AdminSwitch::Auto if bound.ip().to_canonical().is_loopback() => {
                Self::ThisMachine(address.host.as_str().into())
            }
            AdminSwitch::Auto | AdminSwitch::Off => Self::Off,
        }
    }

    /// Whether a request is answered, going by the host it was meant for.
    fn admits(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let configured = match self {
            Self::Off => return false,
            Self::ThisMachine(host) => host,
            Self::Everybody => return true,
        };
        // The host in the request line counts more than the header: RFC 9112, 3.2.2.
        let Some(host) = uri.host().map(str::to_owned).or_else(|| header_host(headers)) else {
            return false;
        };
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        let is_loopback = bare.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
        let is_configured = !configured.is_empty() && bare.eq_ignore_ascii_case(configured);
        is_loopback || bare.eq_ignore_ascii_case("localhost") || is_configured
    }
}

/// The host of the only `Host` header, without its port.
fn header_host(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(HOST).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let authority = Authority::try_from(value.as_bytes()).ok()?;
    // `user@host` is no host.
    (!authority.as_str().contains('@')).then(|| authority.host().to_owned())
}

/// What there is to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Page,
    Overview,
    Peers,
    Top,
    Global,
    Store,
}

impl View {
    pub(super) fn at(path: &[u8]) -> Option<Self> {
        Some(match path {
            b"/" => Self::Page,
            b"/v1/admin/overview" => Self::Overview,
            b"/v1/admin/peers" => Self::Peers,
            b"/v1/admin/top" => Self::Top,
            b"/v1/admin/global" => Self::Global,
            b"/v1/admin/store" => Self::Store,
            _ => return None,
        })
    }
}

/// The answer to a request for `view`.
pub(super) fn answer(
    access: &AdminAccess,
    view: View,
    node: &Node,
    uri: &Uri,
    headers: &HeaderMap,
) -> Answer {
    if !access.admits(uri, headers) {
        return answer::error(
            Code::PermissionDenied,
            "the admin page answers here only under localhost, a loopback address or the configured host; \
             to show it under any name, set FLYBALL_HTTP_ADMIN=on",
        );
    }
    let mut answer = match view {
        View::Page => answer::html(page::HTML),
        View::Overview => answer::json(json::overview(&node.overview())),
        View::Peers => answer::json(json::peers(&node.overview())),
        View::Top => answer::json(json::top(&node.overview())),
        View::Global => answer::json(json::global(&node.overview())),
        View::Store => answer::json(json::store(&node.overview())),
    };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, page::policy());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    answer
}

#[cfg(test)]
mod tests;
