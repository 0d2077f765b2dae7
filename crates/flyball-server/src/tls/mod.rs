//! TLS: the one place that makes certificates, keys and verifiers of settings, for every listener, for calls to peers
//! and for the commands that call a node.
//!
//! In the order in which it happens:
//!
//! * `settings.rs`: what was asked for. Files are named there, not read.
//! * `material.rs`: the files read, or certificates made (`auto.rs`): chains, keys, roots.
//! * `verify.rs`: whom we believe, as a server and as a client.
//! * `configs.rs`: what the TLS library needs, one set for all ports, made as a whole or not at all.
//! * `live.rs`: the set in force. It is replaced while the daemon runs; each new connection takes the present one.
//! * `handshake.rs`: from an accepted connection to a secured one, bounded in time and number.
//! * `client.rs`: from a connection we opened to a secured one.
//! * `numbers.rs`: what of all this is counted.
//!
//! It is in the daemon and not in the node: a node that is embedded takes a ready [`flyball::PeerTls`] instead, and its
//! services are mounted on whatever server the program has.
//!
//! A port that speaks TLS speaks nothing else: what does not begin with a handshake is refused, and no second listener
//! stands beside it. The arithmetic is aws-lc-rs, given to each configuration by hand: a process default would be
//! global state. Rejected: tonic's TLS, which owns its acceptor, reads its certificates once, and tells nobody whether a
//! certificate was verified or only sent.

mod auto;
mod client;
mod configs;
mod handshake;
mod live;
mod material;
mod numbers;
mod settings;
mod verify;

#[cfg(test)]
mod tests;

pub use client::{Alpn, TlsClient};
pub use handshake::TlsPort;
pub(crate) use handshake::{Secured, Surface};
pub use live::Tls;
pub use settings::TlsSettings;

/// Why TLS cannot be as it was asked for. One line that names the file or the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
