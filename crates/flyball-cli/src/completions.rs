//! `flyball completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output;

/// Print the completion script of a shell
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

const HELP: &str = "\
Examples:
  flyball completions bash > /etc/bash_completion.d/flyball
  flyball completions zsh  > \"${fpath[1]}/_flyball\"
  flyball completions fish > ~/.config/fish/completions/flyball.fish";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "flyball", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
