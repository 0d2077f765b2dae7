//! Sources that find each other over real sockets.
#![cfg(feature = "gossip")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use flyball_discovery::{Gossip, GossipSettings, Keyring, PeerInfo, Recover, Seeds, Source, Timing};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(20);

const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";
const OTHER_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// What a quick network can have, so that a death takes two seconds.
fn quick() -> Timing {
    Timing {
        probe_interval: Duration::from_millis(300),
        probe_timeout: Duration::from_millis(150),
        gossip_interval: Duration::from_millis(50),
        push_pull_interval: Duration::from_secs(2),
        tcp_timeout: Duration::from_secs(2),
        ..Timing::default()
    }
}

fn settings(name: &str, seeds: &[SocketAddr]) -> GossipSettings {
    let seeds: Vec<_> = seeds.iter().map(SocketAddr::to_string).collect();
    GossipSettings {
        name: name.to_owned(),
        bind: "127.0.0.1:0".to_owned(),
        advertise_host: "127.0.0.1".to_owned(),
        advertise_port: None,
        seeds: Seeds::parse(&seeds.join(",")).unwrap(),
        peer: PeerInfo::new(format!("{name}:1051")),
        keys: Keyring::default(),
        verify_incoming: true,
        verify_outgoing: true,
        timing: quick(),
        random: name.bytes().map(u64::from).sum(),
    }
}

fn keyed(name: &str, seeds: &[SocketAddr], keys: &str) -> GossipSettings {
    GossipSettings { keys: Keyring::parse(keys).unwrap(), ..settings(name, seeds) }
}

fn start(settings: GossipSettings) -> (Recover, SocketAddr) {
    let random = settings.random;
    let gossip = Gossip::new(settings).unwrap();
    let address = gossip.local_address();
    (Recover::new(Box::new(gossip), random), address)
}

/// Waits until a source says that these are the peers.
async fn sees(source: &mut Recover, names: &[&str]) {
    let expected: Vec<_> = names.iter().map(|name| PeerInfo::new(format!("{name}:1051"))).collect();
    let mut last = Vec::new();
    let seen = timeout(SOON, async {
        while last != expected {
            last = source.next().await;
        }
    });
    assert!(seen.await.is_ok(), "{last:?} instead of {expected:?}");
}

#[tokio::test]
async fn nodes_join_leave_die_and_return() {
    for keys in ["", KEY] {
        // D1: all of them on one address.
        let (mut a, at_a) = start(keyed("a", &[], keys));
        sees(&mut a, &["a"]).await;
        let (mut b, at_b) = start(keyed("b", &[at_a], keys));
        let (mut c, _) = start(keyed("c", &[at_b], keys));
        for source in [&mut a, &mut b, &mut c] {
            sees(source, &["a", "b", "c"]).await;
        }
        let begun = tokio::time::Instant::now();
        c.leave().await;
        sees(&mut a, &["a", "b"]).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "a leave is heard within a second");
        sees(&mut b, &["a", "b"]).await;
        drop(c);
        drop(b);
        sees(&mut a, &["a"]).await;
        // Under its name and on its port: who is held to be dead says otherwise.
        let again = GossipSettings { bind: at_b.to_string(), ..keyed("b", &[at_a], keys) };
        let (mut b, _) = start(again);
        sees(&mut b, &["a", "b"]).await;
        sees(&mut a, &["a", "b"]).await;
    }
}

#[tokio::test]
async fn d11_who_finds_nobody_says_so_and_tries_until_somebody_is_there() {
    // A port that is free, and so refuses connections until somebody takes it.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut b, _) = start(settings("b", &[free]));
    let status = b.status();
    assert!(timeout(Duration::from_millis(700), b.next()).await.is_err());
    let failing = status.snapshot().failing.unwrap();
    let message = &failing.message;
    assert!(
        message.contains("none of 1 known nodes answers") && message.contains(&free.to_string()),
        "{message}"
    );
    assert!(failing.times >= 2, "{failing:?}");
    let (_a, _) = start(GossipSettings { bind: free.to_string(), ..settings("a", &[]) });
    sees(&mut b, &["a", "b"]).await;
    assert_eq!(status.snapshot().failing, None);
}

#[tokio::test]
async fn a_node_may_list_itself_and_waits_for_others() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut a, _) = start(GossipSettings { bind: free.to_string(), ..settings("a", &[free, other]) });
    sees(&mut a, &["a"]).await;
    // The other one knows nobody; the first finds it.
    let (mut b, _) = start(GossipSettings { bind: other.to_string(), ..settings("b", &[]) });
    sees(&mut a, &["a", "b"]).await;
    sees(&mut b, &["a", "b"]).await;
}

#[tokio::test]
async fn keys_are_exchanged_node_by_node_and_strangers_stay_out() {
    let both = format!("{OTHER_KEY},{KEY}");
    let (mut a, at_a) = start(keyed("a", &[], KEY));
    sees(&mut a, &["a"]).await;
    let (mut stranger, _) = start(settings("stranger", &[at_a]));
    let status = stranger.status();
    assert!(timeout(Duration::from_secs(1), stranger.next()).await.is_err());
    let message = status.snapshot().failing.unwrap().message;
    assert!(message.contains("encrypted"), "{message}");
    // The new key seals; the old node cannot open that, so nobody is in a hurry to put it first.
    let (mut b, at_b) = start(keyed("b", &[at_a], &format!("{KEY},{OTHER_KEY}")));
    sees(&mut b, &["a", "b"]).await;
    let (mut c, _) = start(keyed("c", &[at_b], &both));
    sees(&mut c, &["a", "b", "c"]).await;
    drop(stranger);
}

#[tokio::test]
async fn d2_the_switches_of_encryption_do_what_they_say() {
    // On the way to encryption: first all read both, then all write it, then nobody reads anything else.
    let (mut plain, at_plain) = start(settings("plain", &[]));
    sees(&mut plain, &["plain"]).await;
    let tolerant = GossipSettings {
        verify_incoming: false,
        verify_outgoing: false,
        ..keyed("tolerant", &[at_plain], KEY)
    };
    let (mut tolerant, at_tolerant) = start(tolerant);
    sees(&mut tolerant, &["plain", "tolerant"]).await;
    sees(&mut plain, &["plain", "tolerant"]).await;
    drop(plain);
    sees(&mut tolerant, &["tolerant"]).await;
    let sealing = GossipSettings { verify_incoming: false, ..keyed("sealing", &[at_tolerant], KEY) };
    let (mut sealing, _) = start(sealing);
    sees(&mut sealing, &["sealing", "tolerant"]).await;
    sees(&mut tolerant, &["sealing", "tolerant"]).await;
}

#[tokio::test]
async fn garbage_and_silence_do_no_harm() {
    let (mut a, at_a) = start(settings("a", &[]));
    sees(&mut a, &["a"]).await;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for number in 0..2_000_u32 {
        let bytes: Vec<u8> =
            (0..number % 97).map(|place| (number.wrapping_mul(31 + place) >> 3) as u8).collect();
        socket.send_to(&bytes, at_a).await.unwrap();
    }
    // More silent connections than there is place for, and one that asks nonsense and is told so.
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(tokio::net::TcpStream::connect(at_a).await.unwrap());
    }
    drop(silent);
    let told = timeout(SOON, async {
        loop {
            let mut stream = tokio::net::TcpStream::connect(at_a).await.unwrap();
            if stream.write_all(b"\x06\xc1").await.is_err() {
                continue;
            }
            let mut answer = Vec::new();
            if stream.read_to_end(&mut answer).await.is_ok() && !answer.is_empty() {
                return answer;
            }
        }
    });
    assert!(!told.await.unwrap().is_empty());
    let (mut b, _) = start(settings("b", &[at_a]));
    sees(&mut b, &["a", "b"]).await;
    sees(&mut a, &["a", "b"]).await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_at_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = taken.local_addr().unwrap().to_string();
    let refused = |settings| Gossip::new(settings).err().unwrap().message;
    let message = refused(GossipSettings { bind: bind.clone(), ..settings("a", &[]) });
    assert!(message.contains(&bind) && message.contains("GUBER_MEMBERLIST_BIND_ADDRESS"), "{message}");
    let message = refused(GossipSettings { name: String::new(), ..settings("a", &[]) });
    assert!(message.contains("GUBER_MEMBERLIST_NODE_NAME"), "{message}");
    let peer = PeerInfo { data_center: "x".repeat(600), ..PeerInfo::new("a:1051") };
    let message = refused(GossipSettings { peer, ..settings("a", &[]) });
    assert!(message.contains("512"), "{message}");
}

#[tokio::test]
async fn an_own_name_without_address_is_reported() {
    let settings = GossipSettings { advertise_host: "no-such-host.invalid".to_owned(), ..settings("a", &[]) };
    let mut gossip = Gossip::new(settings).unwrap();
    let error = timeout(SOON, gossip.next()).await.unwrap().unwrap_err();
    assert!(error.message.contains("no-such-host.invalid"), "{error}");
    // Leaving before there is anything to leave ends all the same.
    let _ = timeout(Duration::from_millis(100), gossip.leave()).await;
}

#[tokio::test]
async fn dropping_a_call_loses_nothing_and_dropping_the_source_frees_the_port() {
    let (mut a, at_a) = start(settings("a", &[]));
    let found = timeout(SOON, async {
        loop {
            if let Ok(found) = timeout(Duration::from_micros(10), a.next()).await {
                return found;
            }
        }
    });
    assert_eq!(found.await.unwrap(), [PeerInfo::new("a:1051")]);
    assert_eq!(at_a.ip(), IpAddr::from([127, 0, 0, 1]));
    drop(a);
    let again = timeout(SOON, async {
        loop {
            match Gossip::new(GossipSettings { bind: at_a.to_string(), ..settings("a", &[]) }) {
                Ok(again) => return again,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    assert_eq!(again.await.unwrap().local_address(), at_a);
}
