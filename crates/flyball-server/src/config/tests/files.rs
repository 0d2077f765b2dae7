//! The two file formats.

use super::*;

/// Inventory: TestParsesGrpcAddress.
#[test]
fn a_file_with_a_comment_and_an_address() {
    let loaded = ok(&file("x", "# a comment\nGUBER_GRPC_ADDRESS=10.10.10.10:9000\n"));
    assert_eq!(loaded.config.grpc.address.to_string(), "10.10.10.10:9000");
    assert!(!loaded.config.instance_id(&HostFacts::default()).is_empty());
}

#[test]
fn lines_are_read_by_the_originals_rules() {
    let text = "\n#GUBER_CACHE_SIZE=1\n GUBER_CACHE_SIZE=2\n\tGUBER_CACHE_SIZE=3\nGUBER_DATA_CENTER  =\t a = b # c \r\n\
                OTEL_SERVICE_NAME=limits\nANYTHING=goes\nexport X=y\n=\n";
    let loaded = ok(&file("x", text));
    assert_eq!(loaded.config.cache.entries, None);
    assert_eq!(loaded.config.node.data_center, "a = b # c");
    assert_eq!(effective(&loaded, "node.data_center").origin, "x:5: GUBER_DATA_CENTER");
    assert_eq!(loaded.config.service_name(), "limits");
    assert_eq!(loaded.warnings, []);
}

#[test]
fn a_line_without_an_equals_sign_ends_the_start() {
    for (text, line) in [("GUBER_DEBUG", 0), ("A=b\n\nhello\nC=d", 2), ("A=b\n\r\n", 1), ("A=1\n\u{a0}\n", 1)]
    {
        let shown = wrong(&file("node.conf", text));
        assert_eq!(shown.len(), 1);
        assert!(
            shown[0].starts_with(&format!("node.conf: malformed key=value on line '{line}'")),
            "{text:?}: {}",
            shown[0]
        );
    }
}

#[test]
fn every_line_without_an_equals_sign_is_reported() {
    let shown = wrong(&file("x", "one\nA=b\ntwo\n"));
    assert_eq!(shown.len(), 2);
    assert!(shown[0].contains("line '0'") && shown[1].contains("line '2'"), "{shown:?}");
    let shown = wrong(&file("x", &"prose\n".repeat(10_000)));
    assert_eq!((shown.len(), shown[20].as_str()), (21, "x: 9980 more malformed lines"));
}

#[test]
fn a_byte_order_mark_is_not_part_of_a_name() {
    assert_eq!(ok(&file("x", "\u{feff}GUBER_CACHE_SIZE=7")).config.cache.entries, Some(7));
    assert_eq!(ok(&file("x.toml", "\u{feff}cache.entries = 7")).config.cache.entries, Some(7));
}

#[test]
fn what_a_stronger_source_hides_is_judged_too() {
    let mut strings = file("x.toml", "batch.wait = \"abc\"\ncache.entries = 5");
    strings.env.push(("GUBER_BATCH_WAIT".into(), "def".into()));
    strings.flags.push(("batch-wait".into(), "1ms".into()));
    let shown = wrong(&strings);
    assert_eq!(shown.len(), 2);
    assert!(
        shown[0].starts_with("GUBER_BATCH_WAIT='def'") && shown[1].starts_with("batch.wait='abc'"),
        "{shown:?}"
    );
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_read() {
    use std::path::Path;

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "A=b").unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(read_file(&link).unwrap(), b"A=b");
    for (path, what) in [(Path::new("/dev/null"), "a pipe or a device"), (directory.path(), "a directory")] {
        let error = read_file(path).unwrap_err().to_string();
        assert_eq!(error, format!("it is {what}, not a regular file"));
    }
}

#[test]
fn a_malformed_file_does_not_hide_its_other_mistakes() {
    let shown = wrong(&file("node.conf", "oops\nGUBER_BATCH_WAIT=abc"));
    assert_eq!(shown.len(), 2);
    assert!(
        shown[1].starts_with("GUBER_BATCH_WAIT='abc' (node.conf:2): expected a duration"),
        "{}",
        shown[1]
    );
}

#[test]
fn toml_takes_texts_numbers_truth_and_arrays() {
    let text = r#"
        semantics = "gubernator"
        metrics.flags = ["os", "golang"]
        batch = { timeout = "250ms", limit = 10, disabled = true }
        [cache]
        entries = 9
        bytes = "1MiB"
        [otel]
        traces_sampler_arg = 0.5
        bsp_max_queue_size = "600"
    "#;
    let c = ok(&file("x.toml", text)).config;
    assert_eq!(c.semantics, Semantics::Gubernator);
    assert!(c.metrics.flags.os && c.metrics.flags.golang);
    assert_eq!((c.batch.timeout, c.batch.limit, c.batch.disabled), (Duration::from_millis(250), 10, true));
    assert_eq!((c.cache.entries, c.cache.bytes), (Some(9), ByteSize(1 << 20)));
    assert_eq!((c.otel.sampler_ratio.0, c.otel.batch.max_queue_size), (0.5, 600));
}

#[test]
fn toml_mistakes() {
    for (text, expected) in [
        ("semantic = \"exact\"", "semantic (x.toml): no such setting; did you mean semantics?"),
        ("[cache]\nentrys = 1", "cache.entrys (x.toml): no such setting; did you mean cache.entries?"),
        ("[zebra]\nstripes = 1", "zebra.stripes (x.toml): no such setting"),
        ("[cache.entries]\na = 1", "cache.entries.a (x.toml): no such setting; did you mean cache.entries?"),
        ("cache = 1", "cache (x.toml): no such setting"),
        ("time_zone = 1979-05-27", "time_zone (x.toml): expected a text"),
        ("metrics.flags = [\"os,golang\"]", "metrics.flags (x.toml): expected a text"),
        ("batch.wait = 5", "batch.wait='5' (x.toml): expected a duration"),
        ("batch.limit = 1.5", "batch.limit='1.5' (x.toml): expected a whole number"),
        ("a = 1\nb = \n", "x.toml: not valid TOML: line 2: "),
        ("a = 1\na = 2\n", "x.toml: not valid TOML: line 2: "),
    ] {
        let shown = wrong(&file("x.toml", text));
        assert!(shown[0].starts_with(expected), "{text:?}\n{}", shown[0]);
        assert!(!shown[0].contains('\n'), "{}", shown[0]);
        assert!(expected.contains("did you") || !shown[0].contains("did you"), "{}", shown[0]);
    }
}

#[test]
fn a_file_of_something_else_is_answered_briefly() {
    let keys: String = (0..10_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(wrong(&file("x.toml", &keys)).len(), 21);
    let lines: String = (0..10_000).map(|n| format!("GUBER_UNKNOWN_{n}=1\n")).collect();
    let warnings = warnings(&file("x", &lines));
    assert_eq!(warnings.len(), 21);
    assert_eq!(warnings[20], "9980 more unknown variables");
    let refused: String = (0..10_000).map(|n| format!("OTEL_EXPORTER_OTLP_CERTIFICATE_{n}=1\n")).collect();
    let error = from_strings(&file("x", &refused)).unwrap_err();
    assert_eq!(error.problems().len(), 100);
    assert!(error.to_string().starts_with("10000 problems") && error.to_string().ends_with("and 9900 more"));
}

#[test]
fn load_reads_what_the_command_line_names() {
    use std::io::{Error, ErrorKind};

    let args =
        |paths: &[&str]| ServeArgs { config: paths.iter().map(Into::into).collect(), flags: Vec::new() };
    let read = |path: &std::path::Path| match path.to_str().unwrap() {
        "good.toml" => Ok(b"cache.entries = 3".to_vec()),
        "good.conf" => Ok(b"GUBER_BATCH_LIMIT=3".to_vec()),
        "binary" => Ok(vec![0xff, 0xfe]),
        "huge" => Ok(vec![b'#'; FILE_BYTES_MAX + 1]),
        _ => Err(Error::from(ErrorKind::PermissionDenied)),
    };
    let env = || [("GUBER_DATA_CENTER".into(), "eu".into())];
    let config = load(&args(&["good.toml", "good.conf"]), env(), read).unwrap().config;
    assert_eq!((config.cache.entries, config.batch.limit), (Some(3), 3));
    assert_eq!(config.node.data_center, "eu");

    for (path, expected) in [
        ("secret.conf", "secret.conf: cannot read the configuration file: permission denied"),
        ("binary", "binary: expected a text file"),
        ("huge", "huge: expected a configuration of at most 1 MiB"),
    ] {
        let error = load(&args(&[path]), env(), read).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.exit_code(), 1);
    }
    let env = [("GUBER_BATCH_WAIT".into(), "abc".into())];
    assert_eq!(load(&args(&["binary", "huge"]), env, read).unwrap_err().problems().len(), 3);
}

#[cfg(unix)]
#[test]
fn variables_that_are_no_text_matter_only_when_they_are_ours() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let bad = || OsString::from_vec(vec![0xff]);
    let read = |_: &std::path::Path| Ok(Vec::new());
    let theirs = [(bad(), "x".into()), ("PATH".into(), bad()), ("GUBER_UNKNOWN".into(), bad())];
    load(&ServeArgs::default(), theirs, read).unwrap();
    let ours = [("GUBER_DATA_CENTER".into(), bad()), ("GUBER_TLS_KEY".into(), bad())];
    let error = load(&ServeArgs::default(), ours, read).unwrap_err();
    assert_eq!(error.problems().len(), 2);
    assert!(error.problems()[0].to_string().starts_with("GUBER_DATA_CENTER (environment): expected a value"));
}

#[test]
fn a_huge_file_of_strangers_is_answered_in_bounded_work() {
    let lines: String = (0..40_000).map(|n| format!("SOMETHING_ELSE_ENTIRELY_{n}=1\n")).collect();
    assert!(lines.len() > FILE_BYTES_MAX);
    assert_eq!(warnings(&file("x", &lines)), [""; 0]);
}
