//! Who a peer is.

use alloc::string::String;

/// One member of a cluster, as discovery reports it.
///
/// `grpc_address` is its **identity**, compared as text: it is hashed onto the ring, dialled, and named to clients
/// as the owner. Two nodes must know a third under the same string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerInfo {
    /// `host:port` of its gRPC listener.
    pub grpc_address: String,
    /// `host:port` of its HTTP listener; usually empty, nothing depends on it.
    pub http_address: String,
    /// Its data center; peers of another than one's own are on another ring. Usually empty.
    pub data_center: String,
}

/// The host of `host:port`, without the brackets of an IPv6 address; all of a text without a port.
///
/// ```
/// # use flyball_core::cluster::host_of;
/// assert_eq!(host_of("[fd00::1]:1051"), "fd00::1");
/// assert_eq!(host_of("10.0.0.1:1051"), "10.0.0.1");
/// assert_eq!(host_of("node.example:1051"), "node.example");
/// assert_eq!(host_of("node"), "node");
/// ```
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl PeerInfo {
    /// A peer of the nameless data center.
    pub fn new(grpc_address: impl Into<String>) -> Self {
        Self { grpc_address: grpc_address.into(), ..Self::default() }
    }
}
