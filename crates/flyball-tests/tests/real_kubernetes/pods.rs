//! Pods by their labels.

use flyball_tests::kubernetes::{ApiServer, alone};
use serde_json::{Value, json};

use crate::{CORE, SOON, is_soon_failing, keeps, plan};

fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "flyball", "image": "none"}], "terminationGracePeriodSeconds": 30},
    })
}

/// The pod with a state, as the kubelet would write it.
fn with_state(name: &str, ip: &str, ready: bool, state: &str) -> Value {
    let mut pod = pod(name, "flyball");
    let status = json!({"name": "flyball", "image": "none", "imageID": "", "restartCount": 0, "ready": ready,
                        "state": {state: {}}});
    pod["status"] =
        json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "containerStatuses": [status]});
    pod
}

/// Two of ours and an original follow pods: those that run and are ready, and always themselves. A pod without an
/// address is nobody.
#[test]
fn pods_are_followed_beside_the_original() {
    alone("pods::pods_are_followed_beside_the_original", || {
        let api = ApiServer::start(&[]).unwrap();
        api.allow_pods().unwrap();
        let pods = format!("{CORE}/pods");
        let state = |number: u8, ready: bool, what: &str| {
            let name = format!("pod-{number}");
            let pod = with_state(&name, &format!("10.88.0.{number}"), ready, what);
            api.replace(&format!("{pods}/{name}/status"), &pod).unwrap();
        };
        for number in [1, 2, 3] {
            api.create(&pods, &pod(&format!("pod-{number}"), "flyball")).unwrap();
            state(number, true, "running");
        }
        api.create(&pods, &pod("stranger", "others")).unwrap();
        let by_pods = [("GUBER_K8S_WATCH_MECHANISM", "pods"), ("GUBER_K8S_SELECTOR", "app=flyball")];
        let mut cluster =
            plan(3).originals(1).arguments(&["--semantics=gubernator"]).found_by(&by_pods).start().unwrap();

        state(2, false, "running");
        cluster.all_know(&[0, 2], 2, SOON);
        keeps(&mut cluster, &[1], 3, 500);
        state(2, true, "waiting");
        keeps(&mut cluster, &[0, 2], 2, 500);
        state(2, true, "running");
        cluster.all_know(&[0, 1, 2], 3, SOON);

        // The original makes a peer of this one, and is stopped before it does.
        cluster.terminate(2).unwrap();
        cluster.ended(2).unwrap();
        api.create(&pods, &pod("pod-4", "flyball")).unwrap();
        keeps(&mut cluster, &[0, 1], 3, 1_000);
        // One that is deleted, and may take its time, is gone at once.
        api.delete(&format!("{pods}/pod-3")).unwrap();
        cluster.all_know(&[0, 1], 2, SOON);

        api.delete(&pods).unwrap();
        is_soon_failing(&cluster, 0, true);
    });
}
