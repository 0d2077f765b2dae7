//! `flyball config`: what the daemon would be told, and by whom.

use std::num::NonZero;

use flyball_server::config::{self, ConfigError, Effective, HostFacts, Loaded, PickerHash, ServeArgs};
use serde_json::json;

use crate::exit::Exit;
use crate::{from_env, output};

/// Show the settings `serve` would run with, and where each comes from
///
/// Takes the same flags, files and environment as `serve` and judges them the same way, but starts nothing.
/// Secrets are not shown.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only say whether the configuration is valid; all mistakes are listed
    #[arg(long)]
    validate: bool,
    /// Say what the environment of a running Gubernator means here, variable by variable
    ///
    /// Each variable that is set, what it does, the value in force, and where flyball does something else; then the
    /// defaults that differ, and the same settings as TOML. With --config also the original's file of NAME=value
    /// lines.
    #[arg(long, conflicts_with = "validate")]
    from_env: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: ServeArgs,
}

const HELP: &str = "\
Examples:
  flyball config
  flyball config --validate --config /etc/gubernator.conf
  flyball config --from-env --config /etc/gubernator.conf
  flyball config --json | jq '.settings[] | select(.origin != \"default\")'

JSON: settings [{name, variable, value, origin}], warnings [text], and problems
[{name, value, origin, advice}]. With problems there are no settings. An empty value is none, or is
chosen at start.
With --from-env: variables [{name, value, origin, setting, meaning, in_force, original_default, differs,
refused}], defaults [{name, original, differs}], warnings and problems [text], and toml.

Exit codes:
  0  valid, perhaps with warnings
  1  not valid; all mistakes are listed
  2  the command line makes no sense

Environment:
  every setting has a variable; docs/configuration.md names them";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.from_env {
        return from_env::run(&args.settings, args.json);
    }
    let loaded = config::load(&args.settings, std::env::vars_os(), config::read_file);
    if args.json {
        output::line(&json(&loaded, args.validate).to_string())?;
        return Ok(match loaded {
            Ok(_) => Exit::Success,
            Err(error) => Exit::Invalid(error.exit_code()),
        });
    }
    let loaded = loaded?;
    for warning in &loaded.warnings {
        output::warning(&warning.to_string());
    }
    output::print(&if args.validate { "the configuration is valid\n".to_owned() } else { table(&loaded) })?;
    Ok(Exit::Success)
}

/// Every setting as it takes effect: where one decides about another, or the machine about one, that is done.
fn effective(loaded: &Loaded) -> Vec<Effective> {
    let config = &loaded.config;
    let (hash, replicas) = config.ring();
    let host = HostFacts {
        cpus: std::thread::available_parallelism().map_or(1, NonZero::get),
        ..HostFacts::default()
    };
    let port = config.grpc.address.port;
    let advertised = Some(config.advertise_address(port)).filter(|to| port != 0 && !to.is_wildcard());
    let unnamed = config.peer_picker.kind.is_none();
    let ring = |setting: &mut Effective, value: String| {
        setting.value = value;
        if setting.origin != "default" {
            setting.origin = format!("default; without peer_picker.type, not the {}", setting.origin);
        }
    };
    let mut settings = loaded.effective();
    for setting in &mut settings {
        match setting.name {
            "cache.shards" => setting.value = config.store_settings(&host).shards.to_string(),
            "node.advertise_address" if config.node.advertise_address.is_none() => {
                setting.value = advertised.as_ref().map(ToString::to_string).unwrap_or_default();
            }
            "peer_picker.type" if unnamed => setting.value = "replicated-hash".to_owned(),
            "peer_picker.hash" if unnamed => {
                ring(setting, if hash == PickerHash::Fnv1 { "fnv1" } else { "fnv1a" }.to_owned());
            }
            "peer_picker.replicas" if unnamed => ring(setting, replicas.to_string()),
            _ => {}
        }
    }
    settings
}

/// What is shown for a setting without a value.
fn absent(name: &str) -> &'static str {
    match name {
        "node.advertise_address" | "node.instance_id" => "(chosen at start)",
        _ => "-",
    }
}

/// Name, value and origin of each setting, in columns.
fn table(loaded: &Loaded) -> String {
    let settings = effective(loaded);
    let width = |of: fn(&Effective) -> usize| settings.iter().map(of).max().unwrap_or(0);
    let (names, values) = (
        width(|setting| setting.name.len()),
        width(|setting| setting.value.chars().count().max(absent(setting.name).len())),
    );
    // One long value must not push all origins off the screen.
    let values = values.min(32);
    settings
        .iter()
        .map(|setting| {
            let value = if setting.value.is_empty() { absent(setting.name) } else { &setting.value };
            format!("{:names$}  {value:values$}  {}\n", setting.name, setting.origin)
        })
        .collect()
}

fn json(loaded: &Result<Loaded, ConfigError>, validate: bool) -> serde_json::Value {
    let (settings, warnings, problems) = match loaded {
        Ok(loaded) => {
            let settings = if validate { Vec::new() } else { effective(loaded) };
            (settings, loaded.warnings.as_slice(), [].as_slice())
        }
        Err(error) => (Vec::new(), [].as_slice(), error.problems()),
    };
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let problems: Vec<_> = problems
        .iter()
        .map(|problem| {
            json!({
                "name": problem.name,
                "value": problem.value,
                "origin": problem.origin.to_string(),
                "advice": problem.advice,
            })
        })
        .collect();
    json!({ "settings": settings, "warnings": warnings, "problems": problems })
}
