//! A list that was given once and never changes.
//!
//! All of its peers are in the node's own data center: a list has no way to say otherwise, and peers filed under
//! another one would leave the node alone.

use std::collections::BTreeSet;
use std::fmt;

use flyball_core::cluster::PeerInfo;

use crate::address;
use crate::source::{NextPeers, PEERS_MAX, Source};

/// Yields its peers once and then stays pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedList {
    peers: Vec<PeerInfo>,
    given: bool,
}

/// Every entry of a list that will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadList(String);

impl FixedList {
    /// A comma separated list such as `10.0.0.1:1051, node-2:1051, [2001:db8::1]:1051`. Entries without a port
    /// get `default_port`; spaces, empty entries and repetitions are dropped.
    ///
    /// # Errors
    /// An entry is no address, or there is none at all.
    pub fn parse(text: &str, default_port: u16, data_center: &str) -> Result<Self, BadList> {
        let mut addresses = BTreeSet::new();
        let mut bad = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match address::parse(entry, default_port) {
                Ok(address) => drop(addresses.insert(address)),
                Err(why) => bad.push(format!("{} {why}", address::quoted(entry))),
            }
        }
        if !bad.is_empty() {
            return Err(BadList(bad.join("; ")));
        }
        if addresses.is_empty() {
            return Err(BadList("lists no peer; expected a comma separated list of host:port".to_owned()));
        }
        if addresses.len() > PEERS_MAX {
            return Err(BadList(format!("lists {} peers; expected at most {PEERS_MAX}", addresses.len())));
        }
        let peer =
            |address: String| PeerInfo { data_center: data_center.to_owned(), ..PeerInfo::new(address) };
        Ok(Self { peers: addresses.into_iter().map(peer).collect(), given: false })
    }

    /// The peers, sorted.
    pub fn peers(&self) -> &[PeerInfo] {
        &self.peers
    }
}

impl Source for FixedList {
    fn kind(&self) -> &'static str {
        "static"
    }

    fn origin(&self) -> String {
        "the configured list".to_owned()
    }

    fn next(&mut self) -> NextPeers<'_> {
        Box::pin(async {
            if self.given {
                std::future::pending::<()>().await;
            }
            self.given = true;
            Ok(self.peers.clone())
        })
    }
}

impl fmt::Display for BadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadList {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_list_is_trimmed_sorted_and_has_each_address_once() {
        let list = FixedList::parse(" b , a:1, ,b:1051,[::1],", 1051, "dc1").unwrap();
        let addresses: Vec<_> = list.peers().iter().map(|peer| peer.grpc_address.as_str()).collect();
        assert_eq!(addresses, ["[::1]:1051", "a:1", "b:1051"]);
        assert!(list.peers().iter().all(|peer| peer.data_center == "dc1"));
    }

    #[test]
    fn every_bad_entry_is_named() {
        let error = FixedList::parse("a:x, good:1, ::1", 1051, "").unwrap_err().to_string();
        assert!(error.contains("'a:x'") && error.contains("'::1'") && !error.contains("good"), "{error}");
        assert!(FixedList::parse(" , ", 1051, "").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_once() {
        let mut list = FixedList::parse("a", 1051, "").unwrap();
        assert_eq!(list.next().await.unwrap(), [PeerInfo::new("a:1051")]);
        assert!(tokio::time::timeout(Duration::from_secs(3600), list.next()).await.is_err());
    }
}
