//! What wraps messages in a datagram: from outside, encryption (which has no byte of its own), a checksum,
//! compression, several messages in one.
//!
//! Each layer may be missing, and others nest them as they like, so reading recurses, with a bound on the depth and
//! one on what all compressed parts of a packet unpack to.

use super::message::Message;
use super::msgpack::{Fault, Reader};
use super::{kind, lzw};

/// Most bytes of a packet that we send, encryption included.
pub(crate) const PACKET_MAX: usize = 1_400;

/// Most messages that are sent in one packet: their number is one byte.
pub(crate) const PARTS_MAX: usize = 255;

/// What a packet of several messages needs beside them: its head, and for each its length.
pub(crate) const COMPOUND_OVERHEAD: usize = 2;
pub(crate) const PART_OVERHEAD: usize = 2;

/// Most that the compressed parts of a packet may unpack to, in bytes.
const UNPACKED_MAX: usize = 64 * 1024;

/// Deepest nesting: checksum, compression, several in one, the message, and one to spare.
const DEPTH_MAX: u32 = 5;

/// What a packet contained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unwrapped {
    pub(crate) messages: Vec<Message>,
    /// Parts that were no message, and why the first was not.
    pub(crate) broken: u32,
    pub(crate) fault: Option<Fault>,
}

/// Reads a packet that is not encrypted any more. What is broken is left out, what is unknown too.
pub(crate) fn unwrap(bytes: &[u8]) -> Unwrapped {
    let mut unwrapped = Unwrapped::default();
    let mut budget = UNPACKED_MAX;
    unwrap_into(bytes, &mut unwrapped, &mut budget, 0);
    unwrapped
}

fn unwrap_into(bytes: &[u8], to: &mut Unwrapped, budget: &mut usize, depth: u32) {
    if let Err(fault) = unwrap_layer(bytes, to, budget, depth) {
        to.broken += 1;
        to.fault.get_or_insert(fault);
    }
}

fn unwrap_layer(bytes: &[u8], to: &mut Unwrapped, budget: &mut usize, depth: u32) -> Result<(), Fault> {
    if depth >= DEPTH_MAX {
        return Err(Fault::Bad("messages are nested too deeply"));
    }
    let (kind, rest) = bytes.split_first().ok_or(Fault::Short)?;
    match *kind {
        kind::CRC => {
            let (expected, rest) = rest.split_first_chunk().ok_or(Fault::Short)?;
            if u32::from_be_bytes(*expected) != crc32fast::hash(rest) {
                return Err(Fault::Bad("the checksum is wrong"));
            }
            unwrap_into(rest, to, budget, depth + 1);
        }
        kind::COMPRESSED => {
            let packed = lzw::read(&mut Reader::new(rest), rest.len())?;
            let inner = lzw::unpack(packed, *budget)?;
            *budget -= inner.len();
            unwrap_into(&inner, to, budget, depth + 1);
        }
        kind::COMPOUND => {
            let (count, rest) = rest.split_first().ok_or(Fault::Short)?;
            let lengths = usize::from(*count) * PART_OVERHEAD;
            let (lengths, mut rest) = rest.split_at_checked(lengths).ok_or(Fault::Short)?;
            for length in lengths.chunks_exact(PART_OVERHEAD) {
                let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
                let (part, after) = rest.split_at_checked(length).ok_or(Fault::Short)?;
                rest = after;
                unwrap_into(part, to, budget, depth + 1);
            }
        }
        _ => to.messages.extend(Message::decode(bytes)?),
    }
    Ok(())
}

/// Encoded messages as one packet, to be encrypted by the caller; at most [`PARTS_MAX`] of them, each shorter than
/// 64 KiB. Compressed where that helps.
pub(crate) fn wrap(parts: &[Vec<u8>], checksum: bool) -> Vec<u8> {
    let plain = match parts {
        [one] => one.clone(),
        _ => compound(parts),
    };
    let packed = lzw::wrap(&plain);
    let packet = if packed.len() < plain.len() { packed } else { plain };
    if !checksum {
        return packet;
    }
    let mut out = Vec::with_capacity(packet.len() + 5);
    out.push(kind::CRC);
    out.extend(crc32fast::hash(&packet).to_be_bytes());
    out.extend(packet);
    out
}

fn compound(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![kind::COMPOUND, u8::try_from(parts.len()).expect("packets have at most 255 parts")];
    for part in parts {
        let length =
            u16::try_from(part.len()).expect("parts fit into packets, which are shorter than 64 KiB");
        out.extend(length.to_be_bytes());
    }
    parts.iter().for_each(|part| out.extend(part));
    out
}
