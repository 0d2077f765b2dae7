//! defaults < TOML < environment < `KEY=VALUE` file < flags.

use super::*;

/// A given value from each source in turn, weakest first.
fn from(sources: &[bool; 4]) -> Strings {
    let mut strings = Strings::default();
    let [toml, environment, key_value, flag] = *sources;
    // The files in "wrong" order: their kind decides, not their place.
    if key_value {
        let text = "GUBER_DATA_CENTER=from-file\n".to_owned();
        strings.files.push(SourceFile { path: "a.conf".into(), text });
    }
    if toml {
        let text = "[node]\ndata_center = \"from-toml\"\n".to_owned();
        strings.files.push(SourceFile { path: "b.TOML".into(), text });
    }
    if environment {
        strings.env.push(("GUBER_DATA_CENTER".into(), "from-environment".into()));
    }
    if flag {
        strings.flags.push(("data-center".into(), "from-flag".into()));
    }
    strings
}

#[test]
fn the_strongest_source_counts_in_every_combination() {
    for bits in 0u8..16 {
        let sources = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0];
        let (value, origin) = match sources {
            [.., true] => ("from-flag", "command line: --data-center"),
            [_, _, true, _] => ("from-file", "a.conf:1: GUBER_DATA_CENTER"),
            [_, true, ..] => ("from-environment", "environment: GUBER_DATA_CENTER"),
            [true, ..] => ("from-toml", "b.TOML: node.data_center"),
            _ => ("", "default"),
        };
        let effective = effective(&ok(&from(&sources)), "node.data_center");
        assert_eq!((effective.value.as_str(), effective.origin.as_str()), (value, origin), "{sources:?}");
    }
}

#[test]
fn only_the_value_that_counts_is_judged() {
    let mut strings = env(&[("GUBER_BATCH_WAIT", "abc")]);
    strings.files.push(SourceFile { path: "a".into(), text: "GUBER_BATCH_WAIT=1ms".into() });
    assert_eq!(ok(&strings).config.batch.wait, Duration::from_millis(1));
}

#[test]
fn of_two_files_of_a_kind_the_later_counts() {
    let mut strings = Strings::default();
    for (path, text) in [
        ("a.toml", "[cache]\nentries = 1\nshards = 1"),
        ("a.conf", "GUBER_BATCH_LIMIT=1\nGUBER_GLOBAL_BATCH_LIMIT=1"),
        ("b.toml", "[cache]\nentries = 2"),
        ("b.conf", "GUBER_BATCH_LIMIT=2"),
    ] {
        strings.files.push(SourceFile { path: path.into(), text: text.into() });
    }
    let config = ok(&strings).config;
    assert_eq!((config.cache.entries, config.cache.shards), (Some(2), Some(1)));
    assert_eq!((config.batch.limit, config.global.batch_limit), (2, 1));
}

#[test]
fn an_empty_line_of_the_file_hides_the_variable_as_in_the_original() {
    let mut strings = env(&[("GUBER_CACHE_SIZE", "7")]);
    strings.files.push(SourceFile { path: "a".into(), text: "GUBER_CACHE_SIZE=\n".into() });
    assert_eq!(ok(&strings).config.cache.entries, None);
}

#[test]
fn an_empty_value_elsewhere_falls_through() {
    let mut strings = env(&[("GUBER_CACHE_SIZE", "")]);
    strings.files.push(SourceFile { path: "a.toml".into(), text: "cache.entries = 7".into() });
    strings.flags.push(("cache-size".into(), String::new()));
    assert_eq!(ok(&strings).config.cache.entries, Some(7));
}

#[test]
fn debug_is_a_log_level_of_its_source() {
    let level = |strings: &Strings| ok(strings).config.log.level;
    let both = env(&[("GUBER_DEBUG", "true"), ("GUBER_LOG_LEVEL", "error")]);
    assert_eq!(level(&both), LogLevel::Debug);
    let flags = vec![("log-level".to_owned(), "error".to_owned())];
    assert_eq!(level(&Strings { flags, ..both.clone() }), LogLevel::Error);
    let flags = vec![("debug".to_owned(), "true".to_owned())];
    assert_eq!(level(&Strings { flags, ..env(&[("GUBER_LOG_LEVEL", "error")]) }), LogLevel::Debug);
    let flags = vec![("debug".to_owned(), "false".to_owned())];
    assert_eq!(level(&Strings { flags, ..both }), LogLevel::Error);
}
