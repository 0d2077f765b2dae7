//! The text of a peers file: lines for people, JSON for programs.
//!
//! ```text
//! # name or address, port, and the data center if it is not this node's
//! 10.0.0.1:1051
//! node-2.example:1051   dc-east
//! ```
//!
//! or the original's JSON form of a peer, in a list:
//!
//! ```json
//! [{"grpc-address": "10.0.0.1:1051", "data-center": "dc-east"}]
//! ```
//!
//! A text is JSON when its first character is a bracket that opens no IPv6 address. One bad line spoils the
//! whole text: a list that lacks a peer moves keys, so none of it is taken.

use std::collections::BTreeMap;

use flyball_core::cluster::PeerInfo;
use serde::Deserialize;

use crate::address;
use crate::source::PEERS_MAX;

/// So many bad lines are named; the rest are counted.
const FAULTS_MAX: usize = 5;

/// A line, counted from 1, and what is wrong with it.
pub type Fault = (usize, String);

/// The peers a text lists, sorted, each address once; or the first few things that are wrong with it, never
/// none. A text that lists nobody is wrong too.
pub fn parse(bytes: &[u8], default_port: u16, data_center: &str) -> Result<Vec<PeerInfo>, Vec<Fault>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        vec![(line, "is not valid UTF-8; expected a text file".to_owned())]
    })?;
    // Some editors begin a text with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut peers = Peers { data_center, ..Peers::default() };
    if is_json(text) {
        json(text, default_port, &mut peers);
    } else {
        lines(text, default_port, &mut peers);
    }
    peers.finish()
}

fn is_json(text: &str) -> bool {
    match text.trim_start().strip_prefix('[') {
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':'),
        None => text.trim_start().starts_with('{'),
    }
}

/// The peers so far, and what was wrong so far.
#[derive(Default)]
struct Peers<'a> {
    data_center: &'a str,
    found: BTreeMap<String, (usize, PeerInfo)>,
    faults: Vec<Fault>,
    more_faults: usize,
}

impl Peers<'_> {
    fn fault(&mut self, line: usize, what: impl Into<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push((line, what.into()));
        } else {
            self.more_faults += 1;
        }
    }

    /// `place` is how the entry is called in a message about another one.
    fn add(&mut self, line: usize, default_port: u16, entry: Entry) {
        let grpc_address = match address::parse(&entry.grpc_address, default_port) {
            Ok(address) => address,
            Err(why) => return self.fault(line, format!("{} {why}", address::quoted(&entry.grpc_address))),
        };
        let data_center = match entry.data_center.is_empty() {
            true => self.data_center.to_owned(),
            false => entry.data_center,
        };
        let peer = PeerInfo { grpc_address, http_address: entry.http_address, data_center };
        match self.found.get(&peer.grpc_address) {
            None => drop(self.found.insert(peer.grpc_address.clone(), (line, peer))),
            Some((_, known)) if *known == peer => {}
            Some((first, _)) => {
                let what = format!(
                    "{} is listed differently on line {first}; expected each peer once",
                    address::quoted(&peer.grpc_address)
                );
                self.fault(line, what);
            }
        }
    }

    fn finish(mut self) -> Result<Vec<PeerInfo>, Vec<Fault>> {
        if self.faults.is_empty() && self.found.is_empty() {
            self.fault(1, "the file lists no peer; expected at least one line host:port");
        }
        if self.found.len() > PEERS_MAX {
            let count = self.found.len();
            self.fault(1, format!("the file lists {count} peers; expected at most {PEERS_MAX}"));
        }
        if let (Some((_, last)), more @ 1..) = (self.faults.last_mut(), self.more_faults) {
            last.push_str(&format!(" (and {more} more)"));
        }
        match self.faults.is_empty() {
            true => Ok(self.found.into_values().map(|(_, peer)| peer).collect()),
            false => Err(self.faults),
        }
    }
}

/// A peer in JSON, with the original's names.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    grpc_address: String,
    #[serde(default)]
    http_address: String,
    #[serde(default)]
    data_center: String,
    /// Means "this is me" and is for the reader to find out.
    #[serde(default, rename = "is-owner")]
    _is_owner: bool,
}

fn lines(text: &str, default_port: u16, peers: &mut Peers<'_>) {
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_whitespace();
        let Some(address) = words.next() else { continue };
        let data_center = words.next().unwrap_or_default();
        if words.next().is_some() {
            peers.fault(
                number,
                format!(
                    "{} has too many words; expected host:port [data-center]",
                    address::quoted(line.trim())
                ),
            );
            continue;
        }
        let entry = Entry {
            grpc_address: address.to_owned(),
            http_address: String::new(),
            data_center: data_center.to_owned(),
            _is_owner: false,
        };
        peers.add(number, default_port, entry);
    }
}

fn json(text: &str, default_port: u16, peers: &mut Peers<'_>) {
    const EXPECTED: &str = "expected a list such as [{\"grpc-address\": \"10.0.0.1:1051\"}]";
    // Each entry by itself first, so that a mistake in it has the line it is on.
    let entries: Vec<&serde_json::value::RawValue> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(error) => {
            return peers.fault(error.line().max(1), format!("is no JSON list ({error}); {EXPECTED}"));
        }
    };
    for raw in entries {
        let raw = raw.get();
        // A raw value borrows from the text.
        let start = (raw.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
        let line = 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
        match serde_json::from_str::<Entry>(raw) {
            Ok(entry) => peers.add(line, default_port, entry),
            Err(error) => {
                let line = line + error.line().saturating_sub(1);
                peers.fault(line, format!("{} is no peer ({error}); {EXPECTED}", address::quoted(raw)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(text: &str) -> Vec<(String, String)> {
        let peers = parse(text.as_bytes(), 1051, "here").unwrap();
        peers.into_iter().map(|peer| (peer.grpc_address, peer.data_center)).collect()
    }

    fn faults(text: &str) -> Vec<Fault> {
        parse(text.as_bytes(), 1051, "here").unwrap_err()
    }

    fn pair(address: &str, data_center: &str) -> (String, String) {
        (address.to_owned(), data_center.to_owned())
    }

    #[test]
    fn lines_have_comments_and_data_centers() {
        let text = "\u{feff}# all of them\r\n b:1 \teast # the other\n\n[::1]:2\na\na:1051\n";
        assert_eq!(peers(text), [pair("[::1]:2", "here"), pair("a:1051", "here"), pair("b:1", "east")]);
        // An address in brackets at the beginning is no JSON.
        assert_eq!(peers("[::1]:2"), [pair("[::1]:2", "here")]);
        assert_eq!(peers("[2001:db8::1]:2"), [pair("[2001:db8::1]:2", "here")]);
    }

    #[test]
    fn json_has_the_originals_names() {
        let text = r#" [{"data-center":"","http-address":"h:1","grpc-address":"b:1","is-owner":true},
            {"grpc-address":"a","data-center":"east"}] "#;
        assert_eq!(peers(text), [pair("a:1051", "east"), pair("b:1", "here")]);
        assert_eq!(parse(text.as_bytes(), 1, "").unwrap()[1].http_address, "h:1");
    }

    #[test]
    fn faults_name_the_line_and_what_is_expected() {
        for (text, line, reason) in [
            ("a:1\nb:x\n", 2, "'b:x' has no valid port"),
            ("a:1\n\nb:1 x y\n", 3, "too many words"),
            ("a:1\na:1 east\n", 2, "listed differently on line 1"),
            ("", 1, "lists no peer"),
            ("# nobody\n", 1, "lists no peer"),
            ("[]", 1, "lists no peer"),
            ("[", 1, "no JSON list"),
            ("{\"grpc-address\":\"a:1\"}", 1, "no JSON list"),
            ("[{\"grpc-address\":\"a:1\"},\n{\"grpc-adress\":\"b:1\"}]", 2, "unknown field"),
            ("[{\"grpc-address\":\"a:1\"},\n\n{\"data-center\":\n\"b:1\"}]", 4, "missing field"),
            ("[\n{\"grpc-address\":\"a:0\"}]", 2, "'a:0' has no valid port"),
            ("[\"a:1\"]", 1, "is no peer"),
        ] {
            let found = faults(text);
            assert!(found[0].0 == line && found[0].1.contains(reason), "{text}: {found:?}");
        }
        let found = parse(b"a:1\n\xff:2", 1, "").unwrap_err();
        assert!(found[0].0 == 2 && found[0].1.contains("UTF-8"), "{found:?}");
    }

    #[test]
    fn of_many_faults_a_few_are_named_and_the_rest_counted() {
        let found = faults(&"a:x\n".repeat(1000));
        assert_eq!(found.len(), FAULTS_MAX);
        assert!(found[FAULTS_MAX - 1].1.ends_with("(and 995 more)"), "{found:?}");
    }

    #[test]
    fn a_list_that_is_too_long_is_refused() {
        let text: String = (0..=PEERS_MAX).map(|number| format!("n{number}:1\n")).collect();
        assert!(faults(&text)[0].1.contains("10001 peers"));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn peers() -> impl Strategy<Value = Vec<PeerInfo>> {
        let peer = ("[a-z]{1,8}", 1..=u16::MAX, "[a-z.]{1,8}", "[a-z\"\\\\é]{0,4}");
        proptest::collection::btree_map("[a-z]{1,8}:[1-9][0-9]{0,3}", peer, 1..20).prop_map(|peers| {
            let peer = |(grpc_address, (_, _, data_center, http_address))| PeerInfo {
                grpc_address,
                http_address,
                data_center,
            };
            peers.into_iter().map(peer).collect()
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes in any::<Vec<u8>>()) {
            let _ = parse(&bytes, 1051, "");
        }

        #[test]
        fn nearly_lists_are_judged_without_a_panic(text in "[\\[{\"a:1,}\\] #\n-]{0,60}") {
            match parse(text.as_bytes(), 1051, "") {
                Ok(peers) => prop_assert!(!peers.is_empty() && peers.is_sorted()),
                Err(faults) => prop_assert!(!faults.is_empty()),
            }
        }

        #[test]
        fn lists_read_back_as_themselves(peers in peers()) {
            let lines: String = peers.iter().map(|peer| format!("{}  {}\n", peer.grpc_address, peer.data_center)).collect();
            let without_http: Vec<_> = peers.iter().map(|peer| PeerInfo { http_address: String::new(), ..peer.clone() }).collect();
            prop_assert_eq!(parse(lines.as_bytes(), 7, "x"), Ok(without_http));
            let json: Vec<_> = peers.iter().map(|peer| serde_json::json!({
                "data-center": peer.data_center, "http-address": peer.http_address, "grpc-address": peer.grpc_address,
            })).collect();
            let json = serde_json::to_vec_pretty(&json).unwrap();
            prop_assert_eq!(parse(&json, 7, "x"), Ok(peers));
        }
    }
}
