//! Any text as environment, `KEY=VALUE` file and TOML file: it makes a configuration or a list of mistakes that
//! can be shown, and what a configuration says of itself makes the same configuration again.
//!
//! Input: up to three texts with a line `---` between them.
#![no_main]

use std::sync::LazyLock;

use flyball_server::config::{Loaded, SourceFile, Strings, from_strings};
use libfuzzer_sys::fuzz_target;

/// Nothing given. Made once: it unpacks the time zones.
static NOTHING: LazyLock<Strings> = LazyLock::new(Strings::default);

fuzz_target!(|text: &str| {
    let mut parts = text.splitn(3, "\n---\n");
    let env = parts.next().unwrap_or_default().lines().filter_map(|line| line.split_once('='));
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let files = ["flyball.conf", "flyball.toml"].into_iter().zip(parts);
    let files =
        files.map(|(path, text)| SourceFile { path: path.to_owned(), text: text.to_owned() }).collect();
    match from_strings(&Strings { env, files, ..NOTHING.clone() }) {
        Ok(loaded) => says_what_it_is(&loaded),
        Err(error) => {
            assert!(matches!(error.exit_code(), 1 | 2));
            assert!(!error.problems().is_empty() && !error.to_string().is_empty());
        }
    }
});

/// Given to another node as its environment, the values shown make the same node.
fn says_what_it_is(loaded: &Loaded) {
    let shown = loaded.effective();
    // What hides a secret is not the value.
    if shown.iter().any(|setting| setting.value.contains("<redacted>")) {
        return;
    }
    let env = shown.iter().map(|setting| (setting.variable.to_owned(), setting.value.clone())).collect();
    let again = from_strings(&Strings { env, ..NOTHING.clone() });
    let again = again.unwrap_or_else(|error| panic!("shown values are refused: {error}\n{shown:?}"));
    assert_eq!(again.config, loaded.config, "{shown:?}");
}
