//! The settings of discovery by the Kubernetes API: the values, how they fit together, and the source that they make.
//!
//! Peers go by the address of their pod, and so does this node: `GUBER_K8S_POD_IP`, from the pod's own status. The
//! advertise address takes its place only where there is none.

use std::net::IpAddr;

use flyball_discovery::{KubernetesSettings, KubernetesWatch};

use super::Config;
use super::choices::PeerDiscovery;
use super::error::Warning;
use super::raw::Raw;
use super::values::{HostPort, Value, choice};

/// Discovery by the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kubernetes {
    /// Where the pods are.
    pub namespace: String,
    /// This pod's address.
    pub pod_ip: Option<IpAddr>,
    /// The gRPC port of all pods; `None` is this node's.
    pub pod_port: Option<u32>,
    /// The service whose endpoints are the peers.
    pub service_name: Option<String>,
    /// The labels of the pods that are the peers.
    pub selector: Option<String>,
    /// What is watched.
    pub watch_mechanism: WatchMechanism,
    /// A kubeconfig, when the credentials are not those of the pod.
    pub kubeconfig: Option<String>,
}

choice! {
    /// What is watched.
    WatchMechanism {
        /// The endpoints of a service.
        #[default]
        EndpointSlices = "endpointslices",
        /// The same, by its old name.
        Endpoints = "endpoints",
        /// Pods by their labels.
        Pods = "pods",
    }
}

impl Value for IpAddr {
    const KIND: &'static str = "IP address";

    fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected the address of the pod, such as 10.1.2.3 or 2001:db8::1";
        match text.parse::<Self>() {
            Ok(ip) if !ip.is_unspecified() => Ok(ip),
            _ => Err(expected.to_owned()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Whether the settings fit together.
pub(super) fn check(
    config: &Config,
    raw: &Raw,
    report: &mut impl FnMut(&str, String),
    warnings: &mut Vec<Warning>,
) {
    let kubernetes = &config.discovery.kubernetes;
    match kubernetes.watch_mechanism {
        WatchMechanism::Pods if kubernetes.selector.is_none() => report(
            "discovery.type",
            "needs the labels of the pods: set GUBER_K8S_SELECTOR, or another GUBER_K8S_WATCH_MECHANISM"
                .to_owned(),
        ),
        WatchMechanism::EndpointSlices | WatchMechanism::Endpoints if kubernetes.service_name.is_none() => {
            report(
                "discovery.type",
                "needs the service whose endpoints are the peers: set GUBER_K8S_SERVICE_NAME".to_owned(),
            );
        }
        _ => {}
    }
    if let Some(given) = raw.given_by_name("discovery.kubernetes.selector")
        && given.origin.given_as() == "GUBER_K8S_ENDPOINTS_SELECTOR"
    {
        warnings.push(Warning(format!(
            "GUBER_K8S_ENDPOINTS_SELECTOR ({}) is an old name; set GUBER_K8S_SELECTOR",
            given.origin
        )));
    }
    let own = config.advertise_address(config.grpc.address.port);
    if kubernetes.pod_ip.is_none() && !own.is_wildcard() && own.host.parse::<IpAddr>().is_err() {
        warnings.push(Warning(format!(
            "Kubernetes lists addresses of pods, so this node will not find itself as {own}; set GUBER_K8S_POD_IP from \
             the pod's status.podIP"
        )));
    }
}

impl Config {
    /// What discovery by the Kubernetes API is told, given the address peers know this node by.
    pub(super) fn kubernetes_settings(&self, own: &HostPort) -> KubernetesSettings {
        let kubernetes = &self.discovery.kubernetes;
        let watch = match kubernetes.watch_mechanism {
            WatchMechanism::Pods => KubernetesWatch::Pods(kubernetes.selector.clone().unwrap_or_default()),
            WatchMechanism::EndpointSlices | WatchMechanism::Endpoints => {
                KubernetesWatch::Service(kubernetes.service_name.clone().unwrap_or_default())
            }
        };
        KubernetesSettings {
            namespace: kubernetes.namespace.clone(),
            watch,
            port: own.port,
            own_ip: own.host.parse().ok(),
            data_center: self.data_center(),
            kubeconfig: kubernetes.kubeconfig.clone().map(Into::into),
        }
    }

    /// What this kind of discovery says about the node itself, when it is the one in force.
    pub(super) fn kubernetes_in_force(&self) -> Option<&Kubernetes> {
        (self.discovery.in_force() == PeerDiscovery::Kubernetes).then_some(&self.discovery.kubernetes)
    }
}
