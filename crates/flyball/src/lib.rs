//! A rate limiter node to embed: bucket store, wire services and background work behind one handle.
//!
//! ```
//! use flyball::{Behavior, Key, Node, Request, Status};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let node = Node::builder().build();
//! let request = Request {
//!     key: Key { name: "logins", unique_key: "account:17" },
//!     hits: 1,
//!     limit: 10,
//!     duration: 60_000,
//!     algorithm: 0,
//!     behavior: Behavior::default(),
//!     burst: 0,
//!     created_at: None,
//!     max_wait: 0,
//! };
//! let decision = node.check(&request)?;
//! assert_eq!((decision.status, decision.remaining), (Status::UnderLimit, 9));
//! # Ok::<(), flyball::CheckError>(()) }).unwrap();
//! ```
//!
//! In reading order: [`Node`] and its [`NodeBuilder`]; [`grpc`] for who wants to serve it; [`Metrics`].
//! A node knows no listener and no configuration file: that is the daemon's part.
#![deny(missing_docs)]

mod builder;
mod call;
mod clock;
mod error;
mod fallback;
mod forward;
mod global;
pub mod grpc;
pub mod intake;
mod judge;
mod membership;
mod method;
pub mod metrics;
mod node;
pub mod overview;
mod peer_source;
mod peers;
mod service;
mod settings;
pub mod status;
mod sweep;
mod top_keys;
mod trace;

pub use builder::NodeBuilder;
pub use call::CallContext;
pub use clock::SystemClock;
pub use error::CallError;
pub use flyball_core::cluster::{
    BatchSettings, GlobalSettings, HealthSettings, PeerInfo, RingSettings, Unreachable,
};
pub use flyball_core::store::{StoreSettings, StoreStats};
pub use flyball_core::time::{Clock, FakeClock};
pub use flyball_core::{
    Algorithm, Answer, Behavior, CheckError, Decision, Key, Request, Rules, Semantics, Source, Status,
    Timestamp,
};
pub use flyball_proto::pb;
pub use metrics::{Family, FamilyKind, FamilyLabels, Metrics, MetricsOptions, MoreMetrics};
pub use node::Node;
pub use peer_source::{PeerSource, PeerSourceFailure};
pub use peers::guard::PeerAccess;
pub use peers::tls::{PeerStream, PeerTls, Securing};
pub use settings::{ClusterSettings, Settings};
pub use trace::{TraceLevel, TraceParent};

/// The most items in one call.
pub const ITEMS_MAX: usize = 1_000;

/// The largest message, in bytes, before and after decompression.
pub const MESSAGE_BYTES_MAX: usize = 1_048_576;
