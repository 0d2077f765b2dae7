//! Where the programs from outside Cargo are. `cargo xtask test` installs each one and says where in
//! `FLYBALL_TEST_<NAME>`; here a missing one is a failure, never a skipped test.

use std::path::PathBuf;
use std::process::Command;

/// A program that a test needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Our own binary.
    Flyball,
    /// The recorded answers' replay tool.
    Replay,
    /// curl.
    Curl,
    /// openssl, for its `s_client`.
    Openssl,
    /// The browser of the admin page.
    Chromium,
    /// grpcurl.
    Grpcurl,
    /// The Go program in `tools/go/client`, which uses the original's own client library.
    GoClient,
    /// A Python with the packages of `tools/python/requirements.txt`.
    Python,
    /// Folder with the Python stubs generated from our protobuf files.
    PyStubs,
    /// Jaeger, the collector of the trace tests.
    Jaeger,
    /// The original server, v2.21.0.
    Gubernator,
    /// An old original server, v2.13.0.
    Gubernator213,
    /// etcd, by which nodes find each other.
    Etcd,
    /// An old etcd, as a distribution has it.
    EtcdOld,
    /// The Kubernetes API server.
    KubeApiserver,
    /// Its client.
    Kubectl,
    /// The original's load tool, v2.21.0.
    GubernatorCli,
    /// Helm.
    Helm,
    /// Prometheus.
    Prometheus,
    /// Its tool for rules.
    Promtool,
    /// systemd's tool for units.
    SystemdAnalyze,
    /// The Go program in `tools/go/deploy`, which has the parsers of container tools.
    DeployCheck,
    /// Folder with the definitions of the objects that the chart makes for operators.
    Crds,
}

impl Tool {
    /// The environment variable that says where it is.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Flyball => "FLYBALL_TEST_FLYBALL",
            Self::Replay => "FLYBALL_TEST_REPLAY",
            Self::Chromium => "FLYBALL_TEST_CHROMIUM",
            Self::Curl => "FLYBALL_TEST_CURL",
            Self::Openssl => "FLYBALL_TEST_OPENSSL",
            Self::Grpcurl => "FLYBALL_TEST_GRPCURL",
            Self::GoClient => "FLYBALL_TEST_GOCLIENT",
            Self::Python => "FLYBALL_TEST_PYTHON",
            Self::PyStubs => "FLYBALL_TEST_PYSTUBS",
            Self::Jaeger => "FLYBALL_TEST_JAEGER",
            Self::Gubernator => "FLYBALL_TEST_GUBERNATOR",
            Self::Gubernator213 => "FLYBALL_TEST_GUBERNATOR_213",
            Self::Etcd => "FLYBALL_TEST_ETCD",
            Self::EtcdOld => "FLYBALL_TEST_ETCD_OLD",
            Self::KubeApiserver => "FLYBALL_TEST_KUBE_APISERVER",
            Self::Kubectl => "FLYBALL_TEST_KUBECTL",
            Self::GubernatorCli => "FLYBALL_TEST_GUBERNATOR_CLI",
            Self::Helm => "FLYBALL_TEST_HELM",
            Self::Prometheus => "FLYBALL_TEST_PROMETHEUS",
            Self::Promtool => "FLYBALL_TEST_PROMTOOL",
            Self::SystemdAnalyze => "FLYBALL_TEST_SYSTEMD_ANALYZE",
            Self::DeployCheck => "FLYBALL_TEST_DEPLOYCHECK",
            Self::Crds => "FLYBALL_TEST_CRDS",
        }
    }

    /// Its path.
    ///
    /// # Panics
    /// Where the variable is missing or names nothing: these tests are not run without their programs.
    pub fn path(self) -> PathBuf {
        let variable = self.variable();
        let path = match std::env::var_os(variable) {
            Some(path) if !path.is_empty() => PathBuf::from(path),
            _ => panic!("{variable} is not set: run `cargo xtask test`, which installs what the tests need"),
        };
        assert!(
            path.exists(),
            "{variable} is {}, which does not exist: run `cargo xtask test`",
            path.display()
        );
        path
    }

    /// A command that runs it.
    pub fn command(self) -> Command {
        Command::new(self.path())
    }
}

/// What a program wrote and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// It ended with exit code 0.
    pub success: bool,
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Standard output of a program that must have ended well.
    ///
    /// # Panics
    /// When it did not; the message holds everything it wrote.
    #[track_caller]
    pub fn expect_success(self) -> String {
        assert!(self.success, "exit code {:?}\n{}\n{}", self.code, self.stdout, self.stderr);
        self.stdout
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> anyhow::Result<Output> {
    use anyhow::Context as _;
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    Ok(Output {
        success: output.status.success(),
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
