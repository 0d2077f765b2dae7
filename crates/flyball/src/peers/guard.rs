//! Who may call the peers' service.
//!
//! Whoever can, can set any bucket. So where a secret is configured, it must be shown; where callers' certificates are
//! verified, there must be one; and where there is neither, a caller's address must be that of a peer: one of the present view, or of one that was replaced a minute ago at most, since a leaving node still
//! has hits to deliver. On loopback everybody is a neighbour. Peers that are known by name are looked
//! up when the view changes and from time to time.
//!
//! A switch leaves the door open as the original does, for networks where a peer's calls come from another address
//! than its own.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::lookup_host;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How often names are looked up when nothing asks for it.
const LOOK_UP_EVERY: Duration = Duration::from_secs(10);
/// The least time between two lookups.
const LOOK_UP_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// What a lookup may take.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);
/// How long a peer that left is still believed.
const RECENT: Duration = Duration::from_secs(60);

/// Who may call the peers' service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerAccess {
    /// Anybody may.
    pub open: bool,
    /// Who knows this may, wherever the call comes from, and nobody else. Sent with every call to a peer.
    pub secret: Option<String>,
    /// Who showed a certificate that was verified may, wherever the call comes from, and nobody else; see
    /// [`VerifiedCertificate`](crate::grpc::VerifiedCertificate). A secret counts more.
    pub certificate: bool,
}

/// Who calls, as far as the server that took the call can tell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallOrigin {
    pub(crate) address: Option<SocketAddr>,
    /// It showed a certificate that was verified.
    pub(crate) certified: bool,
}

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct Guard {
    access: PeerAccess,
    /// The node's own address is a loopback one.
    loopback: bool,
    /// Until when each address is believed; `None` while it is a peer's.
    known: ArcSwap<HashMap<IpAddr, Option<Instant>>>,
    peers: Mutex<Peers>,
    /// Names should be looked up.
    wanted: Notify,
    told: AtomicBool,
}

/// The present peers.
#[derive(Debug, Default)]
struct Peers {
    numbers: Vec<IpAddr>,
    /// Names with their port, and the addresses they had when they were last looked up.
    names: BTreeMap<String, Vec<IpAddr>>,
}

/// The door is closed to this caller. The text says what to do.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

impl Guard {
    pub(crate) fn new(access: PeerAccess, own_address: &str) -> Self {
        Self {
            access,
            loopback: is_loopback(own_address),
            known: ArcSwap::default(),
            peers: Mutex::default(),
            wanted: Notify::new(),
            told: AtomicBool::new(false),
        }
    }

    /// Lets a call of the peers' service pass or not.
    pub(crate) fn admit(&self, from: CallOrigin, headers: &http::HeaderMap) -> Result<(), Refused> {
        if let Some(secret) = &self.access.secret {
            let shown = headers.get(super::call::SECRET).map(http::HeaderValue::as_bytes);
            return if shown.is_some_and(|shown| is_same(shown, secret.as_bytes())) {
                Ok(())
            } else {
                Err(Refused("calls between peers need the shared secret of this cluster".to_owned()))
            };
        }
        if self.access.open {
            if !self.told.swap(true, Relaxed) {
                tracing::warn!("the peers' service is open to everybody who reaches the port");
            }
            return Ok(());
        }
        if self.access.certificate {
            return if from.certified {
                Ok(())
            } else {
                Err(Refused("calls between peers need a client certificate".to_owned()))
            };
        }
        match from.address.map(|caller| caller.ip().to_canonical()) {
            Some(ip) if self.loopback && ip.is_loopback() => Ok(()),
            Some(ip) if self.is_known(ip) => Ok(()),
            None if self.loopback => Ok(()),
            Some(ip) => Err(self.refuse(format!(
                "{ip} is no peer of this node; peers call from the address under which they are known, or \
                 share a secret"
            ))),
            None => Err(Refused("the caller's address is not known".to_owned())),
        }
    }

    fn is_known(&self, ip: IpAddr) -> bool {
        match self.known.load().get(&ip) {
            Some(None) => true,
            Some(Some(until)) => Instant::now() < *until,
            None => false,
        }
    }

    fn refuse(&self, text: String) -> Refused {
        self.wanted.notify_one();
        Refused(text)
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Believes these peers from here on; names as soon as they are looked up.
    pub(crate) fn set_peers(&self, addresses: &[String]) {
        let mut peers = self.peers();
        let mut old = std::mem::take(&mut *peers);
        for address in addresses {
            match address.parse::<SocketAddr>() {
                Ok(number) => peers.numbers.push(number.ip().to_canonical()),
                Err(_) => {
                    let known = old.names.remove(address).unwrap_or_default();
                    peers.names.insert(address.clone(), known);
                }
            }
        }
        self.believe(&peers);
        drop(peers);
        self.wanted.notify_one();
    }

    fn believe(&self, peers: &Peers) {
        let now = Instant::now();
        let mut known = HashMap::new();
        for (ip, until) in self.known.load().iter() {
            let until = until.unwrap_or(now + RECENT);
            if until > now {
                known.insert(*ip, Some(until));
            }
        }
        let present = peers.numbers.iter().chain(peers.names.values().flatten());
        known.extend(present.map(|ip| (*ip, None)));
        self.known.store(Arc::new(known));
    }

    /// Looks names up whenever that is wanted, and from time to time. Never ends.
    pub(crate) async fn keep_looking_up(&self) {
        if self.access.open || self.access.secret.is_some() || self.access.certificate {
            return std::future::pending().await;
        }
        loop {
            let _ = timeout(LOOK_UP_EVERY, self.wanted.notified()).await;
            self.look_up().await;
            // Strangers cannot make the node ask without end.
            sleep(LOOK_UP_AT_MOST_EVERY).await;
        }
    }

    async fn look_up(&self) {
        let names: Vec<String> = self.peers().names.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let mut lookups = JoinSet::new();
        for name in names {
            lookups.spawn(async move {
                let found = timeout(LOOK_UP_WITHIN, lookup_host(name.clone())).await;
                let found = found.ok().and_then(Result::ok)?;
                Some((name, found.map(|address| address.ip().to_canonical()).collect::<Vec<_>>()))
            });
        }
        while let Some(found) = lookups.join_next().await {
            if let Ok(Some((name, found))) = found
                && let Some(known) = self.peers().names.get_mut(&name)
            {
                *known = found;
            }
        }
        let peers = self.peers();
        self.believe(&peers);
    }
}

fn is_loopback(address: &str) -> bool {
    match address.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_canonical().is_loopback(),
        Err(_) => address.rsplit_once(':').is_none_or(|(host, _)| host == "localhost" || host.is_empty()),
    }
}

/// Compares without telling by its time where the first difference is.
fn is_same(shown: &[u8], secret: &[u8]) -> bool {
    let differences = shown.iter().zip(secret).fold(0, |sum, (a, b)| sum | (a ^ b));
    shown.len() == secret.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn from(ip: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(ip.parse().unwrap(), 40_000))
    }

    fn admits(guard: &Guard, caller: Option<SocketAddr>) -> bool {
        guard.admit(CallOrigin { address: caller, certified: false }, &HeaderMap::new()).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn peers_pass_and_strangers_do_not() {
        let guard = Guard::new(PeerAccess::default(), "10.0.0.1:1051");
        assert!(!admits(&guard, from("10.0.0.2")));
        guard.set_peers(&["10.0.0.1:1051".into(), "10.0.0.2:1051".into(), "[fd00::2]:1051".into()]);
        for (ip, expected) in [
            ("10.0.0.2", true),
            ("::ffff:10.0.0.2", true),
            ("fd00::2", true),
            ("10.0.0.3", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(admits(&guard, from(ip)), expected, "{ip}");
        }
        assert!(!admits(&guard, None));
        guard.set_peers(&["10.0.0.1:1051".into()]);
        assert!(admits(&guard, from("10.0.0.2")), "who left has still something to say");
        tokio::time::advance(RECENT).await;
        assert!(!admits(&guard, from("10.0.0.2")));
    }

    #[tokio::test]
    async fn a_peer_known_by_name_passes_once_it_is_looked_up_and_keeps_its_address() {
        let guard = Guard::new(PeerAccess::default(), "10.0.0.1:1051");
        guard.set_peers(&["localhost:1051".into(), "no-such-name.invalid:1051".into()]);
        assert!(!admits(&guard, from("127.0.0.1")));
        guard.look_up().await;
        assert!(admits(&guard, from("127.0.0.1")));
        // The same names in another set: nothing is forgotten until the next lookup.
        guard.set_peers(&["localhost:1051".into(), "10.0.0.2:1051".into()]);
        assert!(admits(&guard, from("127.0.0.1")) && admits(&guard, from("10.0.0.2")));
    }

    #[test]
    fn loopback_is_one_machine() {
        for own in ["127.0.0.5:1051", "localhost:1051", "[::1]:1051", ""] {
            let guard = Guard::new(PeerAccess::default(), own);
            assert!(admits(&guard, from("127.0.0.9")) && !admits(&guard, from("10.0.0.2")), "{own}");
        }
    }

    #[test]
    fn a_secret_is_all_that_counts() {
        let access = PeerAccess { open: true, secret: Some("xyzzy".into()), certificate: true };
        let guard = Guard::new(access, "127.0.0.1:1051");
        assert!(!admits(&guard, from("127.0.0.1")));
        for (shown, expected) in [("xyzzy", true), ("xyzz", false), ("xyzzz", false), ("", false)] {
            let mut headers = HeaderMap::new();
            headers.insert(super::super::call::SECRET, shown.parse().unwrap());
            let from = CallOrigin { address: from("10.0.0.2"), certified: true };
            assert_eq!(guard.admit(from, &headers).is_ok(), expected, "{shown:?}");
        }
    }

    #[test]
    fn where_certificates_are_verified_there_must_be_one() {
        let access = PeerAccess { certificate: true, ..PeerAccess::default() };
        let guard = Guard::new(access, "127.0.0.1:1051");
        guard.set_peers(&["10.0.0.2:1051".into()]);
        for ip in ["127.0.0.1", "10.0.0.2", "192.0.2.7"] {
            for certified in [true, false] {
                let from = CallOrigin { address: from(ip), certified };
                assert_eq!(guard.admit(from, &HeaderMap::new()).is_ok(), certified, "{ip}");
            }
        }
    }

    #[test]
    fn an_open_door_is_open() {
        let access = PeerAccess { open: true, certificate: true, ..PeerAccess::default() };
        let guard = Guard::new(access, "10.0.0.1:1051");
        assert!(admits(&guard, from("192.0.2.7")) && admits(&guard, None));
    }
}
