//! Tells the binary the commit it is built from: the variable `FLYBALL_COMMIT`, else what git says, else nothing.
//! A build without git, or of sources without a repository, is a good build.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=FLYBALL_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // Only the repository of these sources: unpacked into somebody else's, git would name that one's commit.
    if std::env::var_os("FLYBALL_COMMIT").is_some() || !Path::new("../../.git").exists() {
        return;
    }
    // Where HEAD points, and where that is kept: a commit changes one of them.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in [Some("HEAD"), branch.as_deref(), Some("packed-refs")].into_iter().flatten() {
        // A file that is not there would make every build run this again.
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) {
        println!("cargo::rustc-env=FLYBALL_COMMIT={commit}");
    }
}

/// What git prints, when it can.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
