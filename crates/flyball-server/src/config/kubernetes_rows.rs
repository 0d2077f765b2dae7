//! The settings of discovery by the Kubernetes API.

use super::Config;
use super::table::Section::Cluster;
use super::table::{Field, Setting, field};
use super::values::whole_number;

const KUBECONFIG: Field = Field { kind: "file", ..field!(discovery.kubernetes.kubeconfig) };
const POD_PORT: Field = Field { set: pod_port, ..field!(discovery.kubernetes.pod_port, zero = default) };

fn pod_port(config: &mut Config, text: &str) -> Result<(), String> {
    whole_number(text, 0, 65_535)?;
    (field!(discovery.kubernetes.pod_port, zero = default).set)(config, text)
}

/// In the order of the reference page. All need the type `k8s` and have no effect without it.
pub(super) const ROWS: [Setting; 7] = [
    Setting::new(
        Cluster,
        "discovery.kubernetes.namespace",
        &["GUBER_K8S_NAMESPACE"],
        field!(discovery.kubernetes.namespace),
        "The namespace of the pods.",
    )
    .default("default"),
    Setting::new(
        Cluster,
        "discovery.kubernetes.pod_ip",
        &["GUBER_K8S_POD_IP"],
        field!(discovery.kubernetes.pod_ip),
        "This pod's address, from its `status.podIP`: by it the node finds itself, ready or not. The advertise address \
         does not matter then.",
    )
    .without("the host of the advertise address"),
    Setting::new(
        Cluster,
        "discovery.kubernetes.pod_port",
        &["GUBER_K8S_POD_PORT"],
        POD_PORT,
        "The gRPC port of all pods, this one included.",
    )
    .without("the port of the advertise address"),
    Setting::new(
        Cluster,
        "discovery.kubernetes.service_name",
        &["GUBER_K8S_SERVICE_NAME"],
        field!(discovery.kubernetes.service_name),
        "The service whose endpoints are the peers. Needed by `endpointslices`.",
    )
    .without("no service"),
    Setting::new(
        Cluster,
        "discovery.kubernetes.selector",
        &["GUBER_K8S_SELECTOR", "GUBER_K8S_ENDPOINTS_SELECTOR"],
        field!(discovery.kubernetes.selector),
        "The labels of the pods that are the peers, such as `app=flyball`. Needed by `pods`.",
    )
    .without("no pods"),
    Setting::new(
        Cluster,
        "discovery.kubernetes.watch_mechanism",
        &["GUBER_K8S_WATCH_MECHANISM"],
        field!(discovery.kubernetes.watch_mechanism),
        "What is watched: `endpointslices` the endpoints of a service (`endpoints` means the same), `pods` pods by their \
         labels.",
    )
    .default("endpointslices"),
    Setting::new(
        Cluster,
        "discovery.kubernetes.kubeconfig",
        &["FLYBALL_DISCOVERY_KUBERNETES_KUBECONFIG"],
        KUBECONFIG,
        "A kubeconfig with the address and the credentials for the API server; its current context counts.",
    )
    .without("those of the pod; outside of a pod `KUBECONFIG` or `~/.kube/config`"),
];
