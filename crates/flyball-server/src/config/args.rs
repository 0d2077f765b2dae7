//! The flags of `flyball serve`, made from the table so that they cannot disagree with it.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::table::{self, Setting};

/// What the command line says about the configuration. To be flattened into the arguments of a command.
///
/// Values stay texts here: they are judged together with all the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServeArgs {
    /// Configuration files in the order given.
    pub config: Vec<PathBuf>,
    /// Long name without dashes, and value.
    pub flags: Vec<(String, String)>,
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.config.extend(matches.get_many::<PathBuf>("config").into_iter().flatten().cloned());
        for flag in table::all().filter_map(|setting| setting.flag) {
            let given = matches.get_one::<String>(flag);
            self.flags.extend(given.map(|value| (flag.to_owned(), value.clone())));
        }
        Ok(())
    }
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .action(ArgAction::Append)
            .help("Configuration file; may be given more than once")
            .long_help(
                "Configuration file: TOML when its name ends in .toml, else lines NAME=value that override the \
                 environment. May be given more than once; of two files of a kind the later counts.",
            );
        table::all().fold(command.arg(config), |command, setting| match setting.flag {
            Some(flag) => command.arg(arg(setting, flag)),
            None => command,
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(setting: &Setting, flag: &'static str) -> Arg {
    let plain = |text: &str| text.replace('`', "");
    let short = plain(setting.doc.split(". ").next().unwrap_or(setting.doc)).trim_end_matches('.').to_owned();
    let source = setting.env.join(", ");
    let default = plain(setting.default_text());
    let long = format!(
        "{}\n\n[default: {default}] [variable: {source}] [TOML: {}]",
        plain(setting.doc),
        setting.name
    );
    let arg = Arg::new(flag)
        .long(flag)
        .help(format!("{short} [default: {default}]"))
        .long_help(long)
        .help_heading(setting.section.title())
        .action(ArgAction::Set);
    if setting.kind == "bool" {
        return arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(Hinted(vec!["true", "false"]))
            .hide_possible_values(true);
    }
    let arg = arg.value_name(value_name(setting));
    match words(setting.kind) {
        Some(words) => arg.value_parser(Hinted(words)).hide_possible_values(true),
        None => arg,
    }
}

/// The words a setting chooses from.
fn words(kind: &'static str) -> Option<Vec<&'static str>> {
    kind.starts_with('`').then(|| kind.split(", ").map(|word| word.trim_matches('`')).collect())
}

/// Takes any text, and tells shells which words complete it. The judgement comes later, with all the others.
#[derive(Clone)]
struct Hinted(Vec<&'static str>);

impl TypedValueParser for Hinted {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

fn value_name(setting: &Setting) -> String {
    if let Some(words) = words(setting.kind) {
        return words.join("|");
    }
    match setting.kind {
        kind if kind.starts_with("list") => "LIST".to_owned(),
        "host:port" => "HOST:PORT".to_owned(),
        "integer" => "N".to_owned(),
        kind => kind.to_uppercase().replace(' ', "_"),
    }
}
