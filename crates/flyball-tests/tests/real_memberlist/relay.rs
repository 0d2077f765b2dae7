//! A network that loses packets: in front of each node's gossip port a relay that drops some, in both directions for
//! who sends and who answers, as everybody sends to relays. Connections pass.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Runtime;

/// Relays, until they are dropped.
#[derive(Debug)]
pub(crate) struct Relays {
    _runtime: Runtime,
    counts: Arc<[AtomicU64; 2]>,
}

impl Relays {
    /// A relay at each first address, for the node at the second. Of a hundred packets `lost` are dropped.
    pub(crate) fn start(pairs: &[(SocketAddr, SocketAddr)], lost: u64) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        for (number, (relay, node)) in pairs.iter().copied().enumerate() {
            let packets = runtime.block_on(UdpSocket::bind(relay)).unwrap();
            runtime.spawn(relay_packets(packets, node, lost, number as u64 + 1, counts.clone()));
            let streams = runtime.block_on(TcpListener::bind(relay)).unwrap();
            runtime.spawn(relay_streams(streams, node));
        }
        Self { _runtime: runtime, counts }
    }

    /// How many packets came, and how many of them were dropped.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts[0].load(Ordering::Relaxed), self.counts[1].load(Ordering::Relaxed))
    }
}

async fn relay_packets(
    socket: UdpSocket,
    node: SocketAddr,
    lost: u64,
    seed: u64,
    counts: Arc<[AtomicU64; 2]>,
) {
    let mut packet = vec![0; 65_536];
    let mut random = seed;
    loop {
        let Ok((length, _)) = socket.recv_from(&mut packet).await else { continue };
        counts[0].fetch_add(1, Ordering::Relaxed);
        // A linear congruential generator, of which the high bits are good enough.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (random >> 33) % 100 < lost {
            counts[1].fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let _ = socket.send_to(&packet[..length], node).await;
    }
}

async fn relay_streams(listener: TcpListener, node: SocketAddr) {
    loop {
        let Ok((mut theirs, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            if let Ok(mut ours) = TcpStream::connect(node).await {
                let _ = tokio::io::copy_bidirectional(&mut theirs, &mut ours).await;
            }
        });
    }
}
