//! The rules of rounds, against answers that are made up and a clock that is faked.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::time::timeout;

use super::lookup::{Answer, Asked, Data, Kind};
use super::*;

type Table = BTreeMap<(String, Kind), Result<Answer, String>>;

/// Answers from a table; what is not in it has no records. Notes when A records were asked for.
#[derive(Clone, Debug, Default)]
struct Zone {
    table: Arc<Mutex<Table>>,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Zone {
    fn set(&self, name: &str, kind: Kind, ttl: u64, records: &[&str]) {
        let records = records.iter().map(|record| match record.split_once(' ') {
            Some((host, port)) => Data::Service(host.to_owned(), port.parse().unwrap()),
            None => Data::Ip(record.parse().unwrap()),
        });
        let answer = Answer { records: records.collect(), ttl: Some(Duration::from_secs(ttl)) };
        self.table.lock().unwrap().insert((name.to_owned(), kind), Ok(answer));
    }

    fn a(&self, name: &str, ttl: u64, records: &[&str]) {
        self.set(name, Kind::A, ttl, records);
    }

    fn fail(&self, name: &str, kind: Kind) {
        self.table.lock().unwrap().insert((name.to_owned(), kind), Err("no answer in time".to_owned()));
    }

    fn empty(&self, name: &str, kind: Kind) {
        self.table.lock().unwrap().remove(&(name.to_owned(), kind));
    }

    fn dns(&self, names: &[&str], data_center: &str) -> Dns {
        let names = names.iter().map(|name| DnsName::parse(name).unwrap()).collect();
        let resolver = Resolving { lookups: Arc::new(self.clone()), file: None };
        Dns::with(names, 1051, data_center, resolver).unwrap()
    }

    /// Seconds between rounds.
    fn pauses(&self) -> Vec<u64> {
        let asked = self.asked.lock().unwrap();
        // Timers have a grain of a millisecond.
        asked.windows(2).map(|pair| ((pair[1] - pair[0]).as_millis() as u64).div_euclid(1000)).collect()
    }
}

impl Lookups for Zone {
    fn forget(&self) {
        self.asked.lock().unwrap().push(Instant::now());
    }

    fn ask(&self, name: &str, kind: Kind) -> Asked {
        let answer = self.table.lock().unwrap().get(&(name.to_owned(), kind)).cloned();
        Box::pin(async { answer.unwrap_or_else(|| Ok(Answer::default())) })
    }
}

fn addresses(peers: &[PeerInfo]) -> Vec<&str> {
    peers.iter().map(|peer| peer.grpc_address.as_str()).collect()
}

/// No news for so many seconds and a little.
async fn silent(dns: &mut Dns, seconds: u64) {
    let news = timeout(Duration::from_millis(1000 * seconds + 500), dns.next()).await;
    assert!(news.is_err(), "{news:?}");
}

#[tokio::test(start_paused = true)]
async fn rounds_follow_the_shortest_ttl_within_bounds() {
    for (ttls, pause) in [([0, 60], 1), ([30, 7], 7), ([86_400, 3600], 300)] {
        let zone = Zone::default();
        zone.a("a.", ttls[0], &["10.0.0.1"]);
        zone.set("a.", Kind::Aaaa, ttls[1], &["::1"]);
        let mut dns = zone.dns(&["a"], "");
        assert_eq!(addresses(&dns.next().await.unwrap()), ["10.0.0.1:1051", "[::1]:1051"]);
        silent(&mut dns, 3 * pause).await;
        assert_eq!(zone.pauses(), [pause; 3], "{ttls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn p34_without_a_data_center_all_names_are_one_cluster() {
    let zone = Zone::default();
    zone.a("x.", 60, &["10.0.0.2"]);
    zone.a("y.", 60, &["10.0.0.1", "10.0.0.2"]);
    let peers = zone.dns(&["x", "y"], "").next().await.unwrap();
    assert_eq!(peers, [PeerInfo::new("10.0.0.1:1051"), PeerInfo::new("10.0.0.2:1051")]);
}

#[tokio::test(start_paused = true)]
async fn with_one_the_names_are_the_data_centers_and_the_own_one_wins() {
    let zone = Zone::default();
    zone.a("east.example.", 60, &["10.0.0.1", "10.0.0.9"]);
    zone.a("West.example.", 60, &["10.0.0.2", "10.0.0.9"]);
    let peers = zone.dns(&["east.example", "West.example"], "west.EXAMPLE").next().await.unwrap();
    let found: Vec<_> =
        peers.iter().map(|peer| (peer.grpc_address.as_str(), peer.data_center.as_str())).collect();
    assert_eq!(
        found,
        [
            ("10.0.0.1:1051", "east.example."),
            ("10.0.0.2:1051", "west.EXAMPLE."),
            ("10.0.0.9:1051", "west.EXAMPLE.")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn no_records_are_an_error_and_the_name_keeps_what_it_had() {
    let zone = Zone::default();
    let mut dns = zone.dns(&["x", "y"], "");
    let error = dns.next().await.unwrap_err();
    assert_eq!(
        error,
        SourceError::new(
            "DNS: x. has no A and AAAA records with an address; y. has no A and AAAA records with an address"
        )
    );
    zone.a("x.", 5, &["10.0.0.1"]);
    zone.a("y.", 5, &["10.0.0.2"]);
    assert_eq!(dns.next().await.unwrap().len(), 2);
    zone.empty("x.", Kind::A);
    assert!(dns.next().await.unwrap_err().message.contains("x. has no A"));
    // News of the other name are told all the same, and the trouble after them.
    zone.a("y.", 5, &["10.0.0.3"]);
    assert_eq!(addresses(&dns.next().await.unwrap()), ["10.0.0.1:1051", "10.0.0.3:1051"]);
    assert!(dns.next().await.unwrap_err().message.contains("x. has no A"));
    // The end of the trouble is told even though the set is the same.
    zone.a("x.", 5, &["10.0.0.1"]);
    assert_eq!(dns.next().await.unwrap().len(), 2);
    silent(&mut dns, 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_keeps_its_last_answer_and_hides_no_other() {
    let zone = Zone::default();
    zone.a("x.", 5, &["10.0.0.1"]);
    zone.set("x.", Kind::Aaaa, 5, &["::1"]);
    let mut dns = zone.dns(&["x"], "");
    assert_eq!(dns.next().await.unwrap().len(), 2);
    zone.fail("x.", Kind::Aaaa);
    zone.a("x.", 5, &["10.0.0.2"]);
    assert_eq!(addresses(&dns.next().await.unwrap()), ["10.0.0.2:1051", "[::1]:1051"]);
    assert_eq!(dns.next().await.unwrap_err().message, "DNS: AAAA of x.: no answer in time");
    // An answer without records is one, while the name has others.
    zone.empty("x.", Kind::Aaaa);
    assert_eq!(addresses(&dns.next().await.unwrap()), ["10.0.0.2:1051"]);
}

#[tokio::test(start_paused = true)]
async fn services_name_hosts_and_ports() {
    let zone = Zone::default();
    zone.set(
        "_grpc._tcp.x.",
        Kind::Srv,
        60,
        &["one.x. 1051", "two.x. 1052", "two.x. 1053", "gone.x. 1", "one.x. 0"],
    );
    zone.a("one.x.", 20, &["10.0.0.1"]);
    zone.set("two.x.", Kind::Aaaa, 60, &["2001:db8::2"]);
    let mut dns = zone.dns(&["_grpc._tcp.x"], "x");
    let peers = dns.next().await.unwrap();
    assert_eq!(addresses(&peers), ["10.0.0.1:1051", "[2001:db8::2]:1052", "[2001:db8::2]:1053"]);
    assert!(peers.iter().all(|peer| peer.data_center == "x."));
    silent(&mut dns, 20).await;
    assert_eq!(zone.pauses(), [20]);
    // A host whose address cannot be asked for keeps it, and one that has none any more is left out.
    zone.fail("one.x.", Kind::A);
    zone.empty("two.x.", Kind::Aaaa);
    assert_eq!(addresses(&dns.next().await.unwrap()), ["10.0.0.1:1051"]);
}

#[tokio::test(start_paused = true)]
async fn questions_are_a_second_apart_also_after_errors_and_dropped_calls() {
    let zone = Zone::default();
    let mut dns = zone.dns(&["x"], "");
    for _ in 0..5 {
        dns.next().await.unwrap_err();
    }
    for _ in 0..50 {
        let _ = timeout(Duration::from_millis(100), dns.next()).await;
    }
    assert!(zone.pauses().iter().all(|pause| *pause >= 1), "{:?}", zone.pauses());
}

#[tokio::test(start_paused = true)]
async fn p34_all_pods_restarting_is_over_within_five_seconds_of_the_first_record() {
    let zone = Zone::default();
    let mut peers = crate::Recover::new(Box::new(zone.dns(&["x"], "")), 1);
    assert!(timeout(Duration::from_secs(400), peers.next()).await.is_err());
    zone.a("x.", 60, &["10.0.0.1"]);
    let found = timeout(Duration::from_millis(5_001), peers.next()).await.unwrap();
    assert_eq!(addresses(&found), ["10.0.0.1:1051"]);
    assert_eq!(peers.status().snapshot().failing, None);
}

#[test]
fn a_name_and_a_server_are_needed() {
    let settings = |names: &[&str], servers| DnsSettings {
        names: names.iter().map(|name| DnsName::parse(name).unwrap()).collect(),
        port: 1051,
        data_center: String::new(),
        servers,
    };
    let one = DnsServers::Addresses(vec!["127.0.0.1:53".parse().unwrap()]);
    let error = |settings| Dns::new(settings).unwrap_err().message;
    assert!(error(settings(&[], one)).contains("0 DNS names"));
    assert!(error(settings(&["x"], DnsServers::Addresses(vec![]))).contains("no DNS server"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    assert!(error(settings(&["x"], DnsServers::ResolvConf(file.clone()))).contains("cannot read"));
    std::fs::write(&file, "search example\n").unwrap();
    assert!(error(settings(&["x"], DnsServers::ResolvConf(file))).contains("names no DNS server"));
}
