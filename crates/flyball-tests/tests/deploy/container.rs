//! The Dockerfile. No image is built by any test: what it runs is compared with what there is.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use flyball_tests::deploy::{read, root};

/// The command that builds the binary names a package, a binary and a profile that exist, and the compiler is ours.
#[test]
fn what_it_builds_exists() {
    let dockerfile = read("deploy/Dockerfile").unwrap();
    let build = dockerfile.lines().find(|line| line.contains("cargo build")).unwrap();
    let word =
        |flag: &str| build.split_whitespace().skip_while(|word| *word != flag).nth(1).unwrap().to_owned();
    let (package, binary, profile) = (word("--package"), word("--bin"), word("--profile"));
    let metadata = metadata(&root());
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|it| it["name"] == package.as_str()).unwrap();
    let mut targets = package["targets"].as_array().unwrap().iter();
    assert!(
        targets.any(|target| target["kind"][0] == "bin" && target["name"] == binary.as_str()),
        "{package}"
    );
    assert!(read("Cargo.toml").unwrap().contains(&format!("\n[profile.{profile}]\n")));
    assert!(dockerfile.contains(&format!("cp target/{profile}/{binary} ")), "{dockerfile}");
    let toolchain = read("rust-toolchain.toml").unwrap();
    let channel =
        toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(dockerfile.contains(&format!("FROM rust:{channel}-alpine")), "not the compiler of {toolchain}");
}

/// What `.dockerignore` leaves is a complete workspace: every manifest, the lock file, and all that code includes.
#[test]
fn what_is_left_for_the_build_is_complete() {
    let ignored = read(".dockerignore").unwrap();
    let ignored: BTreeSet<&str> = ignored.lines().filter(|line| !line.starts_with('#')).collect();
    let is_ignored = |path: &str| {
        path.split('/').next().is_some_and(|top| ignored.contains(top))
            || (ignored.contains("**/*.md") && path.ends_with(".md"))
    };
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
        // Sources without a repository have no list of what belongs to them.
        assert!(!root().join(".git").exists(), "git does not list the files of this repository");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for path in
        String::from_utf8(listed.stdout).unwrap().split_terminator('\0').filter(|path| !is_ignored(path))
    {
        let (from, to) = (root().join(path), folder.path().join(path));
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }
    }
    let members = |metadata: &serde_json::Value| metadata["packages"].as_array().unwrap().len();
    assert_eq!(members(&metadata(folder.path())), members(&metadata(&root())));
    // Files that sources of the shipped crates include are in there with them.
    let included = regex::Regex::new(r#"include_(?:str|bytes)!\("([^"]+)"\)"#).unwrap();
    let mut checked = 0;
    let mut folders = vec![folder.path().join("crates")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                for file in included.captures_iter(&fs::read_to_string(&path).unwrap()) {
                    let file = path.parent().unwrap().join(&file[1]);
                    // Tests of the crates are not built into the image, and may read what is ignored.
                    let built = path.components().any(|part| part.as_os_str() == "src");
                    assert!(!built || file.is_file(), "{} includes {}", path.display(), file.display());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 3, "{checked}");
}

fn metadata(folder: &std::path::Path) -> serde_json::Value {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).args([
        "metadata",
        "--no-deps",
        "--locked",
        "--offline",
        "--format-version",
        "1",
    ]);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The user is a number and not root, the health check is the binary's own, the ports are the original's.
#[test]
fn the_image_is_what_the_original_is() {
    let dockerfile = read("deploy/Dockerfile").unwrap();
    for line in [
        "FROM scratch",
        "USER 1001:1001",
        "EXPOSE 1050/tcp 1051/tcp 7946/tcp 7946/udp",
        "ENTRYPOINT [\"/flyball\"]",
        "CMD [\"serve\"]",
    ] {
        assert!(dockerfile.lines().any(|it| it == line), "no {line}");
    }
    assert!(dockerfile.contains("CMD [\"/flyball\", \"healthcheck\"]"));
}
