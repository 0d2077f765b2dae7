//! Who may: passwords and certificates.

use std::fs;
use std::time::Duration;

use flyball_tests::cluster::Plan;
use flyball_tests::etcd::{Etcd, base64};
use flyball_tests::wait::poll;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use serde_json::json;

use crate::{RECOVERED, network, plan};

#[test]
fn a_password_is_asked_for_and_a_wrong_one_is_said_to_be() {
    let etcd = Etcd::prepare(network::PASSWORD, 1).unwrap().start().unwrap();
    let ask = |path: &str, question: serde_json::Value| etcd.ask(path, &question).unwrap();
    ask("/v3/auth/role/add", json!({"name": "root"}));
    ask("/v3/auth/role/add", json!({"name": "peers"}));
    let prefix = json!({
        "permType": "READWRITE", "key": base64(b"/gubernator-peers"), "range_end": base64(b"/gubernator-peert"),
    });
    ask("/v3/auth/role/grant", json!({"name": "peers", "perm": prefix}));
    for (name, role) in [("root", "root"), ("flyball", "peers"), ("stranger", "")] {
        ask("/v3/auth/user/add", json!({"name": name, "password": format!("{name}-secret")}));
        if !role.is_empty() {
            ask("/v3/auth/user/grant", json!({"user": name, "role": role}));
        }
    }
    ask("/v3/auth/enable", json!({}));

    let user = |name: &str, password: &str| {
        plan(network::PASSWORD, 2, &etcd)
            .found_by(&[("GUBER_ETCD_USER", name), ("GUBER_ETCD_PASSWORD", password)])
            .prepare()
            .unwrap()
    };
    for (name, password, words) in [
        ("flyball", "wrong-secret", "correct GUBER_ETCD_USER and GUBER_ETCD_PASSWORD"),
        ("stranger", "stranger-secret", "needs to read and write all keys with the prefix"),
        ("", "", "set GUBER_ETCD_USER and GUBER_ETCD_PASSWORD"),
    ] {
        let mut cluster = user(name, password);
        cluster.start_again(0).unwrap();
        cluster.says_missing(0, words);
        assert!(!cluster.logs().contains("-secret"), "{}", cluster.logs());
    }
    let mut cluster = user("flyball", "flyball-secret");
    cluster.start_again(0).unwrap();
    cluster.start_again(1).unwrap();
    cluster.all_know(&[0, 1], 2, Duration::from_secs(20));
    cluster.terminate(1).unwrap();
    cluster.ended(1).unwrap();
    cluster.all_know(&[0], 1, RECOVERED);
}

/// An authority, and certificates from it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate for this name and its key.
    fn issue(&self, folder: &std::path::Path, file: &str, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let path = |end: &str| folder.join(format!("{file}.{end}")).to_str().unwrap().to_owned();
        fs::write(path("pem"), certificate.pem()).unwrap();
        fs::write(path("key"), key.serialize_pem()).unwrap();
        (path("pem"), path("key"))
    }

    fn write(&self, folder: &std::path::Path, file: &str) -> String {
        let path = folder.join(file).to_str().unwrap().to_owned();
        fs::write(&path, self.0.pem()).unwrap();
        path
    }
}

#[test]
fn certificates_are_verified_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (good, other) = (Authority::new("good"), Authority::new("other"));
    let ca = good.write(folder.path(), "ca.pem");
    let other_ca = other.write(folder.path(), "other-ca.pem");
    let (cert, key) = good.issue(folder.path(), "server", &format!("127.40.{}.1", network::TLS));
    let (client_cert, client_key) = good.issue(folder.path(), "client", "node");
    let (strange_cert, strange_key) = other.issue(folder.path(), "strange", "node");
    let arguments = [
        format!("--cert-file={cert}"),
        format!("--key-file={key}"),
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={ca}"),
    ];
    let etcd = Etcd::prepare(network::TLS, 1).unwrap().secure(&arguments).start().unwrap();
    let with = |pairs: &[(&str, &str)], originals: usize| -> Plan {
        plan(network::TLS, 3, &etcd).originals(originals).found_by(pairs)
    };
    let shown = [("GUBER_ETCD_TLS_CERT", client_cert.as_str()), ("GUBER_ETCD_TLS_KEY", client_key.as_str())];
    let strange =
        [("GUBER_ETCD_TLS_CERT", strange_cert.as_str()), ("GUBER_ETCD_TLS_KEY", strange_key.as_str())];
    let verified = [("GUBER_ETCD_TLS_CA", ca.as_str())];
    let wrongly = [("GUBER_ETCD_TLS_CA", other_ca.as_str())];
    for (pairs, words) in [
        ([&shown[..], &wrongly].concat(), "invalid peer certificate: UnknownIssuer"),
        (verified.to_vec(), "ertificate"),
        ([&strange[..], &verified].concat(), "127.40.70.1:2379"),
        (Vec::new(), "127.40.70.1:2379"),
    ] {
        let mut cluster = with(&pairs, 0).prepare().unwrap();
        cluster.start_again(0).unwrap();
        cluster.says_missing(0, words);
    }
    // Ours, and an original that is told the same.
    let mut cluster = with(&[&shown[..], &verified].concat(), 1).start().unwrap();
    cluster.all_know(&[0, 1, 2], 3, RECOVERED);
    drop(cluster);
    // Not verified, as the original is told not to; the keys of the others are still there until their leases end.
    let skip = [("GUBER_ETCD_TLS_SKIP_VERIFY", "true")];
    let mut cluster = with(&[&shown[..], &wrongly, &skip].concat(), 0).prepare().unwrap();
    cluster.start_again(0).unwrap();
    let found = poll(Duration::from_secs(20), || {
        (cluster.node(0).metric("flyball_discovery_peers{source=\"etcd\"}").ok()? > 0.5).then_some(())
    });
    assert!(found.is_some(), "{}", cluster.logs());
}
