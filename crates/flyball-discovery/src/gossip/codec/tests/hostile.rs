//! Bytes that nobody of ours would send.

use super::alive;
use crate::gossip::codec::kind;
use crate::gossip::codec::lzw;
use crate::gossip::codec::message::{Claim, Message, State};
use crate::gossip::codec::msgpack::Fault;
use crate::gossip::codec::packet::{unwrap, wrap};
use crate::gossip::codec::stream::{
    RECORDS_MAX, STREAM_MAX, Secrecy, StreamMessage, StreamReader, encode_state,
};

/// A map of a message, written by hand.
fn body(kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(rest);
    out
}

#[test]
fn new_types_of_strings_nil_unknown_keys_and_any_width_of_numbers_are_read() {
    for (what, rest) in [
        ("str8 key, bin8 value", &b"\x83\xd9\x04Node\xc4\x01a\xa4From\xda\x00\x01b\xabIncarnation\x07"[..]),
        ("uint64", b"\x83\xa4Node\xa1a\xa4From\xa1b\xabIncarnation\xcf\0\0\0\0\0\0\0\x07"),
        ("int64", b"\x83\xa4Node\xa1a\xa4From\xa1b\xabIncarnation\xd3\0\0\0\0\0\0\0\x07"),
        ("str32, map16", b"\xde\0\x03\xa4Node\xdb\0\0\0\x01a\xa4From\xa1b\xabIncarnation\xcc\x07"),
        ("more keys", b"\x85\xa1x\x92\x81\xa1y\xc3\xc7\x02\x05ab\xa4Node\xa1a\xa1z\xcb\0\0\0\0\0\0\0\0\xa4From\xa1b\xabIncarnation\x07"),
    ] {
        let claim = Claim { incarnation: 7, node: "a".to_owned(), from: "b".to_owned() };
        assert_eq!(Message::decode(&body(kind::DEAD, rest)), Ok(Some(Message::Dead(claim))), "{what}");
    }
    let nothing = b"\x83\xa4Node\xa1a\xa4From\xc0\xabIncarnation\xc0";
    let claim = Claim { incarnation: 0, node: "a".to_owned(), from: String::new() };
    assert_eq!(Message::decode(&body(kind::DEAD, nothing)), Ok(Some(Message::Dead(claim))));
}

#[test]
fn what_is_wrong_is_said() {
    let deep = [b"\x81\xa1x".to_vec(), vec![0x91; 20], vec![0xc0]].concat();
    for (bytes, why) in [
        (body(kind::ACK, b"\x81\xa5SeqNo\xff"), "range"),
        (body(kind::ACK, b"\x81\xa5SeqNo\xcf\0\0\0\x01\0\0\0\0"), "range"),
        (body(kind::ACK, b"\x81\xa5SeqNo\xa1x"), "number"),
        (body(kind::ACK, b"\x91\x01"), "map"),
        (body(kind::ACK, b"\x81\xa1x\xc1"), "reserved"),
        (body(kind::ACK, &deep), "nested"),
        (body(kind::DEAD, b"\x81\xa4Node\xa2\xff\xfe"), "UTF-8"),
        (body(kind::DEAD, b"\x80"), "nobody"),
        (body(kind::ALIVE, b"\x81\xa4Node\xa1a"), "no address"),
        (body(kind::ALIVE, b"\x82\xa4Node\xa1a\xa4Addr\xa3abc"), "neither 4 nor 16"),
        (body(kind::INDIRECT_PING, b"\x81\xa4Node\xa1a"), "no target"),
    ] {
        let fault = Message::decode(&bytes).unwrap_err();
        assert!(fault.to_string().contains(why), "{bytes:02x?}: {fault}");
    }
    let long = alive(&"x".repeat(600), b"").encode();
    assert_eq!(Message::decode(&long), Err(Fault::Bad("a value is too long")));
    assert_eq!(Message::decode(&body(99, b"")), Ok(None));
    assert_eq!(Message::decode(b""), Err(Fault::Short));
}

#[test]
fn an_ipv4_address_in_the_clothes_of_ipv6_is_itself() {
    let ip = b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01";
    let rest = [&b"\x83\xa4Addr\xb0"[..], ip, b"\xa4Port\x01\xa4Node\xa1a"].concat();
    let Ok(Some(Message::Alive(alive))) = Message::decode(&body(kind::ALIVE, &rest)) else { panic!() };
    assert_eq!(alive.address, "10.0.0.1:1".parse().unwrap());
    assert!(!alive.versions.are_valid());
}

#[test]
fn a_broken_part_does_not_spoil_the_others() {
    let good = alive("a", b"x").encode();
    let parts = vec![good.clone(), b"\x05\x80".to_vec(), vec![], b"\x63".to_vec(), good];
    let packet = wrap(&parts, true);
    let unwrapped = unwrap(&packet);
    assert_eq!((unwrapped.messages.len(), unwrapped.broken), (2, 2));
    let mut wrong = packet;
    wrong[3] ^= 1;
    assert_eq!(unwrap(&wrong).fault, Some(Fault::Bad("the checksum is wrong")));
    // A truncated tail is dropped.
    let compound = [&[kind::COMPOUND, 2, 0, 3, 0, 9][..], b"\x0b\x80\0", b"\x0b"].concat();
    let unwrapped = unwrap(&compound);
    assert_eq!((unwrapped.messages.len(), unwrapped.broken), (1, 1));
}

#[test]
fn bombs_do_not_go_off() {
    // A kilobyte that unpacks to a megabyte.
    let bomb = lzw::wrap(&vec![99; 1 << 20]);
    assert!(bomb.len() < 4_096);
    assert_eq!(unwrap(&bomb).fault, Some(Fault::Bad("what is compressed is too long")));
    // Parts that each unpack to what one may, and all of them to more.
    let part = lzw::wrap(&vec![99; 60_000]);
    let packet = wrap(&[part.clone(), part], false);
    assert_eq!(unwrap(&packet).fault, Some(Fault::Bad("what is compressed is too long")));
    let mut nested = alive("a", b"").encode();
    for _ in 0..6 {
        nested = wrap(&[nested], true);
    }
    assert_eq!(unwrap(&nested).fault, Some(Fault::Bad("messages are nested too deeply")));
    let stream = lzw::wrap(&vec![0; STREAM_MAX + 1]);
    let read = StreamReader::default().feed(&stream, &Secrecy::default());
    assert_eq!(read, Err(Fault::Bad("what is compressed is too long")));
}

#[test]
fn streams_do_not_believe_lengths() {
    let secrecy = Secrecy::default();
    let feed = |bytes: &[u8]| StreamReader::default().feed(bytes, &secrecy);
    let claims = |nodes: u32| {
        let mut bytes = b"\x06\x82\xa5Nodes\xce".to_vec();
        bytes.extend(nodes.to_be_bytes());
        bytes.extend(b"\xa4Join\xc3");
        bytes
    };
    assert_eq!(feed(&claims(RECORDS_MAX)), Ok(None));
    assert_eq!(feed(&claims(RECORDS_MAX + 1)), Err(Fault::Bad("the state has too many nodes")));
    assert_eq!(
        feed(&[6, 0x81, 0xa5, b'N', b'o', b'd', b'e', b's', 0xff]),
        Err(Fault::Bad("a number is out of range"))
    );
    assert_eq!(feed(&vec![6; STREAM_MAX + 1]), Err(Fault::Bad("the message is too long")));
    // A compressed state that ends too soon will not be longer by waiting.
    assert_eq!(feed(&lzw::wrap(&claims(1))), Err(Fault::Bad("it ends too soon")));
    assert_eq!(feed(b"\x63"), Ok(Some(StreamMessage::Other(0x63))));
}

#[test]
fn a_user_s_state_is_read_and_nodes_without_address_are_left_out() {
    let secrecy = Secrecy::default();
    let mut bytes = b"\x06\x82\xa5Nodes\x02\xacUserStateLen\x03".to_vec();
    bytes.extend(b"\x83\xa4Name\xa1a\xa5State\x03\xa4Port\x01");
    bytes.extend(b"\x84\xa4Name\xa1b\xa5State\x02\xa4Port\x01\xa4Addr\xa4\x01\x02\x03\x04");
    let mut reader = StreamReader::default();
    assert_eq!(reader.feed(&bytes, &secrecy), Ok(None));
    assert_eq!(reader.feed(b"ab", &secrecy), Ok(None));
    let Ok(Some(StreamMessage::State { join: false, records })) = reader.feed(b"c", &secrecy) else {
        panic!()
    };
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].name.as_str(), records[0].state), ("b", State::Dead));
    assert!(encode_state(false, &records).len() > 20);
}
