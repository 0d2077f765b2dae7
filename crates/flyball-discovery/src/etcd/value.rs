//! What a node writes under its key, and what the keys under the prefix say.
//!
//! The value is the original's: a JSON object with the peer's data center and addresses. Very old nodes wrote the bare
//! gRPC address, so what is no JSON is read as one. A prefix may catch keys that are nobody's (by default it has no
//! slash at its end), and a value may be half written or anybody's joke: an entry that names no address that can be
//! dialled is left out and named, and the others count.

use std::collections::BTreeMap;

use flyball_core::cluster::PeerInfo;
use serde::{Deserialize, Serialize};

use crate::address;
use crate::source::PEERS_MAX;

/// Entries that are named as bad; the rest are counted.
const FAULTS_MAX: usize = 3;

/// The longest value that is looked at, in bytes: a name, an address and much room.
const VALUE_MAX: usize = 4_096;

/// One key with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// The names are those of the wire, in the order in which the original writes them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Value {
    #[serde(default)]
    data_center: String,
    #[serde(default)]
    http_address: String,
    #[serde(default)]
    grpc_address: String,
}

/// What a node writes about itself.
pub(super) fn write(peer: &PeerInfo) -> String {
    let value = Value {
        data_center: peer.data_center.clone(),
        http_address: peer.http_address.clone(),
        grpc_address: peer.grpc_address.clone(),
    };
    serde_json::to_string(&value).expect("three texts are always JSON")
}

/// What the entries say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// Sorted, each address once.
    pub(super) peers: Vec<PeerInfo>,
    /// What is wrong with entries that were left out, for people; empty when nothing is.
    pub(super) faults: String,
}

/// The peers in the entries, which come in the order of their keys. Of two that have one address the later counts.
pub(super) fn read(entries: &[Entry]) -> Listed {
    let mut peers = BTreeMap::new();
    let mut faults = Vec::new();
    let mut more = 0usize;
    for entry in entries {
        match peer(entry) {
            Ok(peer) => drop(peers.insert(peer.grpc_address.clone(), peer)),
            Err(_) if faults.len() >= FAULTS_MAX => more += 1,
            Err(why) => {
                faults.push(format!("key {} {why}", address::quoted(&String::from_utf8_lossy(&entry.key))));
            }
        }
    }
    // Not cut: a ring that lacks peers is another ring. The caller refuses the set.
    debug_assert!(peers.len() <= PEERS_MAX + 1, "no more entries than that are asked for");
    let mut faults = faults.join("; ");
    if more > 0 {
        faults.push_str(&format!(" (and {more} more)"));
    }
    Listed { peers: peers.into_values().collect(), faults }
}

fn peer(entry: &Entry) -> Result<PeerInfo, String> {
    if entry.value.len() > VALUE_MAX {
        return Err(format!("has a value of {} bytes, which is no peer", entry.value.len()));
    }
    let text = std::str::from_utf8(&entry.value).map_err(|_| "has a value that is no text".to_owned())?;
    let value = match serde_json::from_str::<Value>(text) {
        Ok(value) => value,
        Err(_) => {
            Value { data_center: String::new(), http_address: String::new(), grpc_address: text.to_owned() }
        }
    };
    let address = &value.grpc_address;
    // The port is no guess here: the text is the identity, and an address without one is nobody's.
    let wrong = |why: &str| format!("names the peer {}, which {why}", address::quoted(address));
    match address::parse(address, 0) {
        Err(why) => Err(wrong(&why)),
        Ok(parsed) if parsed != *address => Err(wrong("is not of the form host:port")),
        Ok(_) => Ok(PeerInfo {
            grpc_address: value.grpc_address,
            http_address: value.http_address,
            data_center: value.data_center,
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.into(), value: value.into() }
    }

    fn listed(entries: &[(&str, &str)]) -> Listed {
        read(&entries.iter().map(|(key, value)| entry(key, value)).collect::<Vec<_>>())
    }

    #[test]
    fn a_value_is_the_originals_byte_for_byte() {
        let peer = PeerInfo { data_center: "dc-1".to_owned(), ..PeerInfo::new("10.0.0.1:1051") };
        let text = r#"{"data-center":"dc-1","http-address":"","grpc-address":"10.0.0.1:1051"}"#;
        assert_eq!(write(&peer), text);
        assert_eq!(listed(&[("/p10.0.0.1:1051", text)]), Listed { peers: vec![peer], faults: String::new() });
    }

    #[test]
    fn bare_addresses_unknown_members_and_repetitions_are_read() {
        let found = listed(&[
            ("/pa", "b:1051"),
            ("/pb", r#" {"grpc-address":"a:1","is-owner":true,"weight":3} "#),
            ("/pc", r#"{"grpc-address":"a:1","data-center":"east"}"#),
        ]);
        assert_eq!(found.faults, "");
        let peers: Vec<_> =
            found.peers.iter().map(|p| (p.grpc_address.as_str(), p.data_center.as_str())).collect();
        assert_eq!(peers, [("a:1", "east"), ("b:1051", "")]);
    }

    #[test]
    fn entries_that_are_no_peer_are_named_and_left_out() {
        let long = "x".repeat(5_000);
        let found = listed(&[
            ("/p1", r#"{"data-center":"","http-addr"#),
            ("/p2", "10.0.0.1"),
            ("/p3", "0.0.0.0:1051"),
            ("/p4", ""),
            ("/p5", "{}"),
            ("/p6", &long),
            ("/p7", "a:1051"),
        ]);
        assert_eq!(found.peers, [PeerInfo::new("a:1051")]);
        assert!(found.faults.starts_with("key '/p1' names the peer '{"), "{}", found.faults);
        assert!(found.faults.contains("key '/p2' names the peer '10.0.0.1', which "), "{}", found.faults);
        assert!(found.faults.contains("every interface") && found.faults.ends_with("(and 3 more)"));
        let bytes = read(&[Entry { key: b"/p\xff".to_vec(), value: b"\xff".to_vec() }]);
        assert!(bytes.faults.contains("no text"), "{}", bytes.faults);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_a_panic(value in any::<Vec<u8>>(), key in any::<Vec<u8>>()) {
            let found = read(&[Entry { key, value }]);
            prop_assert_eq!(found.peers.is_empty(), !found.faults.is_empty());
        }

        #[test]
        fn what_is_written_is_read(host in "[a-z]{1,9}", port in 1..=u16::MAX, data_center in "\\PC{0,9}") {
            let peer = PeerInfo { data_center, ..PeerInfo::new(format!("{host}:{port}")) };
            prop_assert_eq!(listed(&[("/k", &write(&peer))]).peers, vec![peer]);
        }
    }
}
