//! Any bytes as a peers file: they list peers, or there are a few mistakes that can be shown. The peers are in order, each
//! once, and written down as JSON they are the same peers again.
#![no_main]

use flyball_discovery::parse_peers_file;
use libfuzzer_sys::fuzz_target;

/// Mistakes that are named; more are counted.
const FAULTS_MAX: usize = 5;

fuzz_target!(|bytes: &[u8]| {
    match parse_peers_file(bytes, 1051, "dc-own") {
        Ok(peers) => {
            assert!(!peers.is_empty());
            assert!(peers.is_sorted_by(|a, b| a.grpc_address < b.grpc_address), "{peers:?}");
            let list: Vec<_> = peers
                .iter()
                .map(|peer| {
                    serde_json::json!({
                        "grpc-address": peer.grpc_address,
                        "http-address": peer.http_address,
                        "data-center": peer.data_center,
                    })
                })
                .collect();
            let written = serde_json::Value::from(list).to_string();
            assert_eq!(parse_peers_file(written.as_bytes(), 2, "dc-other"), Ok(peers), "{written}");
        }
        Err(faults) => {
            assert!((1..=FAULTS_MAX).contains(&faults.len()), "{faults:?}");
            assert!(faults.iter().all(|(line, what)| *line > 0 && !what.is_empty()), "{faults:?}");
        }
    }
});
