//! The other nodes of the cluster, as this node deals with them.
//!
//! * `connection.rs`: HTTP/2 connections to one address, opened when first used, opened anew when they end.
//! * `call.rs`: one gRPC call over them, and what its failure means: certainly not sent, perhaps applied, or answered.
//! * `group.rs`: the checks of one call that go to one peer, and the way back for their answers.
//! * `peer.rs`: one peer: its gathered checks ([`Batcher`](flyball_core::cluster::Batcher)), its
//!   [`Health`](flyball_core::cluster::Health), its numbers.
//! * `source.rs`: the address from which this node calls them.
//! * `timer.rs`: the thread that ends batch windows, which are shorter than the runtime's clock is fine.
//! * `guard.rs`: who may call the peers' service here.
//! * `tls.rs`: how a connection is secured, by whoever embeds the node.

pub(crate) mod call;
pub(crate) mod connection;
pub(crate) mod group;
pub(crate) mod guard;
pub(crate) mod peer;
pub(crate) mod source;
pub(crate) mod timer;
pub(crate) mod tls;
