//! What originals said to each other is understood, and said in the same bytes.

use std::collections::BTreeMap;

use crate::gossip::codec::crypto::Keyring;
use crate::gossip::codec::kind;
use crate::gossip::codec::message::{Message, State, Versions};
use crate::gossip::codec::packet::{unwrap, wrap};
use crate::gossip::codec::stream::{Secrecy, StreamMessage, StreamReader, encode_state};
use crate::gossip::meta;

const PLAIN: &str = include_str!("../../../../testdata/gossip-plain.txt");
const ENCRYPTED: &str = include_str!("../../../../testdata/gossip-encrypted.txt");
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

fn secrecy(keys: &str) -> Secrecy {
    Secrecy { keys: Keyring::parse(keys).unwrap(), verify_incoming: true, verify_outgoing: true }
}

fn lines(text: &str, what: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    lines.map(|hex| hex.as_bytes().chunks(2).map(byte).collect()).collect()
}

fn name(message: &Message) -> &'static str {
    match message {
        Message::Ping(_) => "ping",
        Message::IndirectPing(_) => "indirect ping",
        Message::Ack { .. } => "ack",
        Message::Nack { .. } => "nack",
        Message::Suspect(_) => "suspect",
        Message::Alive(_) => "alive",
        Message::Dead(_) => "dead",
    }
}

#[test]
fn every_packet_is_read_whole() {
    for (text, keys) in [(PLAIN, ""), (ENCRYPTED, KEY)] {
        let secrecy = secrecy(keys);
        let mut seen: BTreeMap<_, u32> = BTreeMap::new();
        for packet in lines(text, "packet") {
            let unwrapped = unwrap(&secrecy.open_packet(&packet).unwrap());
            assert_eq!((unwrapped.broken, unwrapped.fault), (0, None), "{packet:02x?}");
            assert!(!unwrapped.messages.is_empty(), "{packet:02x?}");
            for message in &unwrapped.messages {
                *seen.entry(name(message)).or_default() += 1;
                if let Message::Alive(alive) = message {
                    assert_eq!(alive.versions, Versions::OURS);
                    // The first announcement is made before the metadata are there.
                    assert!(alive.meta.is_empty() || meta::read(&alive.meta).is_ok());
                }
            }
        }
        let kinds: Vec<_> = seen.keys().copied().collect();
        for kind in ["ack", "alive", "dead", "ping", "suspect"] {
            assert!(kinds.contains(&kind), "no {kind} was recorded: {seen:?}");
        }
        if keys.is_empty() {
            assert!(kinds.contains(&"indirect ping") && kinds.contains(&"nack"), "{seen:?}");
        }
    }
}

#[test]
fn messages_are_written_as_they_were_read() {
    let mut plain = 0;
    for packet in lines(PLAIN, "packet") {
        let [message] = &unwrap(&packet).messages[..] else { continue };
        if !matches!(packet[0], kind::CRC | kind::COMPRESSED | kind::COMPOUND) {
            assert_eq!(message.encode(), packet, "{message:?}");
            plain += 1;
        }
    }
    assert!(plain >= 20, "{plain}");
    // Wrapped ones, too: the messages of a packet make the same packet.
    for packet in lines(PLAIN, "packet") {
        let parts: Vec<_> = unwrap(&packet).messages.iter().map(Message::encode).collect();
        let again = wrap(&parts, packet[0] == kind::CRC);
        assert_eq!(unwrap(&again).messages, unwrap(&packet).messages);
        assert_eq!(again.len(), packet.len(), "{:02x?}", packet);
    }
}

#[test]
fn every_stream_is_read_and_written() {
    for (text, keys) in [(PLAIN, ""), (ENCRYPTED, KEY)] {
        let secrecy = secrecy(keys);
        let (mut states, mut joins, mut others) = (0, 0, 0);
        for stream in lines(text, "stream") {
            // In pieces, as it comes.
            let mut reader = StreamReader::default();
            let (last, pieces) = stream.split_last().unwrap();
            for piece in pieces.chunks(7) {
                assert_eq!(reader.feed(piece, &secrecy), Ok(None));
            }
            let message = reader.feed(&[*last], &secrecy).unwrap().unwrap();
            match &message {
                StreamMessage::State { join, records } => {
                    states += 1;
                    joins += u32::from(*join);
                    assert!(records.iter().any(|record| record.state == State::Alive));
                    let sealed = secrecy.seal_stream(&encode_state(*join, records), || [9; 12]);
                    assert_eq!(sealed.len(), stream.len());
                    let again = StreamReader::default().feed(&sealed, &secrecy).unwrap().unwrap();
                    assert_eq!(again, message);
                }
                StreamMessage::Ping(_) | StreamMessage::Ack { .. } => others += 1,
                message => panic!("{message:?}"),
            }
        }
        assert!(states >= 6 && joins >= 2, "{states} states, {joins} of them joins, {others} others");
    }
}

#[test]
fn without_the_key_nothing_is_read() {
    let (without, with) = (secrecy(""), secrecy(KEY));
    for packet in lines(ENCRYPTED, "packet") {
        assert!(unwrap(&without.open_packet(&packet).unwrap()).messages.is_empty());
    }
    for packet in lines(PLAIN, "packet") {
        assert_eq!(with.open_packet(&packet), None);
        let tolerant = Secrecy { verify_incoming: false, ..with.clone() };
        assert_eq!(tolerant.open_packet(&packet), Some(packet));
    }
    for stream in lines(ENCRYPTED, "stream") {
        assert!(StreamReader::default().feed(&stream, &without).is_err());
    }
    for stream in lines(PLAIN, "stream") {
        assert!(StreamReader::default().feed(&stream, &with).is_err());
        let tolerant = Secrecy { verify_incoming: false, ..with.clone() };
        assert!(StreamReader::default().feed(&stream, &tolerant).unwrap().is_some());
    }
}

/// What the fuzz target begins with.
#[test]
fn recorded_bytes_are_judged_by_the_fuzz_target() {
    for text in [PLAIN, ENCRYPTED] {
        for what in ["packet", "stream"] {
            lines(text, what).iter().for_each(|bytes| crate::gossip::judge(bytes));
        }
    }
}
