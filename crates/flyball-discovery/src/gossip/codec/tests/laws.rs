//! For any message, and for any bytes.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use crate::gossip::codec::crypto::Keyring;
use crate::gossip::codec::lzw;
use crate::gossip::codec::message::{Alive, Claim, IndirectPing, Message, Ping, Record, State, Versions};
use crate::gossip::codec::packet::{unwrap, wrap};
use crate::gossip::codec::stream::{Secrecy, StreamMessage, StreamReader, encode_error, encode_state};

fn name() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-z0-9.äß-]{1,60}").unwrap()
}

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(|bytes| IpAddr::from(bytes).to_canonical()),
    ]
    .prop_filter("a packet can go there", |ip| !ip.is_unspecified() && !ip.is_multicast())
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (ip(), 1_u16..).prop_map(SocketAddr::from)
}

fn source() -> impl Strategy<Value = (Option<SocketAddr>, String)> {
    prop_oneof![Just((None, String::new())), (address(), name()).prop_map(|(at, name)| (Some(at), name))]
}

fn versions() -> impl Strategy<Value = Versions> {
    any::<[u8; 6]>().prop_map(Versions)
}

fn message() -> impl Strategy<Value = Message> {
    let claim = || {
        (any::<u32>(), name(), name()).prop_map(|(incarnation, node, from)| Claim { incarnation, node, from })
    };
    let meta = proptest::collection::vec(any::<u8>(), 0..=512);
    prop_oneof![
        (any::<u32>(), name(), source()).prop_map(|(seq, node, (source, source_node))| {
            Message::Ping(Ping { seq, node, source, source_node })
        }),
        (any::<u32>(), ip(), any::<u16>(), name(), any::<bool>(), source()).prop_map(
            |(seq, target, port, node, nack, (source, source_node))| Message::IndirectPing(IndirectPing {
                seq,
                target,
                port,
                node,
                nack,
                source,
                source_node
            })
        ),
        any::<u32>().prop_map(|seq| Message::Ack { seq }),
        any::<u32>().prop_map(|seq| Message::Nack { seq }),
        claim().prop_map(Message::Suspect),
        claim().prop_map(Message::Dead),
        (any::<u32>(), name(), address(), meta, versions()).prop_map(
            |(incarnation, node, address, meta, versions)| Message::Alive(Alive {
                incarnation,
                node,
                address,
                meta,
                versions
            })
        ),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let meta = proptest::collection::vec(any::<u8>(), 0..100);
    let state = prop_oneof![Just(State::Alive), Just(State::Suspect), Just(State::Dead), Just(State::Left)];
    (name(), address(), meta, any::<u32>(), state, versions()).prop_map(
        |(name, address, meta, incarnation, state, versions)| Record {
            name,
            address,
            meta,
            incarnation,
            state,
            versions,
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(messages in proptest::collection::vec(message(), 1..20), checksum: bool) {
        let parts: Vec<_> = messages.iter().map(Message::encode).collect();
        let unwrapped = unwrap(&wrap(&parts, checksum));
        prop_assert_eq!(unwrapped.messages, messages);
        prop_assert_eq!(unwrapped.broken, 0);
    }

    #[test]
    fn a_state_in_any_pieces_is_read(
        records in proptest::collection::vec(record(), 0..40),
        join: bool,
        piece in 1_usize..400,
        way in 0..3,
    ) {
        let keys = if way == 2 { "MDEyMzQ1Njc4OWFiY2RlZg==" } else { "" };
        let secrecy = Secrecy { keys: Keyring::parse(keys).unwrap(), verify_incoming: true, verify_outgoing: true };
        let plain = encode_state(join, &records);
        let bytes = if way == 0 { plain } else { secrecy.seal_stream(&plain, || [3; 12]) };
        let mut reader = StreamReader::default();
        let mut read = None;
        for piece in bytes.chunks(piece) {
            prop_assert!(read.is_none());
            read = reader.feed(piece, &secrecy).unwrap();
        }
        prop_assert_eq!(read, Some(StreamMessage::State { join, records }));
    }

    #[test]
    fn what_is_packed_is_unpacked(bytes in proptest::collection::vec(0_u8..9, 0..20_000)) {
        let packed = lzw::wrap(&bytes);
        let mut reader = crate::gossip::codec::msgpack::Reader::new(&packed[1..]);
        let inner = lzw::read(&mut reader, packed.len()).unwrap();
        prop_assert_eq!(lzw::unpack(inner, bytes.len()).unwrap(), bytes);
    }

    #[test]
    fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..600), kind in 0_u8..14) {
        let mut bytes = bytes;
        unwrap(&bytes);
        let _ = StreamReader::default().feed(&bytes, &Secrecy::default());
        bytes.insert(0, kind);
        unwrap(&bytes);
        let _ = StreamReader::default().feed(&bytes, &Secrecy::default());
    }

    #[test]
    fn a_changed_byte_is_judged(message in message(), place: usize, byte: u8) {
        let mut bytes = message.encode();
        let place = place % bytes.len();
        bytes[place] = byte;
        for message in unwrap(&bytes).messages {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(Some(message)));
        }
    }

    #[test]
    fn an_error_is_told(text in "[ -~]{0,200}") {
        let read = StreamReader::default().feed(&encode_error(&text), &Secrecy::default());
        prop_assert_eq!(read, Ok(Some(StreamMessage::Error(text))));
    }
}
