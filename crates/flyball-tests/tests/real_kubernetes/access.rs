//! Who may, and with which credentials.

use flyball_tests::kubernetes::{ApiServer, alone};

use crate::{RECOVERED, SLICES, has_peers, plan, ready, slice};

/// Without a role the node says which one it needs, and goes on when there is one.
#[test]
fn a_missing_role_is_named() {
    alone("access::a_missing_role_is_named", || {
        let api = ApiServer::start(&[]).unwrap();
        api.create(SLICES, &slice("limits-1", "limits", "IPv4", &[ready(1)])).unwrap();
        let mut cluster = plan(1).prepare().unwrap();
        cluster.start_again(0).unwrap();
        cluster.says_missing(
            0,
            "needs a Role with the verbs list and watch on endpointslices in the namespace default",
        );
        api.allow_pods().unwrap();
        cluster.all_know(&[0], 1, RECOVERED);
    });
}

/// Outside of a pod a kubeconfig says where the server is, and who asks.
#[test]
fn a_kubeconfig_will_do() {
    alone("access::a_kubeconfig_will_do", || {
        let api = ApiServer::start(&[]).unwrap();
        api.allow_pods().unwrap();
        api.create(SLICES, &slice("limits-1", "limits", "IPv4", &[ready(1), ready(2)])).unwrap();
        let config = api.pod_kubeconfig();
        let config = config.to_str().unwrap();
        let nowhere = ("KUBERNETES_SERVICE_HOST", "10.88.0.9");
        // In a pod, but told otherwise.
        let ours = ("FLYBALL_DISCOVERY_KUBERNETES_KUBECONFIG", config);
        let cluster = plan(2).found_by(&[nowhere, ours]).start().unwrap();
        drop(cluster);
        // The file is not there.
        let missing = ("FLYBALL_DISCOVERY_KUBERNETES_KUBECONFIG", "/nowhere/config");
        let mut cluster = plan(1).found_by(&[missing]).prepare().unwrap();
        cluster.start_again(0).unwrap();
        cluster.says_missing(0, "/nowhere/config");
        drop(cluster);
        // The credentials of the pod are those of nobody.
        std::fs::write("/run/secrets/kubernetes.io/serviceaccount/token", "stolen").unwrap();
        let mut cluster = plan(1).prepare().unwrap();
        cluster.start_again(0).unwrap();
        cluster.says_missing(0, "does not know these credentials");
        std::fs::write("/run/secrets/kubernetes.io/serviceaccount/token", "pod-token").unwrap();
        // A token that is renewed on disk is taken up.
        has_peers(&cluster, 0, &["10.88.0.1:1051", "10.88.0.2:1051"]);
    });
}
