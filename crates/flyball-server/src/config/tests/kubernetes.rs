//! Discovery by the Kubernetes API, as the original's variables ask for it.

use flyball_discovery::KubernetesWatch;

use super::*;

const TYPE: (&str, &str) = ("GUBER_PEER_DISCOVERY_TYPE", "k8s");
const SERVICE: (&str, &str) = ("GUBER_K8S_SERVICE_NAME", "limits");
const PODS: (&str, &str) = ("GUBER_K8S_WATCH_MECHANISM", "pods");

fn kubernetes(pairs: &[(&str, &str)]) -> Config {
    config(&[&[TYPE], pairs].concat())
}

#[test]
fn the_variables_of_a_pod_make_a_source() {
    let pairs = [
        SERVICE,
        ("GUBER_K8S_NAMESPACE", "prod"),
        ("GUBER_K8S_POD_IP", "10.1.2.3"),
        ("GUBER_K8S_POD_PORT", "1051"),
        ("GUBER_GRPC_ADDRESS", "0.0.0.0:81"),
        ("GUBER_ADVERTISE_ADDRESS", "not.me:9"),
    ];
    let config = kubernetes(&pairs);
    let own = config.advertise_address(81);
    assert_eq!(own.to_string(), "10.1.2.3:1051");
    assert_eq!(config.peer_address(&own), "10.1.2.3:1051");
    let settings = config.kubernetes_settings(&own);
    assert_eq!((settings.namespace.as_str(), settings.port), ("prod", 1051));
    assert_eq!(settings.watch, KubernetesWatch::Service("limits".to_owned()));
    assert_eq!(settings.own_ip, "10.1.2.3".parse().ok());
    let source = config.source(&own).unwrap().unwrap();
    assert_eq!((source.kind(), source.origin().as_str()), ("k8s", "endpoints of the service prod/limits"));
}

/// Oddity D6: an address of the other family is written as all peers write it, and a missing port is this node's.
#[test]
fn addresses_are_whole_whatever_is_missing() {
    let config = kubernetes(&[SERVICE, ("GUBER_K8S_POD_IP", "2001:DB8:0::1")]);
    assert_eq!(config.peer_address(&config.advertise_address(1051)), "[2001:db8::1]:1051");
    let config =
        kubernetes(&[SERVICE, ("GUBER_ADVERTISE_ADDRESS", "10.0.0.1:7"), ("GUBER_K8S_POD_PORT", "8")]);
    assert_eq!(config.advertise_address(1051).to_string(), "10.0.0.1:8");
    let warned = warnings(&env(&[TYPE, SERVICE, ("GUBER_ADVERTISE_ADDRESS", "me.example:7")]));
    assert!(warned.len() == 1 && warned[0].contains("set GUBER_K8S_POD_IP"), "{warned:?}");
}

/// Oddity D5: peers are in the node's own data center.
#[test]
fn a_data_center_is_everybodys() {
    let config = kubernetes(&[SERVICE, ("GUBER_DATA_CENTER", "east"), ("GUBER_K8S_POD_IP", "10.0.0.1")]);
    assert_eq!(config.kubernetes_settings(&config.advertise_address(1)).data_center, "east");
    assert_eq!(config.data_center(), "east");
}

#[test]
fn the_service_is_needed_by_slices() {
    for mechanism in ["", "endpointslices", "endpoints"] {
        let pair = ("GUBER_K8S_WATCH_MECHANISM", mechanism);
        let shown = wrong(&env(&[TYPE, pair]));
        assert!(shown.len() == 1 && shown[0].contains("set GUBER_K8S_SERVICE_NAME"), "{shown:?}");
        assert!(from_strings(&env(&[TYPE, pair, SERVICE])).is_ok());
    }
}

#[test]
fn the_selector_is_needed_by_pods_and_has_an_old_name() {
    let shown = wrong(&env(&[TYPE, PODS, SERVICE]));
    assert!(shown.len() == 1 && shown[0].contains("set GUBER_K8S_SELECTOR"), "{shown:?}");
    let pods = |pairs: &[(&str, &str)]| {
        let config = kubernetes(&[&[PODS], pairs].concat());
        config.kubernetes_settings(&config.advertise_address(1)).watch
    };
    let (new, old) = (("GUBER_K8S_SELECTOR", "app=new"), ("GUBER_K8S_ENDPOINTS_SELECTOR", "app=old"));
    assert_eq!(pods(&[new, old]), KubernetesWatch::Pods("app=new".to_owned()));
    assert_eq!(pods(&[old]), KubernetesWatch::Pods("app=old".to_owned()));
    let own = ("GUBER_K8S_POD_IP", "10.0.0.1");
    let warned = warnings(&env(&[TYPE, PODS, own, old]));
    assert!(warned.len() == 1 && warned[0].contains("old name; set GUBER_K8S_SELECTOR"), "{warned:?}");
    assert_eq!(warnings(&env(&[TYPE, PODS, own, new])), [""; 0]);
}
