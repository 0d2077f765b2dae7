//! The endpoints of a service.

use std::time::Duration;

use flyball_tests::cluster::sample_keys;
use flyball_tests::kubernetes::{ApiServer, alone};
use serde_json::json;

use crate::{CORE, SLICES, SOON, endpoint, has_peers, is_soon_failing, keeps, plan, ready, service, slice};

/// Two of ours and an original follow what happens to the slices of their service, and nothing else.
#[test]
fn slices_are_followed_beside_the_original() {
    alone("slices::slices_are_followed_beside_the_original", || {
        let api = ApiServer::start(&[]).unwrap();
        api.allow_pods().unwrap();
        api.create(&format!("{CORE}/services"), &service()).unwrap();
        let one = format!("{SLICES}/limits-1");
        let v4 = |name: &str, endpoints: &[_]| slice(name, "limits", "IPv4", endpoints);
        api.create(SLICES, &v4("limits-1", &[ready(1), ready(2), ready(4)])).unwrap();
        // Somebody else's.
        api.create(SLICES, &slice("others-1", "others", "IPv4", &[ready(9)])).unwrap();

        let mut cluster = plan(4).originals(1).arguments(&["--semantics=gubernator"]).prepare().unwrap();
        for node in [0, 1, 3] {
            cluster.start_again(node).unwrap();
        }
        cluster.all_know(&[0, 1, 3], 3, Duration::from_secs(20));
        let keys = sample_keys(300);
        let owners = |node| cluster.owners_by(node, "k8s", &keys).unwrap();
        assert!(owners(0) == owners(1) && owners(1) == owners(3));

        // One is not ready: the others leave it out, and it still finds itself.
        let not_ready = endpoint("10.88.0.2", 2, &json!({"ready": false}));
        api.replace(&one, &v4("limits-1", &[ready(1), not_ready, ready(4)])).unwrap();
        cluster.all_know(&[0, 3], 2, SOON);
        keeps(&mut cluster, &[1], 3, 500);
        // It ends.
        let ending = endpoint("10.88.0.2", 2, &json!({"ready": false, "serving": true, "terminating": true}));
        api.replace(&one, &v4("limits-1", &[ready(1), ending, ready(4)])).unwrap();
        keeps(&mut cluster, &[0, 3], 2, 500);
        api.replace(&one, &v4("limits-1", &[ready(1), ready(2), ready(4)])).unwrap();
        cluster.all_know(&[0, 1, 3], 3, SOON);

        // A second slice of the same service, which repeats one of the pods.
        cluster.start_again(2).unwrap();
        api.create(SLICES, &v4("limits-2", &[ready(3), ready(1)])).unwrap();
        cluster.all_know(&[0, 1, 2, 3], 4, Duration::from_secs(20));
        api.delete(&format!("{SLICES}/limits-2")).unwrap();
        cluster.all_know(&[0, 1, 3], 3, SOON);

        // The service and all of its slices are gone, which says nothing about the pods.
        cluster.terminate(2).unwrap();
        cluster.ended(2).unwrap();
        cluster.terminate(3).unwrap();
        cluster.ended(3).unwrap();
        api.replace(&one, &v4("limits-1", &[ready(1), ready(2)])).unwrap();
        cluster.all_know(&[0, 1], 2, SOON);
        api.delete(&format!("{CORE}/services/limits")).unwrap();
        api.delete(&one).unwrap();
        is_soon_failing(&cluster, 0, true);
        keeps(&mut cluster, &[0, 1], 2, 1_000);
        api.create(SLICES, &v4("limits-3", &[ready(1), ready(2)])).unwrap();
        is_soon_failing(&cluster, 0, false);
        keeps(&mut cluster, &[0, 1], 2, 500);
    });
}

/// Slices of both families list the same pods, and each is one peer, in the family of the node that looks.
#[test]
fn pods_of_two_families_count_once() {
    alone("slices::pods_of_two_families_count_once", || {
        let api = ApiServer::start(&[]).unwrap();
        api.allow_pods().unwrap();
        let ready6 = |pod| endpoint(&format!("fd00:88::{pod}"), pod, &json!({"ready": true}));
        api.create(SLICES, &slice("limits-6", "limits", "IPv6", &[ready6(1), ready6(2), ready6(3)])).unwrap();
        api.create(SLICES, &slice("limits-4", "limits", "IPv4", &[ready(1), ready(2)])).unwrap();
        let cluster = {
            let mut cluster = plan(1).prepare().unwrap();
            cluster.start_again(0).unwrap();
            cluster
        };
        // One pod has an address in the other family only.
        has_peers(&cluster, 0, &["10.88.0.1:1051", "10.88.0.2:1051", "[fd00:88::3]:1051"]);
        drop(cluster);

        let mut v6 = plan(1)
            .found_by(&[("GUBER_K8S_POD_IP", "fd00:88::1"), ("GUBER_GRPC_ADDRESS", "[::]:1051")])
            .prepare()
            .unwrap();
        v6.start_again(0).unwrap();
        has_peers(&v6, 0, &["[fd00:88::1]:1051", "[fd00:88::2]:1051", "[fd00:88::3]:1051"]);
        api.delete(&format!("{SLICES}/limits-4")).unwrap();
        keeps(&mut v6, &[0], 3, 500);
    });
}

/// Field report P29: health over HTTP is the answering node's, whatever its ports, with Kubernetes alone to find peers.
#[test]
fn p29_health_does_not_depend_on_default_ports() {
    alone("slices::p29_health_does_not_depend_on_default_ports", || {
        let api = ApiServer::start(&[]).unwrap();
        api.allow_pods().unwrap();
        api.create(SLICES, &slice("limits-1", "limits", "IPv4", &[ready(1), ready(2)])).unwrap();
        let plan = plan(2).ports(24_051, 24_080).found_by(&[("GUBER_K8S_POD_PORT", "24051")]);
        let cluster = plan.start().unwrap();
        for node in cluster.nodes() {
            assert_eq!(node.health().unwrap()["peer_count"], 2);
        }
    });
}
