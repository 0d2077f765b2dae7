//! `flyball version`.

use crate::exit::Exit;
use crate::output;

/// Print the version, the commit it was built from where that is known, and the platform
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Given by whoever builds a release, else what `build.rs` finds; a build of plain sources does not know.
const COMMIT: Option<&str> = option_env!("FLYBALL_COMMIT");

/// Version, commit and platform in words, as `--version` prints them after the name.
pub(crate) fn line() -> String {
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("{VERSION} (commit {}, {os}/{arch})", COMMIT.unwrap_or("unknown"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    output::line(&if args.json {
        let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
        serde_json::json!({ "version": VERSION, "commit": COMMIT, "arch": arch, "os": os }).to_string()
    } else {
        format!("flyball {}", line())
    })?;
    Ok(Exit::Success)
}
