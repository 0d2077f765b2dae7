//! How each tool is installed. Every version is pinned here or in `tools/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::cache::{fingerprint, kept};
use super::{Paths, Tool};
use crate::process::{Background, capture, find_on_path, root, run_quiet_ok};

const CARGO_DENY: &str = "0.20.2";
const CARGO_FUZZ: &str = "0.13.2";
const GRPCURL: &str = "1.9.4";
const HELM: &str = "3.22.0";
/// The release that the wire, the algorithms and all recorded answers follow.
const GUBERNATOR: &str = "2.21.0";
/// A release that clusters still run, which knows neither `max_wait` nor calendar weeks.
const GUBERNATOR_OLD: &str = "2.13.0";
/// Definitions of the objects that our chart makes for operators: the module, its version and sum, and the files.
const CRDS: [(&str, &str, &str, &[&str]); 2] = [
    (
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        &[
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        ],
    ),
    (
        "github.com/kedacore/keda/v2",
        "v2.21.0",
        "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
        &["config/crd/bases/keda.sh_scaledobjects.yaml"],
    ),
];
/// Builds every Go tool, whatever Go the machine has: Gubernator 2.21.0 demands it, and one toolchain means one
/// build of Go's own library.
const GO_TOOLCHAIN: &str = "go1.27.3";

/// What the API server says its version is, which it learns when it is linked; that of `tools/go/kubernetes/go.mod`.
const KUBERNETES_FLAGS: &str = "-X k8s.io/component-base/version.gitVersion=v1.37.2 \
     -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37";

/// Where an install puts things and writes to.
pub struct Recipe<'a> {
    pub cache: &'a Path,
    pub background: &'a Background,
    pub log: &'a Path,
}

impl Recipe<'_> {
    /// Makes sure the tool is there and says where.
    pub fn install(&self, tool: Tool) -> Result<Paths> {
        match tool {
            Tool::CargoDeny => self.cargo_install("cargo-deny", CARGO_DENY, "CARGO_DENY"),
            Tool::CargoFuzz => self.cargo_install("cargo-fuzz", CARGO_FUZZ, "CARGO_FUZZ"),
            Tool::Nightly => self.nightly(),
            Tool::H2load => self.apt("h2load", "nghttp2-client", "H2LOAD"),
            Tool::Curl => self.apt("curl", "curl", "CURL"),
            Tool::Openssl => self.apt("openssl", "openssl", "OPENSSL"),
            Tool::Chromium => self.chromium(),
            Tool::Python => self.python(),
            Tool::Gubernator => self.gubernator(),
            Tool::Gubernator213 => self.old_gubernator(),
            Tool::Etcd => self.go_module("etcd", &[("go.etcd.io/etcd/server/v3", "etcd", "ETCD")], ""),
            Tool::EtcdOld => self.apt("etcd", "etcd-server", "ETCD_OLD"),
            Tool::Kubernetes => self.go_module(
                "kubernetes",
                &[
                    ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver", "KUBE_APISERVER"),
                    ("k8s.io/kubernetes/cmd/kubectl", "kubectl", "KUBECTL"),
                ],
                KUBERNETES_FLAGS,
            ),
            Tool::Grpcurl => self.grpcurl(),
            Tool::GoClient => self.go_module("client", &[(".", "goclient", "GOCLIENT")], ""),
            Tool::Helm => self.helm(),
            Tool::Prometheus => {
                let mut paths = self.apt("promtool", "prometheus", "PROMTOOL")?;
                paths.append(&mut self.apt("prometheus", "prometheus", "PROMETHEUS")?);
                Ok(paths)
            }
            Tool::Systemd => self.apt("systemd-analyze", "systemd", "SYSTEMD_ANALYZE"),
            Tool::DeployCheck => self.go_module("deploy", &[(".", "deploycheck", "DEPLOYCHECK")], ""),
            Tool::Crds => self.crds(),
            Tool::Jaeger => {
                let package = "github.com/jaegertracing/jaeger/cmd/jaeger";
                self.go_module("jaeger", &[(package, "jaeger", "JAEGER")], "")
            }
        }
    }

    fn cargo_install(&self, name: &str, version: &str, key: &'static str) -> Result<Paths> {
        let folder = kept(self.cache, &format!("{name}-{version}"), |fresh| {
            let mut command = Command::new("cargo");
            command.args(["install", "--locked", "--quiet", "--version", version, name]);
            // Its own build folder, removed with the temporary one: the workspace's would be locked by it.
            command.arg("--root").arg(fresh).arg("--target-dir").arg(fresh.join("target"));
            self.run(&mut command)?;
            Ok(std::fs::remove_dir_all(fresh.join("target"))?)
        })?;
        one(key, folder.join("bin").join(name))
    }

    fn nightly(&self) -> Result<Paths> {
        let works = || run_quiet_ok(Command::new("cargo").args(["+nightly", "--version"]));
        if !works() {
            let mut install = Command::new("rustup");
            install.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
            self.run(&mut install).context("the fuzz targets need a nightly toolchain, through rustup")?;
        }
        Ok(Paths::new())
    }

    fn apt(&self, program: &str, package: &str, key: &'static str) -> Result<Paths> {
        if find_on_path(program).is_none() {
            self.apt_install(package)?;
        }
        match find_on_path(program) {
            Some(path) => one(key, path),
            None => bail!("{package} is installed, and there is still no {program} on the PATH"),
        }
    }

    fn chromium(&self) -> Result<Paths> {
        if find_on_path("chromium").is_none() {
            // Without a font the page is a page of boxes.
            self.apt_install("fonts-dejavu-core")?;
        }
        self.apt("chromium", "chromium", "CHROMIUM")
    }

    fn apt_install(&self, package: &str) -> Result<()> {
        let by_hand = format!("install it and run again: apt-get install {package}");
        if find_on_path("apt-get").is_none() {
            bail!("there is no apt-get here; {by_hand} (or what this system calls it)");
        }
        if capture(Command::new("id").arg("-u"))?.trim() != "0" {
            bail!("only root can run apt-get; {by_hand}");
        }
        let install = || {
            let mut command = Command::new("apt-get");
            command.args(["install", "--yes", "--no-install-recommends", package]);
            command.env("DEBIAN_FRONTEND", "noninteractive");
            self.run(&mut command)
        };
        // A list that is out of date names packages that are gone; a fresh machine has none.
        install().or_else(|_| self.run(Command::new("apt-get").arg("update")).and_then(|()| install()))
    }

    fn gubernator(&self) -> Result<Paths> {
        let folder = kept(self.cache, &format!("gubernator-{GUBERNATOR}"), |fresh| {
            self.original(GUBERNATOR, &["gubernator", "gubernator-cli"], fresh)
        })?;
        let mut paths = one("GUBERNATOR", folder.join("bin/gubernator"))?;
        paths.append(&mut one("GUBERNATOR_CLI", folder.join("bin/gubernator-cli"))?);
        Ok(paths)
    }

    fn old_gubernator(&self) -> Result<Paths> {
        let folder = kept(self.cache, &format!("gubernator-{GUBERNATOR_OLD}"), |fresh| {
            self.original(GUBERNATOR_OLD, &["gubernator"], fresh)
        })?;
        one("GUBERNATOR_213", folder.join("bin/gubernator"))
    }

    /// Programs of one release of the original.
    fn original(&self, version: &str, programs: &[&str], fresh: &Path) -> Result<()> {
        let package = |name| format!("github.com/gubernator-io/gubernator/v2/cmd/{name}@v{version}");
        let mut command = go()?;
        command.arg("install").args(programs.iter().map(package)).env("GOBIN", fresh.join("bin"));
        self.run(&mut command)
    }

    fn grpcurl(&self) -> Result<Paths> {
        let folder = kept(self.cache, &format!("grpcurl-{GRPCURL}"), |fresh| {
            let package = format!("github.com/fullstorydev/grpcurl/cmd/grpcurl@v{GRPCURL}");
            self.run(go()?.args(["install", &package]).env("GOBIN", fresh.join("bin")))
        })?;
        one("GRPCURL", folder.join("bin/grpcurl"))
    }

    fn helm(&self) -> Result<Paths> {
        let folder = kept(self.cache, &format!("helm-{HELM}"), |fresh| {
            let package = format!("helm.sh/helm/v3/cmd/helm@v{HELM}");
            self.run(go()?.args(["install", &package]).env("GOBIN", fresh.join("bin")))
        })?;
        one("HELM", folder.join("bin/helm"))
    }

    /// Files out of modules that are not built. The sum makes sure that a version stays what it was.
    fn crds(&self) -> Result<Paths> {
        let versions: Vec<_> = CRDS.iter().map(|(_, version, ..)| *version).collect();
        let folder = kept(self.cache, &format!("crds-{}", versions.join("-")), |fresh| {
            std::fs::create_dir(fresh.join("crds"))?;
            for (module, version, sum, files) in CRDS {
                let mut download = go()?;
                // Outside of any module, so that no go.mod is looked at or changed.
                download.current_dir(fresh).args([
                    "mod",
                    "download",
                    "-json",
                    &format!("{module}@{version}"),
                ]);
                let told: serde_json::Value = serde_json::from_str(&capture(&mut download)?)?;
                if told["Sum"] != sum {
                    bail!("{module} {version} has the sum {}, and had {sum}", told["Sum"]);
                }
                let module = Path::new(told["Dir"].as_str().context("a folder")?);
                for file in files {
                    let from = module.join(file);
                    let to = fresh.join("crds").join(from.file_name().context("a name")?);
                    std::fs::copy(&from, to).with_context(|| format!("copying {}", from.display()))?;
                }
            }
            Ok(())
        })?;
        one("CRDS", folder.join("crds"))
    }

    /// Builds packages of the pinned module `tools/go/<module>`, anew when the module changes. Each is given with the
    /// name of its program and the variable that says where it is; the first names the folder.
    fn go_module(&self, module: &str, packages: &[(&str, &str, &'static str)], flags: &str) -> Result<Paths> {
        let sources = root().join("tools/go").join(module);
        let print = fingerprint(std::slice::from_ref(&sources), &format!("{GO_TOOLCHAIN}{flags}"))?;
        let first = packages.first().map_or(module, |(_, program, _)| program);
        let folder = kept(self.cache, &format!("{first}-{print}"), |fresh| {
            packages.iter().try_for_each(|(package, program, _)| {
                let mut command = go()?;
                command.arg("-C").arg(&sources).args(["build", "-ldflags", &format!("-s -w {flags}"), "-o"]);
                self.run(command.arg(fresh.join("bin").join(program)).arg(package))
            })
        })?;
        let mut paths = Paths::new();
        for (_, program, key) in packages {
            paths.append(&mut one(key, folder.join("bin").join(program))?);
        }
        Ok(paths)
    }

    /// A virtual environment with grpcio, and the client code that protoc makes from our `.proto` files.
    fn python(&self) -> Result<Paths> {
        let requirements = root().join("tools/python/requirements.txt");
        let protos = root().join("crates/flyball-proto/proto");
        let version = capture(Command::new("python3").arg("--version"))
            .context("Python 3 is needed; install it and run again: apt-get install python3 python3-venv")?;
        if !run_quiet_ok(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
            self.apt_install("python3-venv")?;
        }
        let print = fingerprint(&[requirements.clone(), protos.clone()], &version)?;
        let folder = kept(self.cache, &format!("python-{print}"), |fresh| {
            self.run(Command::new("python3").args(["-m", "venv"]).arg(fresh.join("venv")))?;
            let python = fresh.join("venv/bin/python");
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"]);
            self.run(pip.arg(&requirements))?;
            let stubs = fresh.join("stubs");
            std::fs::create_dir(&stubs)?;
            let out = |option: &str| format!("--{option}={}", stubs.display());
            let mut protoc = Command::new(&python);
            protoc.args(["-m", "grpc_tools.protoc", "-I"]).arg(&protos);
            protoc.args([out("python_out"), out("grpc_python_out")]);
            self.run(protoc.args(["gubernator.proto", "peers.proto"]))
        })?;
        let mut paths = one("PYTHON", folder.join("venv/bin/python"))?;
        paths.append(&mut one("PYSTUBS", folder.join("stubs"))?);
        Ok(paths)
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        self.background.run(command, self.log)
    }
}

fn go() -> Result<Command> {
    if find_on_path("go").is_none() {
        bail!(
            "there is no `go` on the PATH: Go 1.21 or newer is needed (it fetches {GO_TOOLCHAIN} by itself)"
        );
    }
    let mut command = Command::new("go");
    command.env("GOTOOLCHAIN", GO_TOOLCHAIN);
    Ok(command)
}

/// One path under its name. A kept folder that lost its content is said, not used.
fn one(key: &'static str, path: PathBuf) -> Result<Paths> {
    if !path.exists() {
        bail!("{} is missing: remove its folder in the tool cache and run again", path.display());
    }
    Ok(Paths::from([(key, path)]))
}
