//! The port of gossip: one number, for packets and for connections.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs as _, UdpSocket};

use crate::address::quoted;
use crate::source::SourceError;

/// Both sockets, in non-blocking mode.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) packets: tokio::net::UdpSocket,
    pub(super) streams: tokio::net::TcpListener,
    local: SocketAddr,
}

/// A port that the system chose for one may be taken for the other.
const TRIES: usize = 16;

impl Sockets {
    pub(super) fn bind(text: &str) -> Result<Self, SourceError> {
        let refused = |error: io::Error| {
            let shown = quoted(text);
            SourceError::new(format!(
                "cannot listen on {shown} for gossip: {error}; choose another address \
                 (GUBER_MEMBERLIST_BIND_ADDRESS)"
            ))
        };
        let addresses: Vec<_> = text.to_socket_addrs().map_err(refused)?.collect();
        let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()).copied();
        let address = first.ok_or_else(|| refused(io::Error::other("the host has no address")))?;
        let mut tries = 0;
        let (packets, streams) = loop {
            tries += 1;
            let streams = TcpListener::bind(address).map_err(refused)?;
            let local = streams.local_addr().map_err(refused)?;
            match UdpSocket::bind(local) {
                Ok(packets) => break (packets, streams),
                Err(_) if address.port() == 0 && tries < TRIES => {}
                Err(error) => return Err(refused(error)),
            }
        };
        let local = packets.local_addr().map_err(refused)?;
        packets.set_nonblocking(true).map_err(refused)?;
        streams.set_nonblocking(true).map_err(refused)?;
        let packets = tokio::net::UdpSocket::from_std(packets).map_err(refused)?;
        let streams = tokio::net::TcpListener::from_std(streams).map_err(refused)?;
        Ok(Self { packets, streams, local })
    }

    /// The address with the real port.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends a packet. One that cannot be sent is lost, as packets are.
    pub(super) async fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<()> {
        let to = match (self.local.ip(), to.ip()) {
            // A socket of both families wants addresses of the wider one.
            (IpAddr::V6(_), IpAddr::V4(ip)) => SocketAddr::new(ip.to_ipv6_mapped().into(), to.port()),
            _ => to,
        };
        self.packets.send_to(packet, to).await.map(drop)
    }
}

/// An IPv4 address is itself, however the socket shows it.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
