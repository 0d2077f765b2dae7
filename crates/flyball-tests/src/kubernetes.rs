//! A real Kubernetes API server with its etcd, in a network of its own, without anything else of a cluster: no kubelet
//! runs pods and no controller makes slices, so a test writes those itself, and exactly those. It is asked and changed by
//! `kubectl`.
//!
//! Slices take no loopback addresses, so all of it lives in a network namespace where `lo` has others: [`alone`] runs a
//! test in one. The credentials of a pod are where a pod has them, in a mount namespace that only the test sees.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::clean;
use crate::etcd::Etcd;
use crate::process::Process;
use crate::tools::Tool;
use crate::wait::poll;

/// An API server that is not ready by then hangs.
const READY: Duration = Duration::from_secs(60);

/// Some of the server's own informers never end where a kind of object is switched off.
const READYZ: &str = "/readyz?exclude=informer-sync";

/// Where the API server is.
pub const HOST: &str = "10.88.0.100";
/// Its port.
pub const PORT: &str = "6443";

/// Where a pod has its credentials.
const POD_SECRETS: &str = "/run/secrets/kubernetes.io/serviceaccount";

/// Says to the copy of the test program that it is in its namespace.
const INSIDE: &str = "FLYBALL_TEST_INSIDE";

/// One at a time: an API server needs a whole processor to start.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` in a namespace of its own, by running this very program again for the test of this name.
///
/// # Panics
/// When the test fails.
#[track_caller]
pub fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        prepare().unwrap_or_else(|error| panic!("{error:#}"));
        return test();
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--map-root-user"]).arg(program);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = format!("{}{}", said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{name} failed in its namespace:\n{text}");
    assert!(text.contains("1 passed"), "{name} is no test of this program:\n{text}");
}

/// Addresses for ten pods in both families, and a folder where a pod has its credentials.
fn prepare() -> anyhow::Result<()> {
    let mut script = "ip link set lo up\nmount -t tmpfs none /run\n".to_owned();
    script.push_str(&format!("mkdir -p {POD_SECRETS}\nip addr add {HOST}/32 dev lo\n"));
    for pod in 1..=9 {
        script.push_str(&format!("ip addr add 10.88.0.{pod}/32 dev lo\n"));
        script.push_str(&format!("ip -6 addr add fd00:88::{pod}/128 dev lo nodad\n"));
    }
    let output = Command::new("sh").args(["-ec", &script]).output()?;
    ensure!(output.status.success(), "no network: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A running API server. Dropping it kills it, and after it its etcd, without which it would hang: fields are dropped in
/// their order.
#[derive(Debug)]
pub struct ApiServer {
    process: Process,
    folder: TempDir,
    _etcd: Etcd,
}

impl ApiServer {
    /// Starts one, with more arguments, and waits until it is ready.
    pub fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let etcd = Etcd::prepare(250, 1)?.start()?;
        let folder = tempfile::tempdir()?;
        let file = |name: &str, text: &str| -> anyhow::Result<String> {
            let path = folder.path().join(name);
            fs::write(&path, text)?;
            Ok(path.to_str().context("a path that is text")?.to_owned())
        };
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![HOST.to_owned()])?.signed_by(&key, &authority)?;
        let accounts = KeyPair::generate()?;
        let (ca, cert) = (file("ca.crt", &authority.pem())?, file("server.crt", &certificate.pem())?);
        let key = file("server.key", &key.serialize_pem())?;
        let sa_key = file("sa.key", &accounts.serialize_pem())?;
        let sa_pub = file("sa.pub", &accounts.public_key_pem())?;
        let tokens = file(
            "tokens.csv",
            "admin-token,admin,1,system:masters\n\
             pod-token,system:serviceaccount:default:flyball,2,system:serviceaccounts\n",
        )?;
        for (name, token) in [("admin", "admin-token"), ("pod", "pod-token")] {
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "it",
                "clusters": [{"name": "it", "cluster": {
                    "server": format!("https://{HOST}:{PORT}"), "certificate-authority": ca,
                }}],
                "users": [{"name": "it", "user": {"token": token}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            });
            file(&format!("{name}.kubeconfig"), &config.to_string())?;
        }
        for (name, text) in [("token", "pod-token"), ("namespace", "default"), ("ca.crt", &authority.pem())] {
            fs::write(Path::new(POD_SECRETS).join(name), text)?;
        }
        let mut all = vec![
            format!("--etcd-servers=http://{}", etcd.endpoints()),
            format!("--bind-address={HOST}"),
            format!("--advertise-address={HOST}"),
            format!("--secure-port={PORT}"),
            format!("--tls-cert-file={cert}"),
            format!("--tls-private-key-file={key}"),
            format!("--service-account-key-file={sa_pub}"),
            format!("--service-account-signing-key-file={sa_key}"),
            format!("--token-auth-file={tokens}"),
        ];
        let fixed = [
            "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ];
        all.extend(fixed.iter().chain(arguments).map(|&argument| argument.to_owned()));
        let mut command = clean(&Tool::KubeApiserver.path());
        command.args(all).current_dir(folder.path());
        let process = Process::start(command, folder.path().join("log"))?;
        let server = Self { process, folder, _etcd: etcd };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts it after it was killed, and waits until it is ready.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.process.start_again()?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        let mut last = String::new();
        let ready = poll(READY, || match self.kubectl(&["get", "--raw", READYZ], None) {
            Ok(_) => Some(()),
            Err(error) => {
                last = format!("{error:#}");
                None
            }
        });
        ready.with_context(|| format!("the API server is not ready: {last}\n{}", self.process.log()))
    }

    /// Kills it; on SIGTERM it would wait for its clients.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Lets the account of the pods list and watch what they need to.
    pub fn allow_pods(&self) -> anyhow::Result<()> {
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let verbs = ["list", "watch"];
        self.create(
            &format!("{rbac}/roles"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "flyball"},
                "rules": [
                    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
                    {"apiGroups": [""], "resources": ["endpoints", "pods"], "verbs": verbs},
                ],
            }),
        )?;
        self.create(
            &format!("{rbac}/rolebindings"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "flyball"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "flyball"},
                "subjects": [{"kind": "ServiceAccount", "name": "flyball", "namespace": "default"}],
            }),
        )
    }

    /// Makes an object of this collection.
    pub fn create(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        self.kubectl(&["create", "--raw", path, "-f", "-"], Some(&object.to_string())).map(drop)
    }

    /// Puts this in the place of an object.
    pub fn replace(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        self.kubectl(&["replace", "--raw", path, "-f", "-"], Some(&object.to_string())).map(drop)
    }

    /// Takes an object away, or all of a collection.
    pub fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.kubectl(&["delete", "--raw", path], None).map(drop)
    }

    /// Makes known the kinds of objects that are defined in this folder, and waits until they are.
    pub fn define(&self, folder: &Path) -> anyhow::Result<()> {
        let folder = folder.to_str().context("a path that is text")?;
        self.kubectl(&["create", "-f", folder], None)?;
        self.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "-f", folder], None).map(drop)
    }

    /// Lets the server judge objects as if they were to be there, unknown and repeated fields included: what it says of
    /// each.
    ///
    /// # Errors
    /// Why it would not take them.
    pub fn judge(&self, manifests: &str, namespace: &str) -> anyhow::Result<String> {
        let arguments =
            ["apply", "--namespace", namespace, "--dry-run=server", "--validate=strict", "-f", "-"];
        self.kubectl(&arguments, Some(manifests))
    }

    /// A kubeconfig with the credentials of the pods.
    pub fn pod_kubeconfig(&self) -> PathBuf {
        self.folder.path().join("pod.kubeconfig")
    }

    fn kubectl(&self, arguments: &[&str], input: Option<&str>) -> anyhow::Result<String> {
        let mut command = clean(&Tool::Kubectl.path());
        command.arg("--kubeconfig").arg(self.folder.path().join("admin.kubeconfig")).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
