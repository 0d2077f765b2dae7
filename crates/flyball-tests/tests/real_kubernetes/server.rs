//! A server that is away, and an old one.

use std::time::{Duration, Instant};

use flyball_tests::cluster::{Item, Load, sample_keys};
use flyball_tests::kubernetes::{ApiServer, alone};
use flyball_tests::wait::sleep_ms;
use serde_json::{Value, json};

use crate::{CORE, RECOVERED, SLICES, SOON, has_peers, is_soon_failing, keeps, plan, ready, slice};

/// The server is killed and comes back ten seconds later, twice: no request fails, the ring stays, and what has changed
/// is known ten seconds later at the latest.
#[test]
fn the_server_restarts() {
    alone("server::the_server_restarts", || {
        let mut api = ApiServer::start(&[]).unwrap();
        api.allow_pods().unwrap();
        let one = format!("{SLICES}/limits-1");
        let of = |pods: &[u8]| {
            let endpoints: Vec<Value> = pods.iter().map(|pod| ready(*pod)).collect();
            slice("limits-1", "limits", "IPv4", &endpoints)
        };
        api.create(SLICES, &of(&[1, 2])).unwrap();
        let mut cluster = plan(3).prepare().unwrap();
        cluster.start_again(0).unwrap();
        cluster.start_again(1).unwrap();
        cluster.all_know(&[0, 1], 2, Duration::from_secs(20));
        let items: Vec<Item> = sample_keys(30).iter().map(|key| Item::new("k8s", key, 1_000_000)).collect();
        let loads: Vec<Load> =
            (0..2).map(|node| Load::on(cluster.node(node).http(), items.clone(), 10)).collect();

        api.kill();
        is_soon_failing(&cluster, 0, true);
        keeps(&mut cluster, &[0, 1], 2, 3_000);
        // A node that starts meanwhile answers, and says what is missing.
        cluster.start_again(2).unwrap();
        cluster.says_missing(2, "Kubernetes: ");
        sleep_ms(5_000);
        api.start_again().unwrap();
        let well = Instant::now();
        api.replace(&one, &of(&[1, 2, 3])).unwrap();
        cluster.all_know(&[0, 1, 2], 3, RECOVERED);
        println!("everybody knew everybody {:?} after the server was well", well.elapsed());
        is_soon_failing(&cluster, 0, false);

        // Gone for a moment only.
        api.kill();
        api.start_again().unwrap();
        cluster.terminate(2).unwrap();
        cluster.ended(2).unwrap();
        api.replace(&one, &of(&[1, 2])).unwrap();
        cluster.all_know(&[0, 1], 2, RECOVERED);
        for load in loads {
            load.let_pass(10);
            let record = load.stop();
            assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
        }
        let told = cluster.node(0).log().matches("the peers stay as they were").count();
        assert!((1..=6).contains(&told), "{told} lines\n{}", cluster.node(0).log());
    });
}

/// A server of before Kubernetes 1.21 knows no slices, and is asked for the service's endpoints.
#[test]
fn a_server_without_slices() {
    alone("server::a_server_without_slices", || {
        let api = ApiServer::start(&["--runtime-config=discovery.k8s.io/v1=false"]).unwrap();
        api.allow_pods().unwrap();
        let endpoints = |ready: &[&str], not_ready: &[&str]| {
            let ips = |all: &[&str]| all.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
            json!({
                "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "limits"},
                "subsets": [{"addresses": ips(ready), "notReadyAddresses": ips(not_ready), "ports": [{"port": 1}]}],
            })
        };
        let path = format!("{CORE}/endpoints");
        api.create(&path, &endpoints(&["10.88.0.2"], &["10.88.0.1", "10.88.0.3"])).unwrap();
        let mut cluster = plan(2).prepare().unwrap();
        cluster.start_again(0).unwrap();
        cluster.start_again(1).unwrap();
        has_peers(&cluster, 0, &["10.88.0.1:1051", "10.88.0.2:1051"]);
        has_peers(&cluster, 1, &["10.88.0.2:1051"]);
        api.replace(&format!("{path}/limits"), &endpoints(&["10.88.0.1", "10.88.0.2"], &[])).unwrap();
        cluster.all_know(&[0, 1], 2, SOON);
    });
}
