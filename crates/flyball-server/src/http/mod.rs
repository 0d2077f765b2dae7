//! The HTTP port: the JSON API, metrics, probes and their description.
//!
//! It answers as the gateway in front of Gubernator does, oddities of paths, methods and status codes included,
//! because clients, probes and dashboards have grown around them; what that gateway does not know
//! (`/healthz`, `/openapi.json`, …) stands beside it. One request goes straight down: [`serve()`] reads it off a
//! connection, `route` decides what it asks for, [`HttpService`] asks the node (in this process: there is no
//! inner gRPC connection), `json` and `answer` write what came of it.
//!
//! No web framework: there are a dozen routes, all with fixed paths, and every rule about them that a framework
//! brings along (405 for a wrong method, merged slashes, its own error bodies) would have to be undone.
//!
//! | bound | value | at the bound |
//! |---|---|---|
//! | message as protobuf | 1 MiB | 429, code 8 |
//! | body as sent | [`BODY_BYTES_MAX`] | 429, code 8; the connection is closed |
//! | time for a body | [`BODY_WITHIN`], or the caller's deadline | 504, code 4 |
//! | header section | [`serve::HEADER_BYTES_MAX`] and 100 lines | 431 |
//! | time for a header section, and between requests | [`serve::HEADER_WITHIN`] | the connection is closed |
//! | connections | [`serve::CONNECTIONS_MAX`] | later ones wait to be accepted |

mod admin;
mod answer;
mod deadline;
pub mod json;
pub mod openapi;
mod path;
mod route;
pub mod serve;
mod service;

pub use admin::AdminAccess;
pub use serve::serve;
pub use service::{BODY_BYTES_MAX, BODY_WITHIN, HttpService};

/// Which of the additions to the original's routes are served. All but the admin page are by default.
///
/// Rules for JSON are not an option of their own: they follow the semantics of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// `/healthz`, `/livez` and `/readyz`.
    pub health_routes: bool,
    /// `/openapi.json`.
    pub openapi: bool,
    /// `/` and `/v1/admin/…`.
    pub admin: AdminAccess,
    /// Only health and metrics: what a probe or a scraper without a certificate may see. Everything else is unknown, in
    /// the plain words of the original's status listener.
    pub status_only: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { health_routes: true, openapi: true, admin: AdminAccess::Off, status_only: false }
    }
}
