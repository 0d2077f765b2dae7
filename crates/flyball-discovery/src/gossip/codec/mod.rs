//! Gossip on the wire: bytes to messages and back.
//!
//! Everything here is a pure function of bytes. What comes from the network is judged piece by piece: a message that
//! is wrong is dropped and counted, and the others of the same packet count; a claim of a length is never believed.
//!
//! * [`msgpack`]: values, with bounds
//! * [`message`]: one message each, and the records of a push/pull
//! * [`packet`]: what wraps messages in a datagram
//! * [`stream`]: what is said over TCP
//! * [`crypto`]: the encryption around both
//! * [`lzw`]: the compression within both

pub(crate) mod crypto;
pub(crate) mod lzw;
pub(crate) mod message;
pub(crate) mod msgpack;
pub(crate) mod packet;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

/// The byte in front of a message that says what it is.
pub(crate) mod kind {
    pub(crate) const PING: u8 = 0;
    pub(crate) const INDIRECT_PING: u8 = 1;
    pub(crate) const ACK: u8 = 2;
    pub(crate) const SUSPECT: u8 = 3;
    pub(crate) const ALIVE: u8 = 4;
    pub(crate) const DEAD: u8 = 5;
    /// Streams only.
    pub(crate) const PUSH_PULL: u8 = 6;
    pub(crate) const COMPOUND: u8 = 7;
    // 8 is a message of somebody's own; nobody here has any.
    pub(crate) const COMPRESSED: u8 = 9;
    /// Streams only; encrypted packets have no type in front.
    pub(crate) const ENCRYPTED: u8 = 10;
    pub(crate) const NACK: u8 = 11;
    pub(crate) const CRC: u8 = 12;
    /// Streams only.
    pub(crate) const ERROR: u8 = 13;
}
