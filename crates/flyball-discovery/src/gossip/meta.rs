//! What members tell of themselves: a peer, as the original's JSON.

use flyball_core::cluster::PeerInfo;
use serde::{Deserialize, Serialize};

use crate::address::{self, quoted};
use crate::gossip::codec::message::META_MAX;

/// In the order in which the original writes them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Meta {
    data_center: Option<String>,
    http_address: Option<String>,
    grpc_address: Option<String>,
}

/// Longest data center that is believed; the whole has at most 512 bytes anyway.
const DATA_CENTER_MAX: usize = 255;

/// The text of a peer; the error says why it cannot be told.
pub(crate) fn write(peer: &PeerInfo) -> Result<Vec<u8>, String> {
    let meta = Meta {
        data_center: Some(peer.data_center.clone()),
        http_address: Some(peer.http_address.clone()),
        grpc_address: Some(peer.grpc_address.clone()),
    };
    let text = serde_json::to_vec(&meta).map_err(|error| error.to_string())?;
    match text.len() {
        0..=META_MAX => Ok(text),
        length => Err(format!(
            "address and data center of this node take {length} bytes of metadata; expected at most {META_MAX}"
        )),
    }
}

/// The peer of a text; the error says what is wrong with it.
pub(crate) fn read(text: &[u8]) -> Result<PeerInfo, String> {
    if text.is_empty() {
        return Err("it tells no address".to_owned());
    }
    // A list would do for a structure, too.
    let is_object = text.trim_ascii_start().starts_with(b"{");
    let meta = serde_json::from_slice::<Meta>(text).ok().filter(|_| is_object);
    let meta =
        meta.ok_or_else(|| format!("{} is not the JSON of a peer", quoted(&String::from_utf8_lossy(text))))?;
    let peer = PeerInfo {
        grpc_address: meta.grpc_address.unwrap_or_default(),
        http_address: meta.http_address.unwrap_or_default(),
        data_center: meta.data_center.unwrap_or_default(),
    };
    // No port makes it fail: every address has one here.
    let parsed = address::parse(&peer.grpc_address, 0);
    let parsed = parsed.map_err(|why| format!("its address {} {why}", quoted(&peer.grpc_address)))?;
    if parsed != peer.grpc_address {
        return Err(format!("its address {} is not host:port", quoted(&peer.grpc_address)));
    }
    if peer.data_center.len() > DATA_CENTER_MAX || peer.data_center.chars().any(char::is_control) {
        return Err(format!("its data center {} is no name", quoted(&peer.data_center)));
    }
    Ok(peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_original_s() {
        let peer = PeerInfo::new("127.0.0.11:31101");
        let text = write(&peer).unwrap();
        let expected = r#"{"data-center":"","http-address":"","grpc-address":"127.0.0.11:31101"}"#;
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
        assert_eq!(read(&text).unwrap(), peer);
        let peer = PeerInfo { data_center: "x".repeat(500), ..peer };
        assert!(write(&peer).unwrap_err().contains("512"));
    }

    #[test]
    fn spaces_other_keys_and_nothing_are_fine() {
        let text = br#" { "grpc-address" : "a:1", "is-owner": true, "x": [1], "data-center": "east", "http-address": null } "#;
        let peer = PeerInfo { data_center: "east".to_owned(), ..PeerInfo::new("a:1") };
        assert_eq!(read(text).unwrap(), peer);
    }

    #[test]
    fn what_nobody_can_dial_is_refused() {
        for (text, reason) in [
            (&b""[..], "no address"),
            (b"\x00\x01", "JSON"),
            (b"[]", "JSON"),
            (b"{}", "empty"),
            (br#"{"grpc-address":"a"}"#, "host:port"),
            (br#"{"grpc-address":":1"}"#, "no host"),
            (br#"{"grpc-address":" a:1"}"#, "host:port"),
            (br#"{"grpc-address":"0.0.0.0:1"}"#, "every interface"),
            (br#"{"grpc-address":"a:1","data-center":"\n"}"#, "data center"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
