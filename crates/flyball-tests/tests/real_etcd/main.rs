//! Nodes that find each other by a real etcd, most of the time one of three members: joins, leaves and deaths, and
//! whatever may happen to etcd itself. Its troubles must cost no request, and must be over for the nodes ten seconds
//! after they are over for etcd.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod access;
mod changes;
mod mixed;
mod outage;
mod values;

use std::time::Duration;

use flyball_tests::cluster::{Cluster, Item, Load, Plan, Record, sample_keys};
use flyball_tests::etcd::Etcd;
use flyball_tests::wait::poll;

/// How soon after etcd is well again every node has to know who there is.
const RECOVERED: Duration = Duration::from_secs(10);

/// For what takes a moment while etcd is well.
const SOON: Duration = Duration::from_secs(5);

/// Each test has a network of its own, for the nodes (127.20) and for etcd (127.40).
mod network {
    pub(crate) const CHANGES: u8 = 60;
    pub(crate) const SUCCESSOR: u8 = 61;
    pub(crate) const MIXED: u8 = 62;
    pub(crate) const COMPACTION: u8 = 63;
    pub(crate) const REVOKED: u8 = 64;
    pub(crate) const MEMBERS: u8 = 65;
    pub(crate) const LEADERLESS: u8 = 66;
    pub(crate) const WIPED: u8 = 67;
    pub(crate) const LATE: u8 = 68;
    pub(crate) const PASSWORD: u8 = 69;
    pub(crate) const TLS: u8 = 70;
    pub(crate) const VALUES: u8 = 71;
    pub(crate) const OLD: u8 = 72;
    pub(crate) const FROZEN: u8 = 73;
}

/// Nodes that find each other by this etcd; none is started.
fn plan(network: u8, nodes: u8, etcd: &Etcd) -> Plan {
    Plan::new(network, nodes)
        .found_by(&[("GUBER_PEER_DISCOVERY_TYPE", "etcd"), ("GUBER_ETCD_ENDPOINTS", &etcd.endpoints())])
}

/// All of these nodes name the same owner for each of some keys.
#[track_caller]
fn all_agree(cluster: &Cluster, nodes: &[usize]) {
    let keys = sample_keys(500);
    let owners: Vec<_> = nodes.iter().map(|&node| cluster.owners_by(node, "etcd", &keys).unwrap()).collect();
    assert!(owners.windows(2).all(|pair| pair[0] == pair[1]), "they disagree\n{}", cluster.logs());
}

/// Steady questions to each of these nodes, about keys of all.
fn load(cluster: &Cluster, nodes: &[usize]) -> Vec<Load> {
    let items: Vec<Item> = sample_keys(30).iter().map(|key| Item::new("etcd", key, 1_000_000)).collect();
    nodes.iter().map(|&node| Load::on(cluster.node(node).http(), items.clone(), 10)).collect()
}

/// Nobody was told of a trouble, and nobody answered in another's stead.
#[track_caller]
fn nothing_failed(cluster: &Cluster, loads: Vec<Load>) {
    for record in loads.into_iter().map(Load::stop).collect::<Vec<Record>>() {
        assert!(record.calls.len() > 10, "{} calls are no load", record.calls.len());
        assert_eq!(record.errors(), Vec::<String>::new(), "{}", cluster.logs());
        let degraded = record.answers().filter(|(_, answer, _)| answer.degraded).count();
        assert_eq!(degraded, 0, "{}", cluster.logs());
    }
}

/// Whether the metrics of a node say that its source of peers fails.
fn is_failing(cluster: &Cluster, node: usize) -> bool {
    cluster.node(node).metric("flyball_discovery_failing{source=\"etcd\"}").unwrap() > 0.5
}

/// Waits until the metrics of a node say so, or the contrary.
#[track_caller]
fn is_soon_failing(cluster: &Cluster, node: usize, failing: bool, most: Duration) {
    let agreed = poll(most, || (is_failing(cluster, node) == failing).then_some(()));
    assert!(agreed.is_some(), "failing should be {failing}\n{}", cluster.logs());
}
