//! The suites, cheapest and likeliest to fail first.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use crate::fuzz;
use crate::process::{capture, cargo, root, run};
use crate::sim;
use crate::tools::{Tool, Toolbox};

/// One step of `cargo xtask test`.
#[derive(Debug)]
pub struct Suite {
    /// What `--only` calls it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Installed meanwhile, in the order of the suites.
    pub tools: &'static [Tool],
    /// Runs it.
    pub run: fn(&Toolbox) -> Result<()>,
}

/// All of them, in the order they run.
pub static SUITES: &[Suite] = &[
    Suite {
        name: "fmt",
        about: "every file is formatted and the lock files are current (cargo xtask fix)",
        tools: &[],
        run: fmt,
    },
    Suite {
        name: "core",
        about: "the core builds without std: no clock, socket, file or thread in reach",
        tools: &[],
        run: core_without_std,
    },
    Suite { name: "lints", about: "clippy on all targets, warnings are errors", tools: &[], run: lints },
    Suite {
        name: "deny",
        about: "licences, bans and sources of all dependencies (advisories need a network and are left out)",
        tools: &[Tool::CargoDeny],
        run: deny,
    },
    Suite {
        name: "tests",
        about: "all hermetic tests, those in the documentation included",
        tools: &[],
        run: hermetic_tests,
    },
    Suite {
        name: "shuttle",
        about: "the store's locks under random interleavings",
        tools: &[],
        run: shuttle,
    },
    Suite {
        name: "sim",
        about: "500 simulated clusters that nobody has seen before",
        tools: &[],
        run: simulations,
    },
    Suite { name: "docs", about: "the documentation builds and its links hold", tools: &[], run: docs },
    Suite {
        name: "real",
        about: "recorded answers, real clients and real components against the running binary",
        tools: &[
            Tool::Curl,
            Tool::Openssl,
            Tool::Chromium,
            Tool::Python,
            Tool::Gubernator,
            Tool::Etcd,
            Tool::EtcdOld,
            Tool::Gubernator213,
            Tool::Grpcurl,
            Tool::GoClient,
            Tool::Jaeger,
        ],
        run: real,
    },
    Suite {
        name: "deploy",
        about: "what deploys a node, each by its own tool: chart, units, container files, rules, dashboard",
        tools: &[Tool::Prometheus, Tool::Systemd, Tool::DeployCheck, Tool::Helm],
        run: deploy,
    },
    Suite {
        name: "fuzz",
        about: "each fuzz target for a minute",
        tools: &[Tool::Nightly, Tool::CargoFuzz],
        run: fuzz_targets,
    },
    // Last, so that what it needs has been built meanwhile.
    Suite {
        name: "kubernetes",
        about: "a real Kubernetes API server: finding peers beside the original, and all manifests",
        tools: &[Tool::Etcd, Tool::Gubernator, Tool::Helm, Tool::Crds, Tool::Kubernetes],
        run: kubernetes,
    },
];

/// The one list of features, so that suites share what they build.
const WITH_REAL: [&str; 3] = ["--workspace", "--features", "flyball-tests/real_kubernetes"];

fn fmt(_: &Toolbox) -> Result<()> {
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        capture(&mut cargo(["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest]))?;
    }
    Ok(())
}

fn core_without_std(_: &Toolbox) -> Result<()> {
    run(&mut cargo(["check", "--package", "flyball-core", "--no-default-features"]))
}

fn lints(_: &Toolbox) -> Result<()> {
    const DENY: [&str; 4] = ["--all-targets", "--", "-D", "warnings"];
    run(cargo(["clippy"]).args(WITH_REAL).args(DENY))?;
    // Swaps the locks, so it is another program.
    run(cargo(["clippy", "--package", "flyball-core", "--features", "shuttle"]).args(DENY))
}

fn deny(toolbox: &Toolbox) -> Result<()> {
    let program = toolbox.path(Tool::CargoDeny, "CARGO_DENY")?;
    let mut command = std::process::Command::new(program);
    command.current_dir(root()).args(["--all-features", "check", "--hide-inclusion-graph"]);
    run(command.args(["licenses", "bans", "sources"]))
}

fn hermetic_tests(_: &Toolbox) -> Result<()> {
    run(&mut cargo(["test", "--workspace", "--no-fail-fast"]))
}

fn shuttle(_: &Toolbox) -> Result<()> {
    run(&mut cargo(["test", "--package", "flyball-core", "--features", "shuttle", "--test", "shuttle"]))
}

fn simulations(_: &Toolbox) -> Result<()> {
    sim::fresh(500)
}

fn docs(_: &Toolbox) -> Result<()> {
    // Libraries only: the binary's pages would overwrite those of the library of the same name. With private
    // items, since the story of a file links to what it is about.
    let pages = ["doc", "--workspace", "--lib", "--no-deps", "--document-private-items"];
    run(cargo(pages).env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"))
}

fn real(toolbox: &Toolbox) -> Result<()> {
    // All but those that a suite of their own has: cargo has no way to say "but".
    let targets = real_targets()?.into_iter().filter(|name| name != "real_kubernetes").collect::<Vec<_>>();
    with_tools(toolbox, "real", &targets)
}

fn deploy(toolbox: &Toolbox) -> Result<()> {
    with_tools(toolbox, "deploy", &["deploy_tools"])
}

fn kubernetes(toolbox: &Toolbox) -> Result<()> {
    with_tools(toolbox, "kubernetes", &["real_kubernetes", "deploy_kubernetes"])
}

/// Runs the tests of these targets, told where the daemon and the tools of the suite are.
fn with_tools(toolbox: &Toolbox, suite: &str, targets: &[impl AsRef<str>]) -> Result<()> {
    let flyball = built_flyball()?;
    let mut command = cargo(["test", "--no-fail-fast"]);
    // With the workspace and not alone: the same features of the dependencies, so nothing is built twice.
    command.args(WITH_REAL);
    for target in targets {
        command.args(["--test", target.as_ref()]);
    }
    command.env("FLYBALL_TEST_FLYBALL", flyball);
    command.env("FLYBALL_TEST_REPLAY", root().join("crates/flyball-tests/testdata/conformance/replay"));
    for suite in SUITES.iter().filter(|it| it.name == suite) {
        for tool in suite.tools {
            for (name, path) in toolbox.paths(*tool)? {
                command.env(format!("FLYBALL_TEST_{name}"), path);
            }
        }
    }
    run(&mut command)
}

/// The tests of `flyball-tests` that need programs from outside Cargo.
fn real_targets() -> Result<Vec<String>> {
    let folder = root().join("crates/flyball-tests/tests");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .filter(|name| name.starts_with("real_"))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// The daemon, built as the hermetic tests build it.
fn built_flyball() -> Result<PathBuf> {
    let build =
        ["build", "--profile", "test", "--bin", "flyball", "--message-format", "json-render-diagnostics"];
    let messages = capture(cargo(build).args(WITH_REAL)).context("the daemon does not build")?;
    executable(&messages, "flyball").ok_or_else(|| anyhow!("cargo built no executable named flyball"))
}

/// Where cargo put the executable, from its messages.
pub fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut built = parsed.filter(|message| message["target"]["name"] == name);
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn fuzz_targets(toolbox: &Toolbox) -> Result<()> {
    toolbox.paths(Tool::Nightly)?;
    let cargo_fuzz = toolbox.path(Tool::CargoFuzz, "CARGO_FUZZ")?;
    fuzz::all(&cargo_fuzz, 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_the_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"flyball"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"flyball"},"executable":"/t/debug/flyball"}"#,
            "\nnot json\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, "flyball"), Some(PathBuf::from("/t/debug/flyball")));
        assert_eq!(executable(messages, "floor"), None);
    }

    #[test]
    fn names_of_suites_are_distinct() {
        let mut names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SUITES.len());
    }
}
