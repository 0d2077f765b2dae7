//! The committed reference page and example files are what the code says. `FLYBALL_BLESS=1` rewrites them.

use std::path::Path;

use flyball_server::config::{
    Config, SourceFile, Strings, example_conf, example_toml, from_strings, reference_page,
};

#[test]
fn reference_page_is_current() {
    assert_current("configuration.md", &reference_page());
}

#[test]
fn example_files_are_current() {
    assert_current("flyball.example.conf", &example_conf());
    assert_current("flyball.example.toml", &example_toml());
}

fn assert_current(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, expected).expect("docs is writable when blessing");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let fresh = committed == expected;
    assert!(fresh, "docs/{name} is not what the settings table says; run `cargo xtask reference`");
}

/// Whoever takes the comment signs off an example has exactly the defaults: the documented values are the real
/// ones.
#[test]
fn the_examples_state_the_defaults() {
    let uncommented = |text: String| {
        let line = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with([' ', '#']) => rest.to_owned(),
            _ => line.to_owned(),
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    for (path, text) in [("example.conf", example_conf()), ("example.toml", example_toml())] {
        let text = uncommented(text);
        assert!(text.contains("256MiB"));
        let files = vec![SourceFile { path: path.to_owned(), text }];
        let loaded = from_strings(&Strings { files, ..Strings::default() }).unwrap();
        assert_eq!(loaded.config, Config::default(), "{path}");
        let unset = loaded.effective().iter().filter(|effective| effective.origin == "default").count();
        let without_default =
            loaded.effective().iter().filter(|effective| effective.value.is_empty()).count();
        assert_eq!(unset, without_default, "{path}: a setting is missing");
    }
}
