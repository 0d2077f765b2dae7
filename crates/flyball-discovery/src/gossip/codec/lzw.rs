//! The compression of the protocol: LZW, eight-bit literals, least significant bit first, as in GIF.

use weezl::{BitOrder, LzwStatus, decode, encode};

use super::kind;
use super::msgpack::{Fault, Reader, write_bytes, write_map, write_number};

const LITERAL_BITS: u8 = 8;

/// What is unpacked at a time, in bytes.
const CHUNK: usize = 16 * 1024;

/// A compressed message around `inner`, with its type in front.
pub(crate) fn wrap(inner: &[u8]) -> Vec<u8> {
    let packed = encode::Encoder::new(BitOrder::Lsb, LITERAL_BITS)
        .encode(inner)
        .expect("every byte has a code where literals have eight bits");
    let mut out = Vec::with_capacity(packed.len() + 16);
    out.push(kind::COMPRESSED);
    write_map(&mut out, 2);
    write_number(&mut out, "Algo", 0);
    write_bytes(&mut out, "Buf", &packed);
    out
}

/// The packed bytes of a compressed message, which stands behind its type.
pub(crate) fn read<'a>(reader: &mut Reader<'a>, most: usize) -> Result<&'a [u8], Fault> {
    let (mut algorithm, mut packed): (u32, &[u8]) = (0, &[]);
    reader.map(|key, value| {
        match key {
            b"Algo" => algorithm = value.number()?,
            b"Buf" => packed = value.raw(most)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match algorithm {
        0 => Ok(packed),
        _ => Err(Fault::Bad("the compression is unknown")),
    }
}

/// Unpacks, but no more than `most` bytes: a few kilobytes can claim to be gigabytes.
pub(crate) fn unpack(packed: &[u8], most: usize) -> Result<Vec<u8>, Fault> {
    let mut decoder = decode::Decoder::new(BitOrder::Lsb, LITERAL_BITS);
    let (mut rest, mut out) = (packed, Vec::new());
    loop {
        let begin = out.len();
        out.resize(begin + CHUNK, 0);
        let result = decoder.decode_bytes(rest, &mut out[begin..]);
        out.truncate(begin + result.consumed_out);
        rest = &rest[result.consumed_in..];
        if out.len() > most {
            return Err(Fault::Bad("what is compressed is too long"));
        }
        match result.status {
            Ok(LzwStatus::Done) => return Ok(out),
            Ok(LzwStatus::Ok) if result.consumed_in > 0 || result.consumed_out > 0 => {}
            _ => return Err(Fault::Bad("the compression is broken")),
        }
    }
}
