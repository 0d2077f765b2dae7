//! From what the API lists to peers. Each kind of object says of each pod which addresses it has and whether it takes
//! calls; what becomes of that is the same for all.
//!
//! * A pod that takes no calls (yet, or any longer) is no peer. This node is one all the same: it has to find itself
//!   before it can become ready.
//! * A pod is one peer, however many addresses it has and however many slices list it. Of two families the one that
//!   this node's own address has counts: all pods of a cluster have their first address in the same family, so all
//!   nodes choose alike, originals included, which only know IPv4.
//! * The port is the same for all; those of the slices belong to the service.

use std::collections::BTreeMap;
use std::net::IpAddr;

use flyball_core::cluster::PeerInfo;
use k8s_openapi::api::core::v1::{Endpoints, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::address;

/// Whose pods they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// This pod's address.
    pub(super) ip: Option<IpAddr>,
    /// The gRPC port of all pods.
    pub(super) port: u16,
    /// This node's data center, and so theirs: the API says nothing about it.
    pub(super) data_center: String,
}

/// One address of a pod, as one object lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    /// What is the same in all that is listed of one pod; its address where there is nothing else.
    pod: &'a str,
    /// An address, or a name in a slice of names.
    host: &'a str,
    /// Whether it takes calls.
    ready: bool,
}

/// The peers, sorted.
pub(super) fn peers<'a>(places: impl IntoIterator<Item = Place<'a>>, own: &Own) -> Vec<PeerInfo> {
    // The best address of each pod so far, with how good it is.
    let mut pods: BTreeMap<&str, (u8, String)> = BTreeMap::new();
    for place in places {
        let ip = place.host.parse::<IpAddr>().ok();
        let is_own = ip.is_some() && ip == own.ip;
        if !place.ready && !is_own {
            continue;
        }
        let address = match ip {
            Some(ip) if !ip.is_unspecified() => address::with_port(ip, own.port),
            // A name, which is only dialled where there is no address.
            _ => match address::parse(place.host, own.port) {
                Ok(address) if !place.host.contains([':', '[']) => address,
                _ => continue,
            },
        };
        let v6 = own.ip.is_some_and(|own| own.is_ipv6());
        let rank = match ip {
            _ if is_own => 3,
            Some(ip) if ip.is_ipv6() == v6 => 2,
            Some(_) => 1,
            None => 0,
        };
        let best = pods.entry(place.pod).or_insert_with(|| (rank, address.clone()));
        // Of two as good as each other the lesser: whatever the order of the slices, all nodes choose alike.
        if (rank, std::cmp::Reverse(&address)) > (best.0, std::cmp::Reverse(&best.1)) {
            *best = (rank, address);
        }
    }
    let mut addresses: Vec<String> = pods.into_values().map(|(_, address)| address).collect();
    addresses.sort();
    addresses.dedup();
    let peer = |address| PeerInfo { data_center: own.data_center.clone(), ..PeerInfo::new(address) };
    addresses.into_iter().map(peer).collect()
}

/// What a slice lists. Only the first address of an endpoint means anything. One that ends is left out even where the
/// service lists pods that are not ready (`publishNotReadyAddresses`): it will not answer for long.
pub(super) fn in_slice(slice: &EndpointSlice) -> impl Iterator<Item = Place<'_>> {
    slice.endpoints.iter().flatten().filter_map(|endpoint| {
        let host = endpoint.addresses.first()?.as_str();
        let conditions = endpoint.conditions.as_ref();
        let ready = conditions.and_then(|it| it.ready).unwrap_or(true);
        let terminating = conditions.and_then(|it| it.terminating).unwrap_or(false);
        let target = endpoint.target_ref.as_ref();
        let pod = target.and_then(|it| it.uid.as_deref().or(it.name.as_deref()));
        Some(Place { pod: pod.unwrap_or(host), host, ready: ready && !terminating })
    })
}

/// What the endpoints of an old cluster list.
pub(super) fn in_endpoints(endpoints: &Endpoints) -> impl Iterator<Item = Place<'_>> {
    endpoints.subsets.iter().flatten().flat_map(|subset| {
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let others = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        ready.chain(others).map(|(address, ready)| {
            let target = address.target_ref.as_ref();
            let pod = target.and_then(|it| it.uid.as_deref().or(it.name.as_deref()));
            Place { pod: pod.unwrap_or(&address.ip), host: &address.ip, ready }
        })
    })
}

/// What a pod says of itself. It takes calls when all of its containers run and are ready; one that has no address
/// yet, has ended or is to end does not.
pub(super) fn in_pod(pod: &Pod) -> Option<Place<'_>> {
    let status = pod.status.as_ref()?;
    let host = status.pod_ip.as_deref().filter(|ip| !ip.is_empty())?;
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let running = containers.iter().all(|container| {
        container.ready && container.state.as_ref().is_some_and(|state| state.running.is_some())
    });
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let leaving = pod.metadata.deletion_timestamp.is_some();
    let name = pod.metadata.uid.as_deref().or(pod.metadata.name.as_deref()).unwrap_or(host);
    Some(Place { pod: name, host, ready: running && !containers.is_empty() && !ended && !leaving })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn own(ip: &str) -> Own {
        Own { ip: ip.parse().ok(), port: 1051, data_center: "dc".to_owned() }
    }

    fn addresses(peers: &[PeerInfo]) -> Vec<&str> {
        assert!(peers.iter().all(|peer| peer.data_center == "dc"));
        peers.iter().map(|peer| peer.grpc_address.as_str()).collect()
    }

    fn slice(kind: &str, endpoints: &Value) -> EndpointSlice {
        from_value(json!({"addressType": kind, "endpoints": endpoints, "metadata": {"name": "s"}})).unwrap()
    }

    fn of_slices(slices: &[EndpointSlice], ip: &str) -> Vec<PeerInfo> {
        peers(slices.iter().flat_map(in_slice), &own(ip))
    }

    #[test]
    fn an_endpoint_is_a_peer_unless_it_is_not_ready_or_ends() {
        let slices = [slice(
            "IPv4",
            &json!([
                {"addresses": ["10.0.0.1", "10.0.0.99"]},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.4"], "conditions": {"ready": true, "terminating": true}},
                {"addresses": ["10.0.0.5"], "conditions": {"serving": true}},
                {"addresses": [""]},
                {"addresses": []},
            ]),
        )];
        assert_eq!(addresses(&of_slices(&slices, "")), ["10.0.0.1:1051", "10.0.0.2:1051", "10.0.0.5:1051"]);
        // This pod is found all the same.
        assert!(addresses(&of_slices(&slices, "10.0.0.3")).contains(&"10.0.0.3:1051"));
        assert!(addresses(&of_slices(&slices, "10.0.0.4")).contains(&"10.0.0.4:1051"));
    }

    #[test]
    fn a_pod_of_two_families_is_one_peer_in_the_family_of_this_node() {
        let pod = |address: &str, uid: &str| json!({"addresses": [address], "targetRef": {"kind": "Pod", "uid": uid}});
        let slices = [
            slice(
                "IPv6",
                &json!([pod("2001:db8::1", "a"), pod("2001:db8::2", "b"), pod("2001:db8::3", "c")]),
            ),
            slice("IPv4", &json!([pod("10.0.0.1", "a"), pod("10.0.0.2", "b")])),
        ];
        // One pod has no address of the other family.
        let v4 = ["10.0.0.1:1051", "10.0.0.2:1051", "[2001:db8::3]:1051"];
        assert_eq!(addresses(&of_slices(&slices, "10.0.0.1")), v4);
        assert_eq!(addresses(&of_slices(&slices, "")), v4);
        let reversed: Vec<_> = slices.iter().rev().cloned().collect();
        assert_eq!(addresses(&of_slices(&reversed, "10.0.0.1")), v4);
        let v6 = ["[2001:db8::1]:1051", "[2001:db8::2]:1051", "[2001:db8::3]:1051"];
        assert_eq!(addresses(&of_slices(&slices, "2001:db8::2")), v6);
    }

    #[test]
    fn slices_of_one_service_are_joined_and_an_address_counts_once() {
        let slices = [
            slice("IPv4", &json!([{"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.1"]}])),
            slice("IPv4", &json!([{"addresses": ["10.0.0.1"], "targetRef": {"uid": "a"}}])),
            slice("FQDN", &json!([{"addresses": ["node.example"]}, {"addresses": ["no name"]}])),
        ];
        assert_eq!(
            addresses(&of_slices(&slices, "")),
            ["10.0.0.1:1051", "10.0.0.2:1051", "node.example:1051"]
        );
    }

    #[test]
    fn old_endpoints_tell_the_same() {
        let endpoints: Endpoints = from_value(json!({"metadata": {"name": "s"}, "subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::2"}], "notReadyAddresses": [{"ip": "10.0.0.3"}]},
            {"addresses": [{"ip": "10.0.0.1"}]},
        ]}))
        .unwrap();
        let found = |ip| peers(in_endpoints(&endpoints), &own(ip));
        assert_eq!(addresses(&found("")), ["10.0.0.1:1051", "[2001:db8::2]:1051"]);
        assert_eq!(addresses(&found("10.0.0.3")).len(), 3);
    }

    fn pod(ip: &str, ready: bool, state: &str) -> Value {
        json!({"metadata": {"name": ip, "uid": ip}, "status": {"podIP": ip, "phase": "Running", "containerStatuses": [
            {"name": "c", "image": "", "imageID": "", "restartCount": 0, "ready": ready, "state": {state: {}}},
        ]}})
    }

    #[test]
    fn a_pod_is_a_peer_when_all_its_containers_run_and_are_ready() {
        let with = |mut pod: Value, path: &str, value: Value| {
            match path {
                "metadata" => pod["metadata"]["deletionTimestamp"] = value,
                member => pod["status"][member] = value,
            }
            pod
        };
        let pods: Vec<Pod> = [
            pod("10.0.0.1", true, "running"),
            pod("10.0.0.2", false, "running"),
            pod("10.0.0.3", true, "waiting"),
            pod("2001:db8::4", true, "running"),
            with(pod("10.0.0.5", true, "running"), "metadata", json!("2026-01-01T00:00:00Z")),
            with(pod("10.0.0.6", true, "running"), "phase", json!("Failed")),
            with(pod("10.0.0.7", true, "running"), "containerStatuses", json!([])),
            // Scheduled, and nothing else yet: the original made a peer `:port` of it.
            with(pod("", true, "running"), "containerStatuses", json!(null)),
            json!({"metadata": {"name": "new"}}),
        ]
        .into_iter()
        .map(|pod| from_value(pod).unwrap())
        .collect();
        let found = |ip| peers(pods.iter().filter_map(in_pod), &own(ip));
        assert_eq!(addresses(&found("")), ["10.0.0.1:1051", "[2001:db8::4]:1051"]);
        for not_ready in ["10.0.0.2", "10.0.0.5", "10.0.0.7"] {
            assert!(addresses(&found(not_ready)).contains(&format!("{not_ready}:1051").as_str()));
        }
    }
}
