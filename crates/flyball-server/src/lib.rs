//! The flyball daemon: everything around a [`flyball::Node`] that makes it a process. Read in the order of the
//! modules: what it was told ([`config`]), the whole from start to stop ([`daemon`]), how it is asked to end
//! ([`shutdown`]), its ports ([`listen`], [`tls`], [`grpc`], [`http`]), and what operators see of it ([`telemetry`]).
//!
//! A program is linear on top of this: read the configuration, start the daemon, run it, let it drain.

mod accept;
mod activity;
pub mod config;
pub mod daemon;
mod greeting;
pub mod grpc;
pub mod http;
pub mod listen;
mod rewound;
pub mod shutdown;
pub mod telemetry;
pub mod tls;

pub use config::Config;
pub use daemon::Daemon;
