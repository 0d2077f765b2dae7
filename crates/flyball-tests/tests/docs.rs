//! The map in `docs/tests.md` leads somewhere: every test it names exists.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_test_on_the_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let page = std::fs::read_to_string(root.join("docs/tests.md")).unwrap();
    let mut files = Vec::new();
    rust_files(&root.join("crates"), &mut files);
    let files: Vec<(PathBuf, String)> =
        files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();

    let references: Vec<(&str, &str)> = page
        .split('`')
        .filter(|text| !text.contains(char::is_whitespace))
        .filter_map(|text| text.split_once(".rs#"))
        .collect();
    assert!(references.len() > 150, "only {} references: has the page another form now?", references.len());
    let missing: Vec<String> = references
        .into_iter()
        .filter(|(file, test)| {
            let (file, test) = (format!("{file}.rs"), format!("fn {test}("));
            !files.iter().any(|(path, text)| path.ends_with(&file) && text.contains(&test))
        })
        .map(|(file, test)| format!("{file}.rs#{test}"))
        .collect();
    assert!(missing.is_empty(), "docs/tests.md names what is not there:\n{}", missing.join("\n"));
}
