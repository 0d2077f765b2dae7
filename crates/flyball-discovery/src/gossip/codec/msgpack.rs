//! The little of msgpack that gossip needs, with bounds.
//!
//! Messages are maps keyed by names. A reader takes what is there in any order, skips what it does not know, and
//! reads nil as "absent". Strings and bytes come as the old specification's one raw type or as either of the new ones;
//! we write the old, which the original's library writes and older ones demand.
//!
//! Nothing is allocated by a length that was only claimed: a value is a slice of the input, or the input is too short.

use std::fmt;

use rmp::Marker;
use rmp::decode::{self, Bytes};
use rmp::encode;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They end too soon; on a stream there may be more.
    Short,
    /// No more bytes would help.
    Bad(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it ends too soon",
            Self::Bad(why) => why,
        })
    }
}

/// Longest key of a map; ours have 14 bytes, others' are skipped.
const KEY_MAX: usize = 255;

/// Deepest nesting of a value that is skipped.
const DEPTH_MAX: usize = 16;

/// Reads values from the front of a slice.
#[derive(Debug)]
pub(crate) struct Reader<'a>(Bytes<'a>);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Bytes::new(bytes))
    }

    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0.remaining_slice()
    }

    /// The next so many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest().split_at_checked(length).ok_or(Fault::Short)?;
        self.0 = Bytes::new(rest);
        Ok(taken)
    }

    fn peek(&self) -> Result<Marker, Fault> {
        self.rest().first().map(|byte| Marker::from_u8(*byte)).ok_or(Fault::Short)
    }

    /// Whether the next value is nil, which is read then.
    fn nil(&mut self) -> Result<bool, Fault> {
        let nil = self.peek()? == Marker::Null;
        if nil {
            self.take(1)?;
        }
        Ok(nil)
    }

    /// Bytes or text, empty for nil.
    pub(crate) fn raw(&mut self, most: usize) -> Result<&'a [u8], Fault> {
        if self.nil()? {
            return Ok(&[]);
        }
        let length = match self.peek()? {
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                decode::read_bin_len(&mut self.0).map_err(short)?
            }
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                decode::read_str_len(&mut self.0).map_err(short)?
            }
            _ => return Err(Fault::Bad("a value is no text and no bytes")),
        };
        match usize::try_from(length) {
            Ok(length) if length <= most => self.take(length),
            _ => Err(Fault::Bad("a value is too long")),
        }
    }

    /// UTF-8 text.
    pub(crate) fn text(&mut self, most: usize) -> Result<String, Fault> {
        match std::str::from_utf8(self.raw(most)?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Fault::Bad("a name is not UTF-8")),
        }
    }

    /// A number that is not negative, 0 for nil.
    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Fault> {
        if self.nil()? {
            return T::try_from(0).map_err(|_| Fault::Bad("a number is out of range"));
        }
        let whole = match self.peek()? {
            Marker::FixPos(_)
            | Marker::FixNeg(_)
            | Marker::U8
            | Marker::U16
            | Marker::U32
            | Marker::U64
            | Marker::I8
            | Marker::I16
            | Marker::I32
            | Marker::I64 => decode::read_int::<u64, _>(&mut self.0),
            _ => return Err(Fault::Bad("a value is no number")),
        };
        match whole {
            Ok(number) => T::try_from(number).map_err(|_| Fault::Bad("a number is out of range")),
            Err(decode::NumValueReadError::OutOfRange) => Err(Fault::Bad("a number is out of range")),
            Err(_) => Err(Fault::Short),
        }
    }

    /// A truth value, false for nil.
    pub(crate) fn flag(&mut self) -> Result<bool, Fault> {
        match self.peek()? {
            Marker::True => self.take(1).map(|_| true),
            Marker::False | Marker::Null => self.take(1).map(|_| false),
            _ => Err(Fault::Bad("a value is neither true nor false")),
        }
    }

    /// A map: hands each key to `field`, which reads the value or says that it does not know the key.
    pub(crate) fn map(
        &mut self,
        mut field: impl FnMut(&[u8], &mut Self) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        if self.nil()? {
            return Ok(());
        }
        let entries = match self.peek()? {
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                decode::read_map_len(&mut self.0).map_err(short)?
            }
            _ => return Err(Fault::Bad("a message is no map")),
        };
        // However many are claimed, each takes two bytes.
        for _ in 0..entries {
            let key = self.raw(KEY_MAX)?;
            if !field(key, self)? {
                self.skip()?;
            }
        }
        Ok(())
    }

    /// Reads a value of any kind.
    fn skip(&mut self) -> Result<(), Fault> {
        // Values still to be read, at each level of nesting.
        let mut open = [0_u64; DEPTH_MAX];
        let mut depth = 0;
        open[0] = 1;
        loop {
            while open[depth] == 0 {
                if depth == 0 {
                    return Ok(());
                }
                depth -= 1;
            }
            open[depth] -= 1;
            let inside = self.skip_one()?;
            if inside > 0 {
                depth += 1;
                *open.get_mut(depth).ok_or(Fault::Bad("a value is nested too deeply"))? = inside;
            }
        }
    }

    /// Reads a value without what is in it, of which it says the count.
    fn skip_one(&mut self) -> Result<u64, Fault> {
        let marker = self.peek()?;
        let length = match marker {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => 1,
            Marker::U8 | Marker::I8 => 2,
            Marker::U16 | Marker::I16 | Marker::FixExt1 => 3,
            Marker::U32 | Marker::I32 | Marker::F32 => 5,
            Marker::U64 | Marker::I64 | Marker::F64 => 9,
            Marker::FixExt2 => 4,
            Marker::FixExt4 => 6,
            Marker::FixExt8 => 10,
            Marker::FixExt16 => 18,
            Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => {
                let meta = decode::read_ext_meta(&mut self.0).map_err(short)?;
                usize::try_from(meta.size).map_err(|_| Fault::Bad("a value is too long"))?
            }
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                return Ok(u64::from(decode::read_map_len(&mut self.0).map_err(short)?) * 2);
            }
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                return Ok(decode::read_array_len(&mut self.0).map_err(short)?.into());
            }
            Marker::Reserved => return Err(Fault::Bad("a value has a reserved type")),
            _ => return self.raw(usize::MAX).map(|_| 0),
        };
        self.take(length).map(|_| 0)
    }
}

/// The type was seen before, so only bytes can be missing.
fn short<E>(_: E) -> Fault {
    Fault::Short
}

/// Writing to memory, which cannot fail.
const MEMORY: &str = "a vector takes every byte";

/// The head of a map.
pub(crate) fn write_map(out: &mut Vec<u8>, entries: u32) {
    encode::write_map_len(out, entries).expect(MEMORY);
}

/// Text or bytes, as the old raw type.
pub(crate) fn write_raw(out: &mut Vec<u8>, bytes: &[u8]) {
    match (u8::try_from(bytes.len()), u16::try_from(bytes.len())) {
        (Ok(length @ 0..=31), _) => out.push(Marker::FixStr(length).to_u8()),
        (_, Ok(length)) => {
            out.push(Marker::Str16.to_u8());
            out.extend(length.to_be_bytes());
        }
        _ => {
            let length = u32::try_from(bytes.len()).expect("messages are at most some megabytes");
            out.push(Marker::Str32.to_u8());
            out.extend(length.to_be_bytes());
        }
    }
    out.extend(bytes);
}

/// A key and a number.
pub(crate) fn write_number(out: &mut Vec<u8>, key: &str, number: u32) {
    write_raw(out, key.as_bytes());
    encode::write_uint(out, number.into()).expect(MEMORY);
}

/// A key and text or bytes.
pub(crate) fn write_bytes(out: &mut Vec<u8>, key: &str, bytes: &[u8]) {
    write_raw(out, key.as_bytes());
    write_raw(out, bytes);
}

/// A key and nothing.
pub(crate) fn write_nil(out: &mut Vec<u8>, key: &str) {
    write_raw(out, key.as_bytes());
    out.push(Marker::Null.to_u8());
}

/// A key and a truth value.
pub(crate) fn write_flag(out: &mut Vec<u8>, key: &str, flag: bool) {
    write_raw(out, key.as_bytes());
    out.push(if flag { Marker::True } else { Marker::False }.to_u8());
}
