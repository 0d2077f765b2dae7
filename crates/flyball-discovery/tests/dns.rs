//! DNS discovery against a real server on loopback. Time is real here, since packets take some; the rules about time
//! have their own tests with a clock that is faked.
#![cfg(feature = "dns")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyball_discovery::{Dns, DnsName, DnsServers, DnsSettings, Recover, Source};
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::proto::op::{Edns, Metadata, ResponseCode};
use hickory_server::proto::rr::rdata::{A, AAAA, CNAME, SRV};
use hickory_server::proto::rr::{Name, RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::{Instant, timeout};

/// Far more than any answer here takes; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(30);

type Records = BTreeMap<String, Vec<(u32, RData)>>;
type Asked = (String, RecordType, Protocol, Instant);

/// What a server knows. Names that are not in it do not exist.
#[derive(Clone, Default)]
struct Zone {
    records: Arc<Mutex<Records>>,
    /// What was asked, and how.
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Zone {
    fn set(&self, name: &str, ttl: u32, records: impl IntoIterator<Item = RData>) {
        let records = records.into_iter().map(|data| (ttl, data)).collect();
        self.records.lock().unwrap().insert(name.to_owned(), records);
    }

    fn hosts(&self, name: &str, ttl: u32, ips: &[&str]) {
        self.set(name, ttl, ips.iter().map(|ip| host(ip)));
    }

    fn asked(&self, name: &str, kind: RecordType) -> Vec<(Protocol, Instant)> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(n, k, ..)| n == name && *k == kind).map(|(.., how, at)| (*how, *at)).collect()
    }
}

fn host(ip: &str) -> RData {
    match ip.parse().unwrap() {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    }
}

#[async_trait::async_trait]
impl RequestHandler for Zone {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response: R,
    ) -> ResponseInfo {
        let info = request.request_info().unwrap();
        let name = info.query.name().to_string();
        let kind = info.query.query_type();
        self.asked.lock().unwrap().push((name.clone(), kind, info.protocol, Instant::now()));
        let mut metadata = Metadata::response_from_request(info.metadata);
        let records = match self.records.lock().unwrap().get(&name) {
            None => {
                metadata.response_code = ResponseCode::NXDomain;
                Vec::new()
            }
            Some(records) => records
                .iter()
                .filter(|(_, data)| data.record_type() == kind || data.record_type() == RecordType::CNAME)
                .map(|(ttl, data)| Record::from_rdata(name.parse().unwrap(), *ttl, data.clone()))
                .collect(),
        };
        let mut edns = Edns::new();
        let mut builder = MessageResponseBuilder::from_message_request(request);
        if let Some(theirs) = &request.edns {
            edns.set_max_payload(theirs.max_payload());
            builder.edns(&edns);
        }
        let message = builder.build(metadata, &records, [], [], []);
        response.send_response(message).await.unwrap()
    }
}

/// Serves the zone over UDP and TCP until it is dropped.
async fn serve(zone: &Zone, address: SocketAddr) -> (Server<Zone>, SocketAddr) {
    // The port that TCP gets may be somebody's for UDP.
    for _ in 0..100 {
        let tcp = TcpListener::bind(address).await.unwrap();
        let at = tcp.local_addr().unwrap();
        let Ok(udp) = UdpSocket::bind(at).await else { continue };
        let mut server = Server::new(zone.clone());
        server.register_socket(udp);
        server.register_listener(tcp, LONG, 64);
        return (server, at);
    }
    panic!("no port is free for both UDP and TCP");
}

async fn start(zone: &Zone) -> (Server<Zone>, SocketAddr) {
    serve(zone, "127.0.0.1:0".parse().unwrap()).await
}

fn dns(names: &[&str], server: SocketAddr) -> Dns {
    let names = names.iter().map(|name| DnsName::parse(name).unwrap()).collect();
    let servers = DnsServers::Addresses(vec![server]);
    Dns::new(DnsSettings { names, port: 1051, data_center: String::new(), servers }).unwrap()
}

async fn news(peers: &mut Recover) -> Vec<String> {
    let set = timeout(LONG, peers.next()).await.expect("news");
    set.into_iter().map(|peer| peer.grpc_address).collect()
}

#[tokio::test]
async fn records_are_followed_by_their_ttl_and_asked_for_at_most_once_a_second() {
    let zone = Zone::default();
    zone.hosts("nodes.example.", 0, &["10.0.0.2", "10.0.0.1", "2001:db8::1"]);
    let (_server, at) = start(&zone).await;
    let mut peers = Recover::new(Box::new(dns(&["nodes.example"], at)), 1);
    assert_eq!(news(&mut peers).await, ["10.0.0.1:1051", "10.0.0.2:1051", "[2001:db8::1]:1051"]);
    zone.hosts("nodes.example.", 2, &["10.0.0.2"]);
    assert_eq!(news(&mut peers).await, ["10.0.0.2:1051"]);
    zone.hosts("nodes.example.", 60, &["10.0.0.3"]);
    assert_eq!(news(&mut peers).await, ["10.0.0.3:1051"]);
    let asked = zone.asked("nodes.example.", RecordType::A);
    let pauses: Vec<_> = asked.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_millis()).collect();
    assert!(pauses.len() == 2 && pauses[0] >= 950 && pauses[1] >= 1950, "{pauses:?}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_yet_is_asked_for_again_and_one_that_is_gone_is_kept() {
    let zone = Zone::default();
    let (_server, at) = start(&zone).await;
    let mut peers = Recover::new(Box::new(dns(&["nodes.example"], at)), 1);
    let status = peers.status();
    assert!(timeout(Duration::from_millis(500), peers.next()).await.is_err());
    let message = status.snapshot().failing.unwrap().message;
    assert_eq!(message, "DNS: nodes.example. has no A and AAAA records with an address");
    zone.hosts("nodes.example.", 1, &["10.0.0.1"]);
    assert_eq!(news(&mut peers).await, ["10.0.0.1:1051"]);
    assert_eq!(status.snapshot().failing, None);
    zone.records.lock().unwrap().clear();
    assert!(timeout(Duration::from_millis(1500), peers.next()).await.is_err());
    let snapshot = status.snapshot();
    assert!(snapshot.peers == 1 && snapshot.failing.is_some(), "{snapshot:?}");
    zone.hosts("nodes.example.", 1, &["10.0.0.2"]);
    assert_eq!(news(&mut peers).await, ["10.0.0.2:1051"]);
}

#[tokio::test]
async fn an_answer_too_long_for_a_datagram_is_fetched_over_tcp() {
    let zone = Zone::default();
    zone.set(
        "nodes.example.",
        60,
        (0..400u16).map(|n| RData::A(A::new(10, 0, (n / 200) as u8, (n % 200) as u8))),
    );
    let (_server, at) = start(&zone).await;
    let set = timeout(LONG, dns(&["nodes.example"], at).next()).await.unwrap().unwrap();
    assert_eq!(set.len(), 400);
    assert!(set.is_sorted());
    let how: Vec<_> = zone.asked("nodes.example.", RecordType::A).into_iter().map(|(how, _)| how).collect();
    assert_eq!(how, [Protocol::Udp, Protocol::Tcp]);
    // Seventy fit into one with EDNS, as they would not without.
    zone.set("few.example.", 60, (0..70).map(|n| RData::A(A::new(10, 0, 0, n))));
    let set = timeout(LONG, dns(&["few.example"], at).next()).await.unwrap().unwrap();
    assert_eq!(set.len(), 70);
    let how: Vec<_> = zone.asked("few.example.", RecordType::A).into_iter().map(|(how, _)| how).collect();
    assert_eq!(how, [Protocol::Udp]);
}

#[tokio::test]
async fn a_server_that_goes_and_comes_back_costs_nothing_but_news() {
    let zone = Zone::default();
    zone.hosts("nodes.example.", 1, &["10.0.0.1"]);
    let (mut server, at) = start(&zone).await;
    let mut peers = Recover::new(Box::new(dns(&["nodes.example"], at)), 1);
    let status = peers.status();
    assert_eq!(news(&mut peers).await, ["10.0.0.1:1051"]);
    server.shutdown_gracefully().await.unwrap();
    drop(server);
    let failing = async {
        while status.snapshot().failing.is_none() {
            let more = timeout(Duration::from_millis(100), peers.next()).await;
            assert!(more.is_err(), "{more:?}");
        }
    };
    timeout(LONG, failing).await.expect("the failure is noticed");
    assert_eq!(status.snapshot().peers, 1);
    zone.hosts("nodes.example.", 1, &["10.0.0.1", "10.0.0.2"]);
    let (_server, _) = serve(&zone, at).await;
    assert_eq!(news(&mut peers).await, ["10.0.0.1:1051", "10.0.0.2:1051"]);
    assert_eq!(status.snapshot().failing, None);
}

#[tokio::test]
async fn services_bring_their_ports_and_aliases_are_followed() {
    let zone = Zone::default();
    let name = |name: &str| name.parse::<Name>().unwrap();
    let service = |port, target| RData::SRV(SRV::new(0, 0, port, name(target)));
    zone.set("_grpc._tcp.nodes.example.", 60, [service(1051, "one.example."), service(1052, "two.example.")]);
    zone.set("one.example.", 1, [RData::CNAME(CNAME(name("real.example.")))]);
    zone.hosts("real.example.", 60, &["10.0.0.1"]);
    zone.hosts("two.example.", 60, &["10.0.0.2", "2001:db8::2"]);
    let (_server, at) = start(&zone).await;
    let mut peers = Recover::new(Box::new(dns(&["_grpc._tcp.nodes.example"], at)), 1);
    assert_eq!(news(&mut peers).await, ["10.0.0.1:1051", "10.0.0.2:1052", "[2001:db8::2]:1052"]);
    // The alias has the shortest TTL of all that was answered.
    zone.set("one.example.", 60, [RData::CNAME(CNAME(name("new.example.")))]);
    zone.hosts("new.example.", 60, &["10.0.0.9"]);
    let start = Instant::now();
    assert_eq!(news(&mut peers).await, ["10.0.0.2:1052", "10.0.0.9:1051", "[2001:db8::2]:1052"]);
    assert!(start.elapsed() < LONG);
}

#[tokio::test]
async fn a_server_may_have_an_ipv6_address() {
    let zone = Zone::default();
    zone.hosts("nodes.example.", 60, &["2001:db8::1"]);
    let (_server, at) = serve(&zone, "[::1]:0".parse().unwrap()).await;
    let set = timeout(LONG, dns(&["nodes.example"], at).next()).await.unwrap().unwrap();
    assert_eq!(set[0].grpc_address, "[2001:db8::1]:1051");
}
