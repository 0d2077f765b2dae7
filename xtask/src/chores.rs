//! The chores that change files. What they write is compared by tests, so forgetting one is noticed.

use anyhow::Result;

use crate::process::{cargo, run};
use crate::seeds;

/// Formats, mends, and brings the lock file of the fuzz targets up to the workspace's manifests.
pub fn fix() -> Result<()> {
    let mend = ["clippy", "--workspace", "--all-targets", "--features", "flyball-tests/real", "--fix"];
    run(cargo(mend).args(["--allow-dirty", "--allow-staged"]))?;
    run(&mut cargo(["fmt", "--all"]))?;
    run(&mut cargo(["fmt", "--manifest-path", "fuzz/Cargo.toml"]))?;
    run(&mut cargo(["update", "--workspace", "--manifest-path", "fuzz/Cargo.toml"]))
}

/// Writes the generated protobuf code.
pub fn codegen() -> Result<()> {
    run(cargo(["test", "--package", "flyball-proto", "--test", "generated"]).env(BLESS, "1"))
}

/// Writes what is derived from the code: each crate's tests compare it and, told to, write it.
pub fn reference() -> Result<()> {
    seeds::write()?;
    let blessed = ["test", "--package", "flyball-server", "--package", "flyball-cli"];
    run(cargo(blessed).env(BLESS, "1"))?;
    // The migration guide has a table of it too.
    run(cargo(["test", "--package", "flyball-tests", "--test", "deploy"]).env(BLESS, "1"))
}

/// Tells a test that compares a committed file to write it instead.
const BLESS: &str = "FLYBALL_BLESS";
