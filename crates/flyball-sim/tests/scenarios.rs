//! The stories of `scenarios/`, on simulated nodes. With `FLYBALL_SCENARIO_REWRITE` set their answers are written anew.

use std::{env, fs};

use flyball_sim::scenario::{parse, play};

#[test]
fn stories_end_as_they_are_told() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines = parse(&text).unwrap_or_else(|mistake| panic!("{}: {mistake}", file.display()));
        let told = play(&lines).unwrap_or_else(|error| panic!("{}: {error:#}", file.display()));
        if env::var_os("FLYBALL_SCENARIO_REWRITE").is_some() {
            fs::write(&file, &told).unwrap();
        }
        assert_eq!(told, fs::read_to_string(&file).unwrap(), "{}", file.display());
    }
}
