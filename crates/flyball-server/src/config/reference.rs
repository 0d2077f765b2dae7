//! The reference page and the example files, from the same rows that parse. A test compares them with the
//! committed files.

use std::fmt::{self, Write};

use super::later;
use super::table::{self, Scope, Section, Setting};

/// `docs/configuration.md`.
pub fn reference_page() -> String {
    written(page)
}

/// `docs/flyball.example.conf`: every variable with its default, in the original's format.
pub fn example_conf() -> String {
    written(conf)
}

/// `docs/flyball.example.toml`: every setting with its default, in our own format.
pub fn example_toml() -> String {
    written(toml)
}

fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("writing to a String cannot fail");
    text
}

/// Longest line of what is written here.
const WIDTH: usize = 110;

const HEAD: &str = "\
# Configuration

Generated from the table of settings by `cargo xtask reference`; do not edit.

A daemon needs no configuration: `flyball serve` is a healthy cluster of one. `flyball config` prints the values
in force with their origin, `flyball config --validate` only judges them.

## Sources

From weakest to strongest:

1. the defaults below;
2. our own file, `--config NAME.toml`;
3. the environment;
4. a file of `NAME=value` lines, `--config NAME` with any other ending. **It overrides the environment**, as it
   always has with Gubernator;
5. flags.

A file must be a regular one, or a link to one: a pipe or a device is refused, since it could hang the start.
`--config` may be given more than once, also once for each kind; of two files of a kind the later counts. An empty
value is no value, and the next weaker source decides; only an empty `NAME=` line hides the variable of that name.

Everything that is wrong is reported at once, with the variable, its value, where it was given and what is
expected, also in values that a stronger source hides (of one variable given twice, only the value that counts is
looked at). Only an unknown flag ends the reading of the command line and is reported alone. The exit code is 2 when
the command line is wrong and 1 otherwise. An unknown `GUBER_*` or `FLYBALL_*` variable is a warning that names the
nearest known one; an unknown key of a TOML file is an error, since only flyball reads that file.

### The `NAME=value` file

One variable on each line, of any name, `OTEL_*` included. The line is cut at the first `=` and both sides are
trimmed. Lines that are empty or begin with `#`, a space or a tab are skipped. There are no quotes, no
continuation lines and no comments after a value. See [flyball.example.conf](flyball.example.conf).

### The TOML file

The keys are the dotted names below. Values are written as in the variables, as texts; numbers, `true` and `false`
may stand without quotes, lists may be arrays. See [flyball.example.toml](flyball.example.toml).

## Kinds of values

| kind | written as |
|---|---|
| bool | `true`, `t`, `1` or `false`, `f`, `0` |
| integer | a decimal number |
| duration | numbers with the units `ns`, `us`, `ms`, `s`, `m`, `h`: `500us`, `1m30s`. A bare number is refused |
| size | bytes, or a number with `KiB`, `MiB`, `GiB`, `TiB` (1024) or `KB`, `MB`, `GB`, `TB` (1000) |
| host:port | `127.0.0.1:1051`, `name:1051`, `[::1]:1051`; `:1051` is every interface |
| list | comma separated |

Where it says *0 is the default*, a zero means the default, as with Gubernator. *Cluster* marks settings that
concern nodes with peers: a cluster of one checks them and goes on, so that one file can serve both.
";

fn page(text: &mut String) -> fmt::Result {
    text.push_str(HEAD);
    for section in Section::ALL {
        writeln!(text, "\n## {}", section.title())?;
        for setting in table::all().filter(|setting| setting.section == section) {
            entry(text, setting)?;
        }
    }
    text.push_str(
        "\n## Not in this version\n\nThese variables are known and refused, since ignoring them would start \
         another node than was asked for. Any other\nvariable with the same beginning is refused too.\n\n\
         | feature | variables |\n|---|---|\n",
    );
    for feature in &later::FEATURES {
        let names: Vec<_> = feature.variables.iter().map(|name| format!("`{name}`")).collect();
        writeln!(text, "| {} | {} |", feature.name, names.join(", "))?;
    }
    text.push_str(
        "\nNot read: `TZ` (see `time_zone`), `RUNNER_OS`, `ETCD3_ENDPOINT`, and OpenTelemetry variables other than\nthose \
         above.\n",
    );
    Ok(())
}

fn entry(text: &mut String, setting: &Setting) -> fmt::Result {
    writeln!(text, "\n### `{}`\n", setting.name)?;
    wrap(text, "", setting.doc)?;
    text.push('\n');
    let variables: Vec<_> = setting.env.iter().map(|name| format!("`{name}`")).collect();
    writeln!(text, "- variable: {}", variables.join(", else "))?;
    if let Some(flag) = setting.flag {
        writeln!(text, "- flag: `--{flag}`")?;
    }
    let kind = match setting.kind.starts_with('`') {
        true => format!("one of {}", setting.kind),
        false => setting.kind.to_owned(),
    };
    writeln!(text, "- value: {kind}")?;
    let zero = match setting.zero_is_default() && setting.default != "0" {
        true => " (0 is the default)",
        false => "",
    };
    match setting.default {
        "" => writeln!(text, "- without it: {}{zero}", setting.without)?,
        default => writeln!(text, "- default: `{default}`{zero}")?,
    }
    if setting.scope == Scope::Cluster {
        text.push_str("- cluster\n");
    }
    Ok(())
}

fn conf(text: &mut String) -> fmt::Result {
    text.push_str(
        "# Every variable of flyball with its default. Generated by `cargo xtask reference`; do not edit.\n\
         #\n\
         # Use: flyball serve --config FILE. Take the first character off a line to set it. These lines override\n\
         # the environment. No quotes, and no comments after a value. docs/configuration.md explains each.\n",
    );
    for section in Section::ALL {
        writeln!(text, "\n#### {}", section.title())?;
        for setting in table::all().filter(|setting| setting.section == section) {
            text.push('\n');
            comment(text, setting)?;
            // Whoever writes this file writes our names, not those of somebody else's library.
            let ours =
                setting.env.iter().find(|name| name.starts_with("GUBER_") || name.starts_with("FLYBALL_"));
            writeln!(text, "#{}={}", ours.unwrap_or(&setting.env[0]), setting.default)?;
        }
    }
    Ok(())
}

fn toml(text: &mut String) -> fmt::Result {
    text.push_str(
        "# Every setting of flyball with its default. Generated by `cargo xtask reference`; do not edit.\n\
         #\n\
         # Use: flyball serve --config FILE.toml. Take the first character off a line to set it. The environment\n\
         # and flags override these values. docs/configuration.md explains each.\n",
    );
    // Keys without a table first: after a headline they would belong to it.
    for setting in table::all().filter(|setting| !setting.name.contains('.')) {
        text.push('\n');
        comment(text, setting)?;
        writeln!(text, "#{} = {}", setting.name, toml_value(setting))?;
    }
    let mut written = Vec::new();
    for setting in table::all() {
        let Some((table, _)) = setting.name.split_once('.') else { continue };
        if written.contains(&table) {
            continue;
        }
        written.push(table);
        writeln!(text, "\n[{table}]")?;
        for setting in table::all() {
            if let Some((_, key)) = setting.name.split_once('.').filter(|(owner, _)| *owner == table) {
                text.push('\n');
                comment(text, setting)?;
                writeln!(text, "#{key} = {}", toml_value(setting))?;
            }
        }
    }
    Ok(())
}

/// The default as TOML writes it: bare where it can be.
fn toml_value(setting: &Setting) -> String {
    let bare = setting.default.parse::<i64>().is_ok() || matches!(setting.default, "true" | "false");
    if bare { setting.default.to_owned() } else { format!("\"{}\"", setting.default) }
}

/// The documentation as comment lines, with what a value looks like.
fn comment(text: &mut String, setting: &Setting) -> fmt::Result {
    let without = match setting.default {
        "" => format!(" Without it: {}.", setting.without),
        _ => String::new(),
    };
    let words = format!("{} Value: {}.{without}", setting.doc, setting.kind).replace('`', "");
    wrap(text, "# ", &words)
}

/// Writes the words on lines that begin with `prefix`.
fn wrap(text: &mut String, prefix: &str, words: &str) -> fmt::Result {
    let mut line = prefix.to_owned();
    for word in words.split_whitespace() {
        if line.len() > prefix.len() && line.len() + word.len() > WIDTH {
            writeln!(text, "{}", line.trim_end())?;
            line.truncate(prefix.len());
        }
        line.push_str(word);
        line.push(' ');
    }
    writeln!(text, "{}", line.trim_end())
}
