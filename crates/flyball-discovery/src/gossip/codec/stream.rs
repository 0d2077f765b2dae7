//! What is said over TCP: one question and one answer on each connection.
//!
//! From outside: encryption with a head of its own, compression, then the message. Only the first two say how long
//! they are. What is neither has to be read until it makes sense, so the reader is fed as bytes come and goes on from
//! where it was: a state of thousands of nodes is not read again for each packet.

use super::crypto::Keyring;
use super::message::{Header, Ping, Record, read_error, read_seq, write_error};
use super::msgpack::{Fault, Reader};
use super::{kind, lzw};

/// Longest message, compressed or not, in bytes: the states of 20 000 nodes with names and metadata as they are.
pub(crate) const STREAM_MAX: usize = 8 << 20;

/// Most nodes of one state, the dead included.
pub(crate) const RECORDS_MAX: u32 = 20_000;

/// What is in front of an encrypted message: its type and its length.
const SEALED_HEAD: usize = 5;

/// What was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamMessage {
    Ping(Ping),
    Ack {
        seq: u32,
    },
    State {
        join: bool,
        records: Vec<Record>,
    },
    Error(String),
    /// Something that means nothing to us.
    Other(u8),
}

/// Whose messages are accepted, and how ours leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrecy {
    pub(crate) keys: Keyring,
    /// Refuse what is not encrypted, where there are keys.
    pub(crate) verify_incoming: bool,
    /// Encrypt, where there are keys.
    pub(crate) verify_outgoing: bool,
}

impl Secrecy {
    /// A datagram as plain bytes; `None` when it is not ours to read.
    pub(crate) fn open_packet(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.keys.is_empty() {
            return Some(bytes.to_owned());
        }
        match self.keys.open(bytes, &[]) {
            None if !self.verify_incoming => Some(bytes.to_owned()),
            opened => opened,
        }
    }

    /// Plain bytes as a datagram.
    pub(crate) fn seal_packet(&self, plain: Vec<u8>, nonce: impl FnOnce() -> [u8; 12]) -> Vec<u8> {
        let sealed = self.seals().then(|| self.keys.seal(&plain, &[], nonce())).flatten();
        sealed.unwrap_or(plain)
    }

    /// A message as it travels on a stream: compressed, then encrypted.
    pub(crate) fn seal_stream(&self, plain: &[u8], nonce: impl FnOnce() -> [u8; 12]) -> Vec<u8> {
        let packed = lzw::wrap(plain);
        if !self.seals() {
            return packed;
        }
        let length = packed.len() + super::crypto::OVERHEAD;
        let mut out = vec![kind::ENCRYPTED];
        out.extend(u32::try_from(length).expect("messages are at most some megabytes").to_be_bytes());
        match self.keys.seal(&packed, &out, nonce()) {
            Some(sealed) => out.extend(sealed),
            None => return packed,
        }
        out
    }

    /// Whether what leaves is encrypted.
    pub(crate) fn seals(&self) -> bool {
        self.verify_outgoing && !self.keys.is_empty()
    }
}

/// Reads one message that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct StreamReader {
    bytes: Vec<u8>,
    /// How far a state was read.
    partial: Option<Partial>,
}

#[derive(Debug, Default)]
struct Partial {
    header: Header,
    records: Vec<Record>,
    /// Records read, those of nobody included.
    count: u32,
    /// Bytes read.
    at: usize,
}

impl StreamReader {
    /// More bytes; the message, once it is complete.
    pub(crate) fn feed(&mut self, more: &[u8], secrecy: &Secrecy) -> Result<Option<StreamMessage>, Fault> {
        if self.bytes.len() + more.len() > STREAM_MAX {
            return Err(Fault::Bad("the message is too long"));
        }
        self.bytes.extend(more);
        match self.read(secrecy) {
            Ok(message) => Ok(Some(message)),
            Err(Fault::Short) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    fn read(&mut self, secrecy: &Secrecy) -> Result<StreamMessage, Fault> {
        let kind = *self.bytes.first().ok_or(Fault::Short)?;
        if kind == kind::ENCRYPTED {
            let packed = open(&self.bytes, &secrecy.keys)?;
            return complete(&packed);
        }
        if secrecy.verify_incoming && !secrecy.keys.is_empty() {
            return Err(Fault::Bad("it is not encrypted, and this node has keys"));
        }
        match kind {
            kind::COMPRESSED => {
                let packed = lzw::read(&mut Reader::new(&self.bytes[1..]), STREAM_MAX)?;
                complete_plain(&lzw::unpack(packed, STREAM_MAX)?)
            }
            kind::PUSH_PULL => read_state(&self.bytes, &mut self.partial),
            _ => read_other(&self.bytes),
        }
    }
}

/// Decrypts a message that is complete.
fn open(bytes: &[u8], keys: &Keyring) -> Result<Vec<u8>, Fault> {
    if keys.is_empty() {
        return Err(Fault::Bad("it is encrypted, and this node has no keys"));
    }
    let (head, rest) = bytes.split_first_chunk::<SEALED_HEAD>().ok_or(Fault::Short)?;
    let [_, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > STREAM_MAX {
        return Err(Fault::Bad("the message is too long"));
    }
    let sealed = rest.get(..length).ok_or(Fault::Short)?;
    keys.open(sealed, head).ok_or(Fault::Bad("it is encrypted by a key that this node does not have"))
}

/// A message of which nothing is missing, perhaps compressed.
fn complete(bytes: &[u8]) -> Result<StreamMessage, Fault> {
    match bytes.split_first() {
        Some((&kind::COMPRESSED, rest)) => {
            let packed = lzw::read(&mut Reader::new(rest), rest.len()).map_err(final_fault)?;
            complete_plain(&lzw::unpack(packed, STREAM_MAX)?)
        }
        _ => complete_plain(bytes),
    }
}

fn complete_plain(bytes: &[u8]) -> Result<StreamMessage, Fault> {
    let message = match bytes.first() {
        Some(&kind::PUSH_PULL) => read_state(bytes, &mut None),
        _ => read_other(bytes),
    };
    message.map_err(final_fault)
}

/// Nothing more comes.
fn final_fault(fault: Fault) -> Fault {
    match fault {
        Fault::Short => Fault::Bad("it ends too soon"),
        fault => fault,
    }
}

fn read_other(bytes: &[u8]) -> Result<StreamMessage, Fault> {
    let (kind, rest) = bytes.split_first().ok_or(Fault::Short)?;
    let mut reader = Reader::new(rest);
    Ok(match *kind {
        kind::PING => StreamMessage::Ping(Ping::read(&mut reader)?),
        kind::ACK => StreamMessage::Ack { seq: read_seq(&mut reader)? },
        kind::ERROR => StreamMessage::Error(read_error(&mut reader)?),
        kind => StreamMessage::Other(kind),
    })
}

/// Goes on with a state from where it was.
fn read_state(bytes: &[u8], partial: &mut Option<Partial>) -> Result<StreamMessage, Fault> {
    let state = match partial {
        Some(state) => state,
        None => {
            let mut reader = Reader::new(bytes.get(1..).unwrap_or_default());
            let header = Header::read(&mut reader)?;
            if header.nodes > RECORDS_MAX {
                return Err(Fault::Bad("the state has too many nodes"));
            }
            let at = bytes.len() - reader.rest().len();
            partial.insert(Partial { header, at, ..Partial::default() })
        }
    };
    while state.count < state.header.nodes {
        let mut reader = Reader::new(&bytes[state.at..]);
        state.records.extend(Record::read(&mut reader)?);
        state.count += 1;
        state.at = bytes.len() - reader.rest().len();
    }
    // Nobody here has a state of a user's own, but who sends one waits until it is read.
    let user_state = usize::try_from(state.header.user_state).unwrap_or(usize::MAX);
    if user_state > STREAM_MAX {
        return Err(Fault::Bad("the message is too long"));
    }
    if bytes.len() - state.at < user_state {
        return Err(Fault::Short);
    }
    Ok(StreamMessage::State { join: state.header.join, records: std::mem::take(&mut state.records) })
}

/// A state, with its type in front.
pub(crate) fn encode_state(join: bool, records: &[Record]) -> Vec<u8> {
    let nodes = u32::try_from(records.len()).expect("the number of members is bounded");
    let mut out = Vec::with_capacity(64 + records.len() * 192);
    out.push(kind::PUSH_PULL);
    Header { nodes, user_state: 0, join }.write(&mut out);
    records.iter().for_each(|record| record.write(&mut out));
    out
}

/// What went wrong, for the one who asked.
pub(crate) fn encode_error(text: &str) -> Vec<u8> {
    let mut out = vec![kind::ERROR];
    write_error(&mut out, text);
    out
}
