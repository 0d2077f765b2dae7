//! Nothing here reads a file, the clock or the environment: everything is in [`Strings`].

mod command_line;
mod convert;
mod discovery;
mod etcd;
mod every_setting;
mod files;
mod kubernetes;
mod memberlist;
mod mistakes;
mod precedence;
mod properties;
mod tls;
mod traces;

use super::*;

/// Only these variables.
fn env(pairs: &[(&str, &str)]) -> Strings {
    let env = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Strings { env, ..Strings::default() }
}

/// Only this file.
fn file(path: &str, text: &str) -> Strings {
    let source = SourceFile { path: path.to_owned(), text: text.to_owned() };
    Strings { files: vec![source], ..Strings::default() }
}

fn ok(strings: &Strings) -> Loaded {
    from_strings(strings).unwrap_or_else(|error| panic!("{error}"))
}

fn config(pairs: &[(&str, &str)]) -> Config {
    ok(&env(pairs)).config
}

/// The problems as they are shown.
fn wrong(strings: &Strings) -> Vec<String> {
    let error = from_strings(strings).expect_err("a configuration that must be refused was accepted");
    error.problems().iter().map(ToString::to_string).collect()
}

fn warnings(strings: &Strings) -> Vec<String> {
    ok(strings).warnings.iter().map(ToString::to_string).collect()
}

fn effective(loaded: &Loaded, name: &str) -> Effective {
    loaded.effective().into_iter().find(|effective| effective.name == name).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
