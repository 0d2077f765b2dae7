//! `docs/cli.md` shows the help the binary really prints. `FLYBALL_BLESS=1 cargo test -p flyball-cli` writes it.

use super::support::{flyball, run};

const MARK: &str = "<!-- help: flyball ";

#[test]
fn the_page_shows_the_help_of_every_command() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (mut expected, mut rest, mut shown) = (String::new(), page.as_str(), Vec::new());
    while let Some(at) = rest.find(MARK) {
        let line_end = at + rest[at..].find('\n').unwrap();
        expected.push_str(&rest[..=line_end]);
        let command = rest[at + MARK.len()..line_end].strip_suffix(" -->").unwrap();
        let help = run(&mut flyball(command.split(' ')));
        assert_eq!(help.code, Some(0), "{command}");
        expected.push_str("\n```text\n");
        // Trailing blanks are invisible; an editor would take them away again.
        help.out.lines().for_each(|line| {
            expected.push_str(line.trim_end());
            expected.push('\n');
        });
        expected.push_str("```\n");
        shown.push(command.split(' ').next().unwrap().to_owned());
        rest = &rest[line_end + 1..];
        if let Some(block) = rest.strip_prefix("\n```text\n") {
            rest = &block[block.find("```\n").unwrap() + 4..];
        }
    }
    expected.push_str(rest);
    for command in [
        "serve",
        "check",
        "healthcheck",
        "config",
        "cluster",
        "peers",
        "ring",
        "bench",
        "version",
        "completions",
    ] {
        assert!(shown.contains(&command.to_owned()), "docs/cli.md does not show {command}");
    }
    if page != expected {
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            std::fs::write(path, expected).unwrap();
            return;
        }
        panic!("docs/cli.md is not up to date; FLYBALL_BLESS=1 cargo test -p flyball-cli writes it");
    }
}
