//! What the fuzz target runs: any bytes as a packet, as a stream, and as news for a machine.

use std::net::SocketAddr;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use flyball_core::time::Instant;

use super::codec::message::Message;
use super::codec::packet::{PACKET_MAX, unwrap, wrap};
use super::codec::stream::{Secrecy, StreamMessage, StreamReader, encode_state};
use super::swim::timing::Timing;
use super::swim::{Identity, Output, Swim};
use super::{Keyring, meta};

/// Judges bytes in every way there is.
///
/// # Panics
/// When something that must hold does not.
pub fn judge(bytes: &[u8]) {
    let address: SocketAddr = ([10, 0, 0, 1], 7946).into();
    let peer = PeerInfo::new("10.0.0.1:1051");
    let me =
        Identity { name: "me".to_owned(), address, meta: meta::write(&peer).expect("it is short"), peer };
    let mut swim = Swim::new(me, Timing::default(), PACKET_MAX, 1, Instant(0));
    let mut now = Instant(0);
    for message in unwrap(bytes).messages {
        // What was read can be written, and reads as the same.
        assert_eq!(Message::decode(&message.encode()), Ok(Some(message.clone())));
        swim.handle_message(message, address, now);
        now = check(&mut swim, now);
    }
    let keys = Keyring::parse("MDEyMzQ1Njc4OWFiY2RlZg==").expect("it is a key");
    let secret = Secrecy { keys, verify_incoming: true, verify_outgoing: true };
    for secrecy in [&Secrecy::default(), &secret] {
        let _ = secrecy.open_packet(bytes);
        let whole = StreamReader::default().feed(bytes, secrecy);
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let mut reader = StreamReader::default();
        // Bytes after a message are nobody's, so the first half may be enough.
        match reader.feed(first, secrecy) {
            Ok(None) => assert_eq!(reader.feed(second, secrecy), whole),
            early => assert_eq!(early.is_ok(), whole.is_ok()),
        }
        if let Ok(Some(StreamMessage::State { join, records })) = whole {
            let again = secrecy.seal_stream(&encode_state(join, &records), || [1; 12]);
            let again = StreamReader::default().feed(&again, secrecy);
            assert_eq!(again, Ok(Some(StreamMessage::State { join, records: records.clone() })));
            let _ = swim.handle_state(records, now);
            now = check(&mut swim, now);
        }
    }
    swim.leave(now);
    check(&mut swim, now);
}

/// Runs the machine for a while, and looks at what it does.
fn check(swim: &mut Swim, mut now: Instant) -> Instant {
    for _ in 0..8 {
        now = now.max(swim.poll_timeout()).saturating_add(Duration::from_millis(1));
        swim.handle_timeout(now);
        while let Some(output) = swim.poll_output() {
            if let Output::Packet { parts, checksum, .. } = output {
                assert!(wrap(&parts, checksum).len() <= PACKET_MAX + 8);
            }
        }
        assert!(swim.poll_timeout() > now, "what was due is done");
    }
    let peers = swim.peers();
    assert!(peers.is_sorted() && peers.iter().any(|peer| peer.grpc_address == "10.0.0.1:1051"));
    now
}
