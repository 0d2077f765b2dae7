//! Why a whole call fails. A bad item never does that: it gets an error of its own inside the answer.

use std::fmt;

use tonic::Code;

use crate::status;
use crate::{ITEMS_MAX, MESSAGE_BYTES_MAX};

/// What went wrong with a call. `Display` gives the text that goes over the wire; clients match some of them,
/// so they never change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// A client's call has more than [`ITEMS_MAX`] items. Nothing was applied: send several calls.
    TooManyItems,
    /// A peer's call has more than [`ITEMS_MAX`] items. Nothing was applied.
    TooManyPeerItems,
    /// The message has this many bytes, more than [`MESSAGE_BYTES_MAX`]. Nothing was applied.
    MessageTooLarge(usize),
    /// The caller's deadline had passed before anything was applied.
    DeadlineExceeded,
    /// Who calls the peers' service is no peer; the text says what to do. Nothing was applied.
    NotAPeer(String),
    /// Some peers do not answer, or the node is not in its own cluster; the text lists what is wrong.
    Unhealthy(String),
    /// The node is closing; another one should be asked.
    ShuttingDown,
}

impl CallError {
    /// The gRPC code.
    pub const fn code(&self) -> Code {
        match self {
            Self::TooManyItems | Self::TooManyPeerItems => Code::OutOfRange,
            Self::MessageTooLarge(_) => Code::ResourceExhausted,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::NotAPeer(_) => Code::PermissionDenied,
            Self::ShuttingDown | Self::Unhealthy(_) => Code::Unavailable,
        }
    }

    /// The HTTP status.
    pub fn http_status(&self) -> http::StatusCode {
        status::http_status(self.code())
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyItems => {
                write!(f, "Requests.RateLimits list too large; max size is '{ITEMS_MAX}'")
            }
            Self::TooManyPeerItems => {
                write!(f, "'PeerRequest.rate_limits' list too large; max size is '{ITEMS_MAX}'")
            }
            Self::MessageTooLarge(bytes) => {
                write!(f, "grpc: received message larger than max ({bytes} vs. {MESSAGE_BYTES_MAX})")
            }
            Self::DeadlineExceeded => f.write_str("context deadline exceeded"),
            Self::NotAPeer(text) | Self::Unhealthy(text) => f.write_str(text),
            Self::ShuttingDown => f.write_str("server is shutting down"),
        }
    }
}

impl std::error::Error for CallError {}

impl From<CallError> for tonic::Status {
    fn from(error: CallError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
