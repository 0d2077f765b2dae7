//! Bytes to messages and back.

mod hostile;
mod laws;
mod recorded;

use std::net::SocketAddr;

use super::message::{Alive, Message, Versions};

/// A message about a node that is there.
fn alive(node: &str, meta: &[u8]) -> Message {
    let address: SocketAddr = "10.0.0.1:7946".parse().unwrap();
    Message::Alive(Alive {
        incarnation: 1,
        node: node.to_owned(),
        address,
        meta: meta.to_owned(),
        versions: Versions::OURS,
    })
}
