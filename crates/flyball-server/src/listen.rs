//! Opening the listeners, with errors that tell a person what to do.
//!
//! Addresses are those of the original: `host:port`, the host a name, an address or nothing (every interface);
//! port 0 lets the system choose. A name may have several addresses; IPv4 is tried first, so that `localhost`
//! means 127.0.0.1 wherever both exist.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;

/// How long a host name of our own may take to resolve. Start must not hang on a broken resolver.
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);

/// What a listener is for: decides which settings an error names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The gRPC API and the peer API.
    Grpc,
    /// The JSON API, metrics and health routes.
    Http,
    /// Health and metrics for clients without certificates.
    Status,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
            Self::Status => "status over HTTP",
        }
    }

    const fn settings(self) -> &'static str {
        match self {
            Self::Grpc => "--grpc-address or GUBER_GRPC_ADDRESS",
            Self::Http => "--http-address or GUBER_HTTP_ADDRESS",
            Self::Status => "--status-http-address or GUBER_STATUS_HTTP_ADDRESS",
        }
    }
}

/// Why a listener could not be opened. Its text is one line and says all there is: it has no source.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on '{address}' for {}: {reason}; {advice} ({})", purpose.name(), purpose.settings())]
pub struct ListenError {
    purpose: Purpose,
    address: String,
    reason: String,
    advice: &'static str,
    /// The address that somebody has.
    taken: Option<SocketAddr>,
}

impl ListenError {
    fn new(purpose: Purpose, address: &str, refusal: &io::Error) -> Self {
        let (reason, advice) = match refusal.kind() {
            io::ErrorKind::AddrInUse => {
                ("the address is in use".into(), "stop the process that has it, or choose another address")
            }
            io::ErrorKind::AddrNotAvailable => {
                ("the address belongs to no interface of this machine".into(), "choose one that does")
            }
            io::ErrorKind::PermissionDenied => (
                "permission denied".into(),
                "choose a port above 1023, or give the process the right to this one",
            ),
            _ => (refusal.to_string(), "choose another address"),
        };
        Self { purpose, address: address.to_owned(), reason, advice, taken: None }
    }

    fn malformed(purpose: Purpose, address: &str, reason: impl fmt::Display) -> Self {
        let advice = "give host:port, such as 127.0.0.1:1051";
        Self { purpose, address: address.to_owned(), reason: reason.to_string(), advice, taken: None }
    }

    /// The same error, in better words when it is our own other listener, on `address`, that is in the way.
    pub fn knowing(mut self, other: Purpose, address: SocketAddr) -> Self {
        let in_the_way = self.taken.is_some_and(|taken| {
            let same_host =
                taken.ip() == address.ip() || taken.ip().is_unspecified() || address.ip().is_unspecified();
            taken.port() == address.port() && same_host
        });
        if in_the_way {
            self.reason =
                format!("{} of this node listens there already ({})", other.name(), other.settings());
            self.advice = "choose another port for one of them";
        }
        self
    }
}

/// Opens a listener on `address` (`host:port`).
///
/// # Errors
/// The address is malformed, its host does not resolve within five seconds, or the system refuses it.
pub async fn bind(purpose: Purpose, address: &str) -> Result<TcpListener, ListenError> {
    let mut refusal = None;
    for candidate in resolve(purpose, address).await? {
        match TcpListener::bind(candidate).await {
            Ok(listener) => return Ok(listener),
            Err(error) => refusal = refusal.or(Some((candidate, error))),
        }
    }
    let Some((candidate, refusal)) = refusal else {
        return Err(ListenError::malformed(purpose, address, "the host has no address"));
    };
    let taken = (refusal.kind() == io::ErrorKind::AddrInUse).then_some(candidate);
    Err(ListenError { taken, ..ListenError::new(purpose, address, &refusal) })
}

/// The addresses to try, in order.
async fn resolve(purpose: Purpose, address: &str) -> Result<Vec<SocketAddr>, ListenError> {
    if let Ok(literal) = address.parse::<SocketAddr>() {
        return Ok(vec![literal]);
    }
    let Some((host, port)) = address.rsplit_once(':') else {
        return Err(ListenError::malformed(purpose, address, "it has no port"));
    };
    let Ok(port) = port.parse::<u16>() else {
        return Err(ListenError::malformed(
            purpose,
            address,
            format_args!("'{port}' is not a port (0..=65535)"),
        ));
    };
    if host.is_empty() {
        // Where IPv6 exists its wildcard takes IPv4 in too.
        let wildcards = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
        return Ok(wildcards.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    let lookup = tokio::time::timeout(RESOLVE_WITHIN, tokio::net::lookup_host((host, port)));
    let mut addresses: Vec<SocketAddr> = match lookup.await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => {
            let reason = format_args!("the host '{host}' does not resolve: {error}");
            return Err(ListenError::malformed(purpose, address, reason));
        }
        Err(_) => {
            let reason = format_args!("the host '{host}' did not resolve within {RESOLVE_WITHIN:?}");
            return Err(ListenError::malformed(purpose, address, reason));
        }
    };
    addresses.sort_by_key(SocketAddr::is_ipv6);
    Ok(addresses)
}

/// An address of this machine for others to dial, where only "every interface" was configured: the first one its
/// host name stands for, else the one packets to the outside would carry, else loopback.
pub async fn own_address() -> IpAddr {
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        let lookup = tokio::time::timeout(RESOLVE_WITHIN, tokio::net::lookup_host((name.trim(), 0)));
        if let Ok(Ok(mut addresses)) = lookup.await
            && let Some(address) = addresses.next()
        {
            return address.ip();
        }
    }
    outward_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Connecting a datagram socket sends nothing; it only makes the system choose a source address.
fn outward_address() -> io::Result<IpAddr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // A documentation address: it is never assigned, so only the default route matches.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_ipv4_and_port_0_is_chosen() {
        let listener = bind(Purpose::Grpc, "localhost:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
        assert_ne!(address.port(), 0);
    }

    #[tokio::test]
    async fn an_empty_host_is_every_interface() {
        let listener = bind(Purpose::Http, ":0").await.unwrap();
        assert!(listener.local_addr().unwrap().ip().is_unspecified());
    }

    #[tokio::test]
    async fn the_own_address_can_be_dialled() {
        assert!(!own_address().await.is_unspecified());
    }

    #[tokio::test]
    async fn a_taken_port_is_one_line_that_says_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = bind(Purpose::Grpc, &address).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "cannot listen on '{address}' for gRPC: the address is in use; stop the process that has it, \
                 or choose another address (--grpc-address or GUBER_GRPC_ADDRESS)"
            )
        );
    }

    #[tokio::test]
    async fn malformed_addresses_name_the_mistake() {
        for (address, mistake) in [
            ("1051", "it has no port"),
            ("127.0.0.1:http", "'http' is not a port (0..=65535)"),
            ("127.0.0.1:65536", "'65536' is not a port (0..=65535)"),
            ("", "it has no port"),
            ("192.0.2.1:0", "the address belongs to no interface of this machine"),
        ] {
            let text = bind(Purpose::Http, address).await.unwrap_err().to_string();
            assert!(text.contains(mistake) && text.contains("GUBER_HTTP_ADDRESS"), "{address}: {text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
}
