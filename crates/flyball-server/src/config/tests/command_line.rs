//! The flags, as clap reads them.

use clap::error::ErrorKind;
use clap::{Args, Command, FromArgMatches};

use super::*;

fn command() -> Command {
    ServeArgs::augment_args(Command::new("serve"))
}

fn parse(args: &[&str]) -> Result<ServeArgs, clap::Error> {
    let matches = command().try_get_matches_from(std::iter::once(&"serve").chain(args))?;
    ServeArgs::from_arg_matches(&matches)
}

fn from_flags(args: &[&str]) -> Config {
    let flags = parse(args).unwrap().flags;
    ok(&Strings { flags, ..Strings::default() }).config
}

#[test]
fn clap_finds_nothing_wrong_with_the_flags() {
    command().debug_assert();
}

#[test]
fn flags_reach_the_configuration() {
    let c = from_flags(&[
        "--grpc-address",
        "127.0.0.1:1",
        "--http-address=127.0.0.1:2",
        "--advertise-address",
        "me:3",
        "--semantics",
        "gubernator",
        "--time-zone",
        "Asia/Tokyo",
        "--debug",
        "--log-format",
        "json",
        "--cache-size",
        "5",
        "--cache-bytes",
        "5MiB",
        "--http-openapi=false",
    ]);
    assert_eq!((c.grpc.address.port, c.http.address.port), (1, 2));
    assert_eq!(c.advertise_address(9).to_string(), "me:3");
    assert_eq!(c.semantics, Semantics::Gubernator);
    assert_eq!(c.time_zone.name, "Asia/Tokyo");
    assert_eq!((c.log.level, c.log.format), (LogLevel::Debug, LogFormat::Json));
    assert_eq!((c.cache.entries, c.cache.bytes), (Some(5), ByteSize(5 << 20)));
    assert!(!c.http.openapi);
    assert_eq!(from_flags(&["--debug=false"]).log.level, LogLevel::Info);
}

#[test]
fn configuration_files_keep_their_order() {
    let args = parse(&["--config", "a.toml", "--debug", "--config=b"]).unwrap();
    assert_eq!(args.config, [std::path::Path::new("a.toml"), std::path::Path::new("b")]);
}

/// Field report P35: unknown flags used to be dropped, and the rest of the line with them.
#[test]
fn p35_an_unknown_flag_is_a_usage_error() {
    for (args, kind) in [
        (&["--foo", "--config", "x"][..], ErrorKind::UnknownArgument),
        (&["--batch-wiat=1s"], ErrorKind::UnknownArgument),
        (&["--cache-size", "--foo"], ErrorKind::UnknownArgument),
        (&["--config"], ErrorKind::InvalidValue),
        (&["--cache-size", "1", "--cache-size", "2"], ErrorKind::ArgumentConflict),
        (&["stray"], ErrorKind::UnknownArgument),
        (&["--debug", "true"], ErrorKind::UnknownArgument),
    ] {
        let error = parse(args).unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{args:?}");
    }
}

#[test]
fn a_bad_flag_value_is_reported_like_any_other() {
    let flags = parse(&["--batch-wait=-1s"]).unwrap().flags;
    let error = from_strings(&Strings { flags, ..Strings::default() }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--batch-wait='-1s' (command line): expected a duration that is not negative"
    );
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn shells_are_told_the_words_of_a_choice() {
    let mut command = command();
    command.build();
    let hints = |flag: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).unwrap();
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hints("semantics"), ["exact", "gubernator"]);
    assert_eq!(hints("log-format"), ["text", "json"]);
    assert_eq!(hints("debug"), ["true", "false"]);
    assert_eq!(hints("cache-bytes"), [""; 0]);
    // And yet another word is not clap's to judge.
    assert_eq!(parse(&["--semantics", "both"]).unwrap().flags, [("semantics".to_owned(), "both".to_owned())]);
    assert_eq!(from_flags(&["--debug=T"]).log.level, LogLevel::Debug);
}

#[test]
fn help_names_default_variable_and_key() {
    let help = command().render_long_help().to_string();
    for setting in table::all().filter(|setting| setting.flag.is_some()) {
        assert!(help.contains(&format!("--{}", setting.flag.unwrap())), "{}", setting.name);
        assert!(help.contains(setting.env[0]), "{}", setting.name);
    }
    assert!(help.contains("[default: 127.0.0.1:1051] [variable: GUBER_GRPC_ADDRESS] [TOML: grpc.address]"));
}
