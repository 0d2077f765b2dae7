//! The address from which this node calls its peers: the one under which they know it, since their
//! [guard](super::guard) goes by it.
//!
//! A node that advertises a number has it from the start. A name is looked up in the background, again and again as the
//! names of peers are, and what it stands for is used if it is an address of this machine; behind an address translation it
//! is not, and then the system chooses. Connections that were opened from another address before are replaced,
//! so that a slow lookup at the start does not leave a node outside the door until the connection ends.
//!
//! A loopback address calls only loopback addresses: many systems give their own name one (`127.0.1.1`), from which no
//! other machine can be reached.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

/// How often the own name is looked up.
const LOOK_UP_EVERY: Duration = Duration::from_secs(10);
/// What a lookup may take.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);

/// See [the module](self).
#[derive(Debug, Default)]
pub(crate) struct OwnSource {
    /// With its port; `None` where there is nothing to look up.
    name: Option<String>,
    /// At most one of each family.
    addresses: ArcSwap<Vec<IpAddr>>,
    /// Grows whenever the addresses change.
    generation: AtomicU64,
}

impl OwnSource {
    /// For a node that is known as `host:port`.
    pub(crate) fn new(own_address: &str) -> Self {
        match own_address.parse::<SocketAddr>() {
            Ok(number) => Self { addresses: ArcSwap::from_pointee(vec![number.ip()]), ..Self::default() },
            Err(_) => {
                let name = (!own_address.is_empty()).then(|| own_address.to_owned());
                Self { name, ..Self::default() }
            }
        }
    }

    /// From where to call `peer`; nothing leaves it to the system.
    pub(crate) fn toward(&self, peer: IpAddr) -> Option<IpAddr> {
        let fits =
            |own: &&IpAddr| own.is_ipv4() == peer.is_ipv4() && (!own.is_loopback() || peer.is_loopback());
        self.addresses.load().iter().find(fits).copied()
    }

    /// A connection of another generation may come from the wrong address.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Looks the own name up, now and from time to time. Never ends.
    pub(crate) async fn keep_looking_up(&self) {
        let Some(name) = &self.name else { return std::future::pending().await };
        loop {
            let found = timeout(LOOK_UP_WITHIN, lookup_host(name)).await;
            match found.map_err(std::io::Error::from).flatten() {
                Ok(found) => self.take(found.map(|address| address.ip())),
                // What was found before stays.
                Err(error) => tracing::debug!(name, %error, "this node's own name cannot be looked up"),
            }
            sleep(LOOK_UP_EVERY).await;
        }
    }

    /// The own name stands for these addresses now.
    pub(super) fn take(&self, found: impl Iterator<Item = IpAddr>) {
        let before = self.addresses.load();
        let mut found: Vec<IpAddr> = found.map(|ip| ip.to_canonical()).collect();
        // Name servers change the order from answer to answer.
        found.sort_by_key(|ip| !before.contains(ip));
        let mut own: Vec<IpAddr> = Vec::new();
        for ip in found {
            if own.iter().all(|known| known.is_ipv4() != ip.is_ipv4()) && is_of_this_machine(ip) {
                own.push(ip);
            }
        }
        own.sort_unstable();
        if **before != own {
            tracing::info!(name = self.name, addresses = ?own, "calls to peers come from what this node's name stands for");
            self.addresses.store(own.into());
            self.generation.fetch_add(1, Relaxed);
        }
    }
}

/// Whether a socket can be bound to it. `0.0.0.0` can, and says nothing.
fn is_of_this_machine(ip: IpAddr) -> bool {
    !ip.is_unspecified() && UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn taken(found: &[&str]) -> OwnSource {
        let source = OwnSource::new("node-1:1051");
        source.take(found.iter().map(|text| ip(text)));
        source
    }

    #[test]
    fn a_number_is_known_and_a_name_is_not_yet() {
        let number = OwnSource::new("10.0.0.1:1051");
        assert_eq!(number.toward(ip("10.0.0.2")), Some(ip("10.0.0.1")));
        assert_eq!(number.toward(ip("fd00::2")), None);
        assert_eq!(OwnSource::new("node-1:1051").toward(ip("10.0.0.2")), None);
    }

    #[test]
    fn a_name_stands_for_the_first_address_that_is_this_machines() {
        // 192.0.2.0/24 belongs to nobody (RFC 5737).
        let source = taken(&["192.0.2.1", "0.0.0.0", "127.0.0.5", "127.0.0.6"]);
        assert_eq!(source.toward(ip("127.0.0.9")), Some(ip("127.0.0.5")));
        assert_eq!(source.toward(ip("10.0.0.9")), None, "no way leads from loopback to another machine");
        assert_eq!(source.generation(), 1);
        source.take([ip("127.0.0.6"), ip("127.0.0.5")].into_iter());
        assert_eq!(source.generation(), 1, "nothing changed");
        source.take([ip("192.0.2.1")].into_iter());
        assert_eq!((source.toward(ip("127.0.0.9")), source.generation()), (None, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_looked_up_and_kept_when_it_cannot_be() {
        let source = OwnSource::new("localhost:1051");
        let _ = timeout(Duration::from_secs(1), source.keep_looking_up()).await;
        assert_eq!(source.toward(ip("127.0.0.9")), Some(Ipv4Addr::LOCALHOST.into()));
        let lost = OwnSource { name: Some("no-such-name.invalid:1".into()), ..source };
        let _ = timeout(LOOK_UP_EVERY * 2, lost.keep_looking_up()).await;
        assert_eq!(lost.toward(ip("127.0.0.9")), Some(Ipv4Addr::LOCALHOST.into()));
    }
}
