//! The messages, one map each, and the records a push/pull is made of.

use std::net::{IpAddr, SocketAddr};

use super::kind;
use super::msgpack::{Fault, Reader, write_bytes, write_flag, write_map, write_nil, write_number, write_raw};

/// Longest name of a node, in bytes. The longest that fits into one packet together with the longest metadata, and
/// twice what DNS allows.
pub(crate) const NAME_MAX: usize = 512;

/// Longest metadata of a node, in bytes: the original's bound.
pub(crate) const META_MAX: usize = 512;

/// Longest payload of an ack that is read; ours have none.
const PAYLOAD_MAX: usize = 65_535;

/// Longest text of an error that is read.
const ERROR_MAX: usize = 4_096;

/// The versions a node speaks: least, most and current of the protocol, then the same of its user's own messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions(pub(crate) [u8; 6]);

impl Versions {
    /// Ours, which are those of the original.
    pub(crate) const OURS: Self = Self([1, 5, 2, 0, 0, 0]);

    /// Whether they make sense at all.
    pub(crate) fn are_valid(self) -> bool {
        let [least, most, ..] = self.0;
        least > 0 && most > 0 && least <= most
    }

    /// The newest protocol it understands.
    pub(crate) fn most(self) -> u8 {
        self.0[1]
    }
}

/// What nodes say to each other in packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Ping(Ping),
    IndirectPing(IndirectPing),
    Ack { seq: u32 },
    Nack { seq: u32 },
    Suspect(Claim),
    Alive(Alive),
    Dead(Claim),
}

/// Are you there?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ping {
    pub(crate) seq: u32,
    /// Who is meant; nobody else answers. Empty for whoever is there.
    pub(crate) node: String,
    /// Where the answer should go; without it to where the packet came from.
    pub(crate) source: Option<SocketAddr>,
    pub(crate) source_node: String,
}

/// Is that one there? Ask it, since I get no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndirectPing {
    pub(crate) seq: u32,
    pub(crate) target: IpAddr,
    /// 0 is the usual one.
    pub(crate) port: u16,
    pub(crate) node: String,
    /// Say so, too, when there is no answer.
    pub(crate) nack: bool,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) source_node: String,
}

/// Somebody's word that a node does not answer, or is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) incarnation: u32,
    pub(crate) node: String,
    /// Who says so; the node itself when it leaves.
    pub(crate) from: String,
}

/// A node is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alive {
    pub(crate) incarnation: u32,
    pub(crate) node: String,
    pub(crate) address: SocketAddr,
    pub(crate) meta: Vec<u8>,
    pub(crate) versions: Versions,
}

/// What a node is believed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Alive,
    Suspect,
    Dead,
    Left,
}

/// A node as a push/pull tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) meta: Vec<u8>,
    pub(crate) incarnation: u32,
    pub(crate) state: State,
    pub(crate) versions: Versions,
}

/// What a push/pull begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) nodes: u32,
    pub(crate) user_state: u32,
    pub(crate) join: bool,
}

impl Message {
    /// One message with its type in front; `None` for a type that means nothing to us.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        let (kind, body) = bytes.split_first().ok_or(Fault::Short)?;
        let mut reader = Reader::new(body);
        Ok(Some(match *kind {
            kind::PING => Self::Ping(Ping::read(&mut reader)?),
            kind::INDIRECT_PING => Self::IndirectPing(IndirectPing::read(&mut reader)?),
            kind::ACK => Self::Ack { seq: read_seq(&mut reader)? },
            kind::NACK => Self::Nack { seq: read_seq(&mut reader)? },
            kind::SUSPECT => Self::Suspect(Claim::read(&mut reader)?),
            kind::DEAD => Self::Dead(Claim::read(&mut reader)?),
            kind::ALIVE => Self::Alive(Alive::read(&mut reader)?),
            _ => return Ok(None),
        }))
    }

    /// With its type in front.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        match self {
            Self::Ping(ping) => ping.write(&mut out),
            Self::IndirectPing(ping) => ping.write(&mut out),
            Self::Ack { seq } => {
                out.push(kind::ACK);
                write_map(&mut out, 2);
                write_nil(&mut out, "Payload");
                write_number(&mut out, "SeqNo", *seq);
            }
            Self::Nack { seq } => {
                out.push(kind::NACK);
                write_map(&mut out, 1);
                write_number(&mut out, "SeqNo", *seq);
            }
            Self::Suspect(claim) => claim.write(&mut out, kind::SUSPECT),
            Self::Dead(claim) => claim.write(&mut out, kind::DEAD),
            Self::Alive(alive) => alive.write(&mut out),
        }
        out
    }
}

impl Ping {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut ping = Self::default();
        let (mut ip, mut port) = (None, 0);
        reader.map(|key, value| {
            match key {
                b"SeqNo" => ping.seq = value.number()?,
                b"Node" => ping.node = value.text(NAME_MAX)?,
                b"SourceAddr" => ip = read_ip(value)?,
                b"SourcePort" => port = value.number()?,
                b"SourceNode" => ping.source_node = value.text(NAME_MAX)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        ping.name_source(ip, port);
        Ok(ping)
    }

    /// A name without an address that can be answered says nothing.
    fn name_source(&mut self, ip: Option<IpAddr>, port: u16) {
        self.source = socket(ip, port);
        if self.source.is_none() {
            self.source_node.clear();
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(kind::PING);
        write_map(out, 2 + source_entries(self.source));
        write_bytes(out, "Node", self.node.as_bytes());
        write_number(out, "SeqNo", self.seq);
        write_source(out, self.source, &self.source_node);
    }
}

impl IndirectPing {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut ping = Ping::default();
        let (mut ip, mut port, mut target, mut target_port, mut nack) = (None, 0, None, 0, false);
        reader.map(|key, value| {
            match key {
                b"SeqNo" => ping.seq = value.number()?,
                b"Target" => target = read_ip(value)?,
                b"Port" => target_port = value.number()?,
                b"Node" => ping.node = value.text(NAME_MAX)?,
                b"Nack" => nack = value.flag()?,
                b"SourceAddr" => ip = read_ip(value)?,
                b"SourcePort" => port = value.number()?,
                b"SourceNode" => ping.source_node = value.text(NAME_MAX)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        ping.name_source(ip, port);
        Ok(Self {
            seq: ping.seq,
            target: target.ok_or(Fault::Bad("an indirect ping has no target"))?,
            port: target_port,
            node: ping.node,
            nack,
            source: ping.source,
            source_node: ping.source_node,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(kind::INDIRECT_PING);
        write_map(out, 5 + source_entries(self.source));
        write_flag(out, "Nack", self.nack);
        write_bytes(out, "Node", self.node.as_bytes());
        write_number(out, "Port", self.port.into());
        write_number(out, "SeqNo", self.seq);
        write_source(out, self.source, &self.source_node);
        write_ip(out, "Target", self.target);
    }
}

impl Claim {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut claim = Self { incarnation: 0, node: String::new(), from: String::new() };
        reader.map(|key, value| {
            match key {
                b"Incarnation" => claim.incarnation = value.number()?,
                b"Node" => claim.node = value.text(NAME_MAX)?,
                b"From" => claim.from = value.text(NAME_MAX)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        match claim.node.is_empty() {
            true => Err(Fault::Bad("a claim is about nobody")),
            false => Ok(claim),
        }
    }

    fn write(&self, out: &mut Vec<u8>, kind: u8) {
        out.push(kind);
        write_map(out, 3);
        write_bytes(out, "From", self.from.as_bytes());
        write_number(out, "Incarnation", self.incarnation);
        write_bytes(out, "Node", self.node.as_bytes());
    }
}

impl Alive {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let record = Record::read_named(reader, b"Node")?.ok_or(Fault::Bad("a node has no address"))?;
        let Record { name, address, meta, incarnation, versions, .. } = record;
        Ok(Self { incarnation, node: name, address, meta, versions })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(kind::ALIVE);
        write_map(out, 6);
        write_ip(out, "Addr", self.address.ip());
        write_number(out, "Incarnation", self.incarnation);
        write_bytes(out, "Meta", &self.meta);
        write_bytes(out, "Node", self.node.as_bytes());
        write_number(out, "Port", self.address.port().into());
        write_bytes(out, "Vsn", &self.versions.0);
    }
}

impl Record {
    /// A record of a push/pull; `None` for a node that nobody can reach.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Fault> {
        Self::read_named(reader, b"Name")
    }

    fn read_named(reader: &mut Reader<'_>, name_key: &[u8]) -> Result<Option<Self>, Fault> {
        let (mut name, mut ip, mut port) = (String::new(), None, 0);
        let (mut meta, mut incarnation, mut state, mut versions) = (Vec::new(), 0, 0, Versions::default());
        reader.map(|key, value| {
            match key {
                key if key == name_key => name = value.text(NAME_MAX)?,
                b"Addr" => ip = read_ip(value)?,
                b"Port" => port = value.number()?,
                b"Meta" => meta = value.raw(META_MAX)?.to_owned(),
                b"Incarnation" => incarnation = value.number()?,
                b"State" => state = value.number::<u32>()?,
                b"Vsn" => {
                    // A shorter one is of no version that is alive, and not valid.
                    versions = value.raw(255)?.first_chunk().copied().map(Versions).unwrap_or_default();
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let state = match state {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Dead,
            3 => State::Left,
            _ => return Err(Fault::Bad("a node is in an unknown state")),
        };
        let address = socket(ip, port).filter(|_| !name.is_empty());
        Ok(address.map(|address| Self { name, address, meta, incarnation, state, versions }))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_map(out, 7);
        write_ip(out, "Addr", self.address.ip());
        write_number(out, "Incarnation", self.incarnation);
        write_bytes(out, "Meta", &self.meta);
        write_bytes(out, "Name", self.name.as_bytes());
        write_number(out, "Port", self.address.port().into());
        write_number(out, "State", self.state as u32);
        write_bytes(out, "Vsn", &self.versions.0);
    }
}

impl Header {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut header = Self::default();
        reader.map(|key, value| {
            match key {
                b"Nodes" => header.nodes = value.number()?,
                b"UserStateLen" => header.user_state = value.number()?,
                b"Join" => header.join = value.flag()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(header)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_map(out, 3);
        write_flag(out, "Join", self.join);
        write_number(out, "Nodes", self.nodes);
        write_number(out, "UserStateLen", self.user_state);
    }
}

/// The one field of acks and nacks that counts.
pub(super) fn read_seq(reader: &mut Reader<'_>) -> Result<u32, Fault> {
    let mut seq = 0;
    reader.map(|key, value| {
        match key {
            b"SeqNo" => seq = value.number()?,
            b"Payload" => {
                value.raw(PAYLOAD_MAX)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(seq)
}

/// The text of an error.
pub(super) fn read_error(reader: &mut Reader<'_>) -> Result<String, Fault> {
    let mut text = String::new();
    reader.map(|key, value| {
        let known = key == b"Error";
        if known {
            text = String::from_utf8_lossy(value.raw(ERROR_MAX)?).into_owned();
        }
        Ok(known)
    })?;
    Ok(text)
}

pub(super) fn write_error(out: &mut Vec<u8>, text: &str) {
    write_map(out, 1);
    write_bytes(out, "Error", text.as_bytes());
}

/// Four bytes or sixteen; none for "not given". An IPv4 address may come in the clothes of IPv6.
fn read_ip(reader: &mut Reader<'_>) -> Result<Option<IpAddr>, Fault> {
    let bytes = reader.raw(16)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ok(Some(bytes.into()));
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(bytes) => Ok(Some(IpAddr::from(bytes).to_canonical())),
        Err(_) => Err(Fault::Bad("an address has neither 4 nor 16 bytes")),
    }
}

fn write_ip(out: &mut Vec<u8>, key: &str, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => write_bytes(out, key, &ip.octets()),
        IpAddr::V6(ip) => write_bytes(out, key, &ip.octets()),
    }
}

/// An address that a packet can go to.
fn socket(ip: Option<IpAddr>, port: u16) -> Option<SocketAddr> {
    ip.filter(|ip| port != 0 && !ip.is_unspecified() && !ip.is_multicast())
        .map(|ip| SocketAddr::new(ip, port))
}

fn source_entries(source: Option<SocketAddr>) -> u32 {
    if source.is_some() { 3 } else { 0 }
}

fn write_source(out: &mut Vec<u8>, source: Option<SocketAddr>, node: &str) {
    if let Some(source) = source {
        write_ip(out, "SourceAddr", source.ip());
        write_raw(out, b"SourceNode");
        write_raw(out, node.as_bytes());
        write_number(out, "SourcePort", source.port().into());
    }
}
