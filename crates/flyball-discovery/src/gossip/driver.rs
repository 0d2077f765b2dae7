//! The task behind gossip: sockets and time for the machine that decides.
//!
//! One loop. What has arrived is read before a timer is looked at: after a pause the answers that came meanwhile lie
//! in the socket, and a timer that went first would blame those who sent them. Everything on a connection has a short
//! task of its own, whose result comes back here; the machine is touched by nobody else.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use rand::SeedableRng;
use rand_xoshiro::SplitMix64;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::codec::crypto;
use super::codec::message::{Message, Ping, Record};
use super::codec::packet::{self, PACKET_MAX};
use super::codec::stream::{Secrecy, StreamMessage, encode_state};
use super::notes::{Notes, Trouble};
use super::seeds::{self, Joining, Round};
use super::sockets::{Sockets, canonical};
use super::swim::timing::Timing;
use super::swim::{Identity, Output, Swim};
use super::{Found, GossipSettings, Leave, streams};

/// Most connections by others at a time; who comes then is turned away.
const INBOUND_MAX: usize = 127;

/// Most connections to others at a time; what would need another one is left out this once.
const OUTBOUND_MAX: usize = 64;

/// Packets that are read before timers are looked at.
const PACKETS_AT_ONCE: usize = 64;

/// Largest datagram there is.
const DATAGRAM_MAX: usize = 65_536;

/// After a socket refused to work.
const SOCKET_PAUSE: Duration = Duration::from_millis(20);

/// Finding this node's own address.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
const LOOKUP_AGAIN: Duration = Duration::from_secs(2);

/// How something on a connection ended.
enum Done {
    /// Somebody opened a connection, and asked.
    Asked { stream: TcpStream, from: SocketAddr, asked: Result<StreamMessage, String>, place: Place },
    /// It was answered.
    Answered,
    /// Everything was exchanged with somebody.
    Exchanged { with: SocketAddr, state: Result<Vec<Record>, String> },
    /// Somebody was asked whether it is there.
    Pinged { seq: u32, answered: bool },
    /// The seeds were asked.
    Joined(Round),
}

/// A place among the connections by others.
type Place = OwnedSemaphorePermit;

/// What the driver is made of before it has an identity.
pub(super) struct Driver {
    settings: GossipSettings,
    meta: Vec<u8>,
    sockets: Sockets,
    found: watch::Sender<Found>,
    leave: mpsc::Receiver<Leave>,
}

impl Driver {
    pub(super) fn new(
        settings: GossipSettings,
        meta: Vec<u8>,
        sockets: Sockets,
        found: watch::Sender<Found>,
        leave: mpsc::Receiver<Leave>,
    ) -> Self {
        Self { settings, meta, sockets, found, leave }
    }

    /// Never ends by itself.
    pub(super) async fn run(self) {
        let local = self.sockets.local();
        let port = self.settings.advertise_port.unwrap_or(local.port());
        let address = self.own_address(port).await;
        let GossipSettings { name, peer, timing, random, keys, .. } = self.settings;
        let secrecy = Secrecy {
            keys,
            verify_incoming: self.settings.verify_incoming,
            verify_outgoing: self.settings.verify_outgoing,
        };
        let room = PACKET_MAX - if secrecy.seals() { crypto::OVERHEAD } else { 0 };
        let me = Identity { name, address, peer, meta: self.meta };
        tracing::info!(node = me.name, %address, listening = %local, "gossip: this node is there");
        let began = Instant::now();
        let swim = Swim::new(me, timing.clone(), room, random, clock(began));
        let running = Running {
            began,
            address,
            swim,
            timing,
            secrecy: Arc::new(secrecy),
            sockets: self.sockets,
            found: self.found,
            leave: self.leave,
            leaving: None,
            connections: JoinSet::new(),
            places: Arc::new(Semaphore::new(INBOUND_MAX)),
            joining: Joining::new(self.settings.seeds.addresses(local.port())),
            ask_seeds_at: Some(began),
            rng: SplitMix64::seed_from_u64(random.rotate_left(32)),
            notes: Notes::default(),
        };
        running.run().await;
    }

    /// Where others reach this node. Its own name has to resolve before it can tell anybody.
    async fn own_address(&self, port: u16) -> SocketAddr {
        let host = self.settings.advertise_host.as_str();
        loop {
            let found = timeout(LOOKUP_WITHIN, lookup_host((host, port))).await;
            let why = match found {
                Ok(Ok(mut addresses)) => match addresses.next() {
                    Some(address) => return canonical(address),
                    None => "it has none".to_owned(),
                },
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("looking it up took longer than {LOOKUP_WITHIN:?}"),
            };
            let host = crate::address::quoted(host);
            self.found.send_replace(Some(Err(format!(
                "cannot find the address of {host}, which this node is to be known by: {why}; correct \
                 GUBER_MEMBERLIST_ADDRESS or GUBER_ADVERTISE_ADDRESS"
            ))));
            sleep(LOOKUP_AGAIN).await;
        }
    }
}

/// The machine's time: since the task began.
fn clock(began: Instant) -> flyball_core::time::Instant {
    flyball_core::time::Instant::default().saturating_add(began.elapsed())
}

struct Running {
    began: Instant,
    /// Where others reach this node.
    address: SocketAddr,
    swim: Swim,
    timing: Timing,
    secrecy: Arc<Secrecy>,
    sockets: Sockets,
    found: watch::Sender<Found>,
    leave: mpsc::Receiver<Leave>,
    /// Who waits for the end.
    leaving: Option<Leave>,
    connections: JoinSet<Done>,
    places: Arc<Semaphore>,
    joining: Joining,
    /// When to ask the seeds; `None` while they are asked.
    ask_seeds_at: Option<Instant>,
    rng: SplitMix64,
    notes: Notes,
}

impl Running {
    async fn run(mut self) {
        let mut datagram = vec![0; DATAGRAM_MAX];
        loop {
            self.ask_seeds_if_due();
            self.act().await;
            self.publish();
            let due = self.due();
            tokio::select! {
                biased;
                leave = self.leave.recv() => match leave {
                    Some(leave) => {
                        self.swim.leave(clock(self.began));
                        self.leaving = Some(leave);
                    }
                    // The source was dropped.
                    None => return,
                },
                received = self.sockets.packets.recv_from(&mut datagram) => match received {
                    Ok((length, from)) => {
                        self.packet(&datagram[..length], from);
                        for _ in 1..PACKETS_AT_ONCE {
                            let Ok((length, from)) = self.sockets.packets.try_recv_from(&mut datagram) else { break };
                            self.packet(&datagram[..length], from);
                        }
                    }
                    Err(error) => {
                        self.notes.warn(Trouble::Socket, || format!("cannot receive packets: {error}"));
                        sleep(SOCKET_PAUSE).await;
                    }
                },
                Some(done) = self.connections.join_next() => if let Ok(done) = done {
                    self.done(done);
                },
                accepted = self.sockets.streams.accept() => match accepted {
                    Ok((stream, from)) => self.accept(stream, from),
                    Err(error) => {
                        self.notes.warn(Trouble::Socket, || format!("cannot accept connections: {error}"));
                        sleep(SOCKET_PAUSE).await;
                    }
                },
                () = sleep_until(due) => {}
            }
            let now = clock(self.began);
            if self.swim.poll_timeout() <= now {
                self.swim.handle_timeout(now);
            }
        }
    }

    /// When something has to be done though nothing has happened.
    fn due(&self) -> Instant {
        let swim = self.began + Duration::from_nanos(self.swim.poll_timeout().0);
        self.ask_seeds_at.map_or(swim, |at| at.min(swim))
    }

    fn packet(&mut self, bytes: &[u8], from: SocketAddr) {
        let from = canonical(from);
        let Some(plain) = self.secrecy.open_packet(bytes) else {
            return self.notes.warn(Trouble::Packet, || {
                format!(
                    "a packet from {from} is not encrypted by a key of this node and is ignored; all nodes need the \
                     same (GUBER_MEMBERLIST_SECRET_KEYS)"
                )
            });
        };
        let unwrapped = packet::unwrap(&plain);
        if let Some(fault) = unwrapped.fault {
            self.notes.warn(Trouble::Packet, || {
                format!("a packet from {from} cannot be read and is ignored: {fault}")
            });
        }
        let now = clock(self.began);
        for message in unwrapped.messages {
            self.swim.handle_message(message, from, now);
        }
    }

    /// Does what the machine says.
    async fn act(&mut self) {
        while let Some(output) = self.swim.poll_output() {
            match output {
                Output::Packet { to, parts, checksum } => {
                    let packet = packet::wrap(&parts, checksum);
                    let packet = self.secrecy.seal_packet(packet, streams::nonce);
                    if let Err(error) = self.sockets.send(&packet, to).await {
                        self.notes.warn(Trouble::Socket, || format!("cannot send a packet to {to}: {error}"));
                    }
                }
                Output::StreamPing { to, node, seq, within } => {
                    let (secrecy, source) = (self.secrecy.clone(), Some(self.address));
                    let ping = Ping { seq, node, source, source_node: String::new() };
                    self.connect(async move {
                        let answered = streams::ping(to, ping, &secrecy, within).await;
                        Done::Pinged { seq, answered }
                    });
                }
                Output::PushPull { to } => {
                    let (secrecy, question) = (self.secrecy.clone(), self.state(false));
                    let within = self.timing.tcp_timeout;
                    self.connect(async move {
                        let state = streams::exchange(to, &question, &secrecy, within).await;
                        Done::Exchanged { with: to, state }
                    });
                }
                Output::Event(event) => self.notes.event(clock(self.began), event),
            }
        }
    }

    /// Everything this node knows, as it travels.
    fn state(&self, join: bool) -> Arc<[u8]> {
        self.secrecy.seal_stream(&encode_state(join, &self.swim.state()), streams::nonce).into()
    }

    fn connect(&mut self, task: impl Future<Output = Done> + Send + 'static) {
        let inbound = INBOUND_MAX - self.places.available_permits();
        if self.connections.len() < inbound + OUTBOUND_MAX {
            self.connections.spawn(task);
        }
    }

    fn accept(&mut self, mut stream: TcpStream, from: SocketAddr) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return self.notes.warn(Trouble::Stream, || {
                format!("a connection from {from} is turned away, since there are {INBOUND_MAX} others")
            });
        };
        let (secrecy, within) = (self.secrecy.clone(), self.timing.tcp_timeout);
        self.connections.spawn(async move {
            let asked = streams::question(&mut stream, &secrecy, within).await;
            Done::Asked { stream, from, asked, place }
        });
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Asked { stream, from, asked, place } => self.asked(stream, from, asked, place),
            Done::Answered => {}
            Done::Exchanged { with, state: Ok(state) } => self.merge(state, with),
            Done::Exchanged { with, state: Err(why) } => {
                self.notes.warn(Trouble::Stream, || format!("no exchange of all nodes with {with}: {why}"));
            }
            Done::Pinged { seq, answered } => {
                self.swim.handle_stream_ping(seq, answered, clock(self.began));
            }
            Done::Joined(round) => self.joined(round),
        }
    }

    fn asked(
        &mut self,
        mut stream: TcpStream,
        from: SocketAddr,
        asked: Result<StreamMessage, String>,
        place: Place,
    ) {
        let (answer, state) = match asked {
            Ok(StreamMessage::State { records, .. }) => (self.state(false), Some(records)),
            Ok(StreamMessage::Ping(ping)) if self.swim.is_me(&ping.node) => {
                let ack = Message::Ack { seq: ping.seq }.encode();
                (self.secrecy.seal_stream(&ack, streams::nonce).into(), None)
            }
            // Meant for somebody else, or for nobody here.
            Ok(_) => return,
            Err(why) => {
                return self
                    .notes
                    .warn(Trouble::Stream, || format!("a connection from {from} is of no use: {why}"));
            }
        };
        let within = self.timing.tcp_timeout;
        self.connections.spawn(async move {
            // Whoever does not wait for the answer does not get it.
            let _ = timeout(within, streams::write(&mut stream, &answer)).await;
            drop(place);
            Done::Answered
        });
        if let Some(state) = state {
            self.merge(state, from);
        }
    }

    fn merge(&mut self, state: Vec<Record>, with: SocketAddr) {
        if let Err(why) = self.swim.handle_state(state, clock(self.began)) {
            self.notes.warn(Trouble::State, || format!("what {with} knows is refused: {why}"));
        }
    }

    fn ask_seeds_if_due(&mut self) {
        if self.ask_seeds_at.is_none_or(|at| at > Instant::now()) || self.leaving.is_some() {
            return;
        }
        self.ask_seeds_at = None;
        if self.joining.seeds.is_empty() {
            return;
        }
        let known: BTreeSet<_> = self.swim.addresses().chain([self.address, self.sockets.local()]).collect();
        let (seeds, secrecy) = (self.joining.seeds.clone(), self.secrecy.clone());
        // Whoever has joined has nothing to say to one it does not know but what it says to everybody.
        let question = self.state(!self.joining.joined);
        self.connections
            .spawn(async move { Done::Joined(seeds::ask(seeds, known, question, secrecy).await) });
    }

    fn joined(&mut self, mut round: Round) {
        let mut answered = round.known;
        for state in std::mem::take(&mut round.states) {
            match self.swim.handle_state(state, clock(self.began)) {
                Ok(()) => answered = true,
                Err(why) => round.add_fault(why),
            }
        }
        let interval = self.timing.push_pull_interval;
        let alone = self.swim.is_alone();
        let wait = self.joining.conclude(answered, alone, interval, &mut self.rng);
        self.ask_seeds_at = Some(Instant::now() + wait);
        if !self.joining.joined && alone {
            self.found.send_replace(Some(Err(round.fault())));
        }
    }

    /// Tells the peers, once there is somebody or nobody to be asked.
    fn publish(&mut self) {
        if self.swim.has_left()
            && let Some(leaving) = self.leaving.take()
        {
            // Whoever wanted to know may have gone.
            let _ = leaving.send(());
        }
        let settled = self.joining.joined || !self.swim.is_alone();
        if settled && let Some(peers) = self.swim.poll_peers() {
            let peers: Vec<PeerInfo> = peers;
            self.found.send_replace(Some(Ok(peers)));
        }
    }
}
