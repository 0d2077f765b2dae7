//! `flyball config --from-env`, as somebody runs it beside a Gubernator.

use super::support::{flyball, run};

#[test]
fn an_environment_of_the_original_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gubernator.conf");
    std::fs::write(
        &file,
        "# the file counts more\nGUBER_CACHE_SIZE=70000\nGUBER_HTTP_ADDRESS=0.0.0.0:1050\n",
    )
    .unwrap();
    let environment = [
        ("GUBER_GRPC_ADDRESS", "0.0.0.0:1051"),
        ("GUBER_CACHE_SIZE", "50000"),
        ("OTEL_SERVICE_NAME", "limits"),
    ];
    let ended = run(flyball(["config", "--from-env", "--config"]).arg(&file).envs(environment));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for expected in [
        "GUBER_CACHE_SIZE=70000  (",
        "gubernator.conf:2)",
        "cache.entries: Most buckets that are kept",
        "differs: is the service's name in traces",
        "OTEL_TRACES_EXPORTER (there: otlp)",
        "[cache]\nentries = 70000\n",
        "accepted: flyball starts with this environment",
    ] {
        assert!(ended.out.contains(expected), "no {expected:?} in\n{}", ended.out);
    }

    let json = run(flyball(["config", "--from-env", "--json"]).envs(environment)).json();
    let names: Vec<_> =
        json["variables"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["GUBER_CACHE_SIZE", "GUBER_GRPC_ADDRESS", "OTEL_SERVICE_NAME"]);
    assert_eq!(json["variables"][0]["original_default"], "50000");
    assert_eq!(json["problems"].as_array().unwrap().len(), 0);
    assert!(json["toml"].as_str().unwrap().contains("address = \"0.0.0.0:1051\""));
}

#[test]
fn what_is_refused_ends_with_a_code() {
    let bad = [
        ("GUBER_PEER_PICKER", "consistent-hash"),
        ("GUBER_BATCH_WAIT", "500ns"),
        ("GUBER_BATCH_TIMEOUT", "5"),
    ];
    let ended = run(flyball(["config", "--from-env"]).envs(bad));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.out.contains("refused: flyball does not start with this environment, for 2 reasons"),
        "{}",
        ended.out
    );
    assert_eq!(ended.err.lines().filter(|line| line.starts_with("error: ")).count(), 2, "{}", ended.err);
    assert!(!ended.out.contains("of flyball's own"), "{}", ended.out);

    let flag = run(&mut flyball(["config", "--from-env", "--json", "--batch-limit", "1001"]));
    assert_eq!(flag.code, Some(2), "{flag:?}");
    assert_eq!(flag.json()["problems"].as_array().unwrap().len(), 1);

    let both = run(&mut flyball(["config", "--from-env", "--validate"]));
    assert_eq!(both.code, Some(2), "{both:?}");
}

#[test]
fn values_cannot_steer_the_terminal() {
    let ended = run(flyball(["config", "--from-env"]).env("GUBER_INSTANCE_ID", "a\x1b[2Jb"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!ended.err.contains('\x1b'), "{}", ended.err);
    assert!(!ended.out.contains('\x1b') && ended.out.contains("2Jb"), "{}", ended.out);
}
