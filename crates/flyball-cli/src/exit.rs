//! How the process ends: the one place that knows exit codes.

use std::fmt;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use flyball_server::config::ConfigError;
use flyball_server::daemon;

use crate::output;

/// The ways to end without an error. An error ends with 1, one in the command line with 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; for `check` granted, for `healthcheck` healthy.
    Success,
    /// No verdict or no start, and the reason has been printed.
    Failure,
    /// `config`: not valid and the mistakes have been printed; 1, or 2 when the command line is to blame.
    Invalid(u8),
    /// `serve`: how the daemon's run ended.
    Stopped(daemon::Exit),
    /// `healthcheck`: the node answered that it is not healthy.
    Unhealthy,
    /// `check`: refused.
    Refused,
    /// `check`: no wait would ever admit it.
    NeverFits,
    /// `check`: charged now, to be acted on later.
    Scheduled,
}

impl Exit {
    const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Invalid(code) => code,
            Self::Stopped(end) => end.code(),
            Self::Unhealthy => 2,
            Self::Refused => 3,
            Self::NeverFits => 4,
            Self::Scheduled => 5,
        }
    }
}

/// An error in the command line that clap's own rules cannot express: `command` names the subcommand whose
/// usage is shown.
pub(crate) fn usage(command: &str, message: impl fmt::Display) -> anyhow::Error {
    let mut cli = crate::Cli::command();
    cli.build();
    let error = match cli.find_subcommand_mut(command) {
        Some(subcommand) => subcommand.error(ErrorKind::ArgumentConflict, message),
        None => cli.error(ErrorKind::ArgumentConflict, message),
    };
    error.into()
}

/// Prints what is left to say and turns the outcome into the process's exit code.
pub(crate) fn finish(outcome: anyhow::Result<Exit>) -> ExitCode {
    let error = match outcome {
        Ok(exit) => return ExitCode::from(exit.code()),
        Err(error) => error,
    };
    // Includes --help and --version, which clap treats as errors with exit code 0.
    if let Some(error) = error.downcast_ref::<clap::Error>() {
        // Nothing can be done about a standard output that cannot be written to.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
    }
    output::error(&format!("{error:#}"));
    let configuration = error.downcast_ref::<ConfigError>();
    ExitCode::from(configuration.map_or(Exit::Failure.code(), ConfigError::exit_code))
}
