//! What a Gubernator environment means here: for somebody who stands before a running original and wants to know what
//! changes when flyball takes its place.
//!
//! Nothing is decided here. The settings are read by the very path that starts a daemon (`load`), so what is said to
//! be in force is in force; `original` adds what the same variable means there. The page for people to read before
//! (the table of variables in the migration guide) is written from the same rows, and so cannot disagree.
//!
//! Secrets, and the credentials in a URL, are not repeated: not as values, and not in the TOML, where a comment says
//! which variable has to stay.

mod original;
mod toml;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde::Serialize;

use self::original::{ORIGINALS, Original, SEMANTICS_UNSET, When, original};
use super::ServeArgs;
use super::error::{ConfigError, Problem};
use super::load::{Judged, gather, judged};
use super::raw::{Given, Raw, Strings};
use super::table::{self, Setting};

/// At most so many variables are told about; an environment has a few dozen.
const TOLD_MAX: usize = 1_000;

/// What an environment means.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each variable that is set and concerns this program, by name.
    pub variables: Vec<Variable>,
    /// Defaults that differ from the original's, where nothing is set.
    pub defaults: Vec<ChangedDefault>,
    /// What the daemon would warn of.
    pub warnings: Vec<String>,
    /// What keeps the daemon from starting, in its own words.
    pub problems: Vec<String>,
    /// The same settings as a file of ours. Empty when something is refused.
    pub toml: String,
    /// With problems, how a daemon would end: 2 when a flag is to blame, else 1.
    #[serde(skip)]
    pub exit_code: u8,
}

/// A variable that is set.
#[derive(Clone, Debug, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value; `<redacted>` when it must not be shown.
    pub value: String,
    /// `environment`, or the file and line.
    pub origin: String,
    /// The dotted name of the setting; nothing when it is none of ours.
    pub setting: Option<&'static str>,
    /// What it does, in one sentence; empty when it is not read.
    pub meaning: String,
    /// The value in force, which may come from elsewhere; nothing when it is refused or not read.
    pub in_force: Option<String>,
    /// The original's default; nothing when the original does not know the variable.
    pub original_default: Option<&'static str>,
    /// Where the original does something else.
    pub differs: Vec<String>,
    /// Why it is refused.
    pub refused: Option<String>,
}

/// A variable that is not set and has another default here.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedDefault {
    /// Its name.
    pub name: &'static str,
    /// The original's default.
    pub original: &'static str,
    /// What it is here.
    pub differs: Vec<String>,
}

impl Report {
    /// Whether a daemon would refuse to start.
    pub fn is_refused(&self) -> bool {
        !self.problems.is_empty()
    }
}

/// What the machine's environment, files and flags mean. Impure only in `read_file`, like [`super::load()`].
pub fn report(
    args: &ServeArgs,
    env: impl IntoIterator<Item = (OsString, OsString)>,
    read_file: impl FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Report {
    let (strings, problems) = gather(args, env, read_file);
    of(&strings, problems)
}

/// What these strings mean.
pub fn from_env(strings: &Strings) -> Report {
    of(strings, Vec::new())
}

fn of(strings: &Strings, problems: Vec<Problem>) -> Report {
    // What is wrong with the files is found again by the judge.
    let raw = Raw::collect(strings, &mut Vec::new());
    let judged = judged(strings, problems);
    let mut told: BTreeSet<&str> = raw
        .variables
        .iter()
        .filter(|(name, given)| !given.text.is_empty() && concerns_us(name))
        .map(|(name, _)| name.as_str())
        .collect();
    while told.len() > TOLD_MAX {
        told.pop_last();
    }
    let variables = told.iter().map(|name| variable(name, &raw.variables[*name], &judged)).collect();
    let toml = if judged.problems.is_empty() { toml::equivalent(&raw, &judged) } else { String::new() };
    Report {
        variables,
        defaults: changed_defaults(&raw),
        warnings: judged.warnings.iter().map(ToString::to_string).collect(),
        problems: judged.problems.iter().map(ToString::to_string).collect(),
        toml,
        exit_code: if judged.problems.is_empty() { 0 } else { ConfigError::new(judged.problems).exit_code() },
    }
}

/// Variables of the original, ours, and whatever looks like one of them. The rest of an environment is nobody's
/// business, least of all to be printed.
fn concerns_us(name: &str) -> bool {
    let prefixed = ["GUBER_", "FLYBALL_"].iter().any(|prefix| name.starts_with(prefix));
    let kubernetes = name.starts_with("KUBERNETES_SERVICE_");
    (prefixed && !super::unknown::is_foreign(name))
        || (!kubernetes && original(name).is_some())
        || table::by_variable(name)
}

fn setting_of(name: &str) -> Option<&'static Setting> {
    table::all().find(|setting| setting.env.contains(&name))
}

fn variable(name: &str, given: &Given, judged: &Judged) -> Variable {
    let setting = setting_of(name);
    let row = original(name);
    let refused: Vec<_> = judged
        .problems
        .iter()
        .filter(|problem| problem.name == name)
        .map(|problem| problem.advice.clone())
        .collect();
    let refused = (!refused.is_empty()).then(|| refused.join("; "));
    let in_force = setting.filter(|_| refused.is_none()).map(|setting| in_force(setting, judged));
    Variable {
        name: name.to_owned(),
        value: shown(name, setting, &given.text),
        origin: given.origin.to_string(),
        setting: setting.map(|setting| setting.name),
        meaning: setting.map(|setting| first_sentence(setting.doc)).unwrap_or_default(),
        in_force,
        original_default: row.map(|row| row.default),
        differs: row.map(|row| differences(row, Some(&given.text))).unwrap_or_default(),
        refused,
    }
}

/// A value as it may be printed. A name that sounds secret is taken for one, also where nobody knows it.
fn shown(name: &str, setting: Option<&Setting>, text: &str) -> String {
    let sounds_secret = ["SECRET", "PASSWORD", "TOKEN", "HEADERS"].iter().any(|word| name.contains(word));
    match setting {
        Some(setting) if setting.secret => "<redacted>".to_owned(),
        None if sounds_secret => "<redacted>".to_owned(),
        Some(setting) => setting.shown(text),
        None => super::error::without_credentials(text),
    }
}

fn in_force(setting: &Setting, judged: &Judged) -> String {
    match (setting.field.show)(&judged.config) {
        text if setting.secret && !text.is_empty() => "<redacted>".to_owned(),
        text => setting.shown(&text),
    }
}

fn first_sentence(doc: &str) -> String {
    doc.split(". ").next().unwrap_or(doc).trim_end_matches('.').to_owned()
}

/// What is different for this value; `None` is a variable that is not set.
fn differences(row: &Original, text: Option<&str>) -> Vec<String> {
    row.differs
        .iter()
        .filter(|difference| match (difference.when, text) {
            (When::Set, Some(_)) | (When::Unset, None) => true,
            (When::Value(values), Some(text)) => values.iter().any(|value| value.eq_ignore_ascii_case(text)),
            _ => false,
        })
        .map(|difference| marked(difference.id, difference.text))
        .collect()
}

fn marked(id: &str, text: &str) -> String {
    if id.is_empty() { text.to_owned() } else { format!("{text} ({id})") }
}

fn changed_defaults(raw: &Raw) -> Vec<ChangedDefault> {
    let is_set = |name: &str| raw.variables.get(name).is_some_and(|given| !given.text.is_empty());
    // What our own file or a flag says is no default either.
    let given = |name: &str| match setting_of(name) {
        Some(setting) => raw.given(setting).is_some(),
        None => is_set(name),
    };
    let mut changed = Vec::new();
    if !given("FLYBALL_SEMANTICS") {
        changed.push(ChangedDefault {
            name: "FLYBALL_SEMANTICS",
            original: "its own answers",
            differs: vec![SEMANTICS_UNSET.to_owned()],
        });
    }
    for row in ORIGINALS.iter().filter(|row| !given(row.variable)) {
        // An endpoint switches the exporter on, so there is nothing to tell.
        let exports = row.variable == "OTEL_TRACES_EXPORTER"
            && (is_set("OTEL_EXPORTER_OTLP_ENDPOINT") || is_set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"));
        let differs = differences(row, None);
        if !differs.is_empty() && !exports {
            changed.push(ChangedDefault { name: row.variable, original: row.default, differs });
        }
    }
    changed
}

/// The migration guide's table of variables, as Markdown.
pub fn variables_table() -> String {
    let mut text = String::from("| variable | default there | here | what differs |\n|---|---|---|---|\n");
    for row in ORIGINALS {
        let here = match setting_of(row.variable) {
            Some(setting) if setting.default.is_empty() => {
                format!("`{}`; without it: {}", setting.name, setting.without)
            }
            Some(setting) => format!("`{}`, `{}`", setting.name, setting.default),
            None if row.unread => "not read".to_owned(),
            None => "refused: not in this version".to_owned(),
        };
        let differs: Vec<_> = row
            .differs
            .iter()
            .map(|difference| {
                let when = match difference.when {
                    When::Set => String::new(),
                    When::Unset => "Not set: ".to_owned(),
                    When::Value(values) => format!("`{}`: ", values.join("`, `")),
                };
                marked(difference.id, &format!("{when}{}", difference.text))
            })
            .collect();
        let differs = if differs.is_empty() { "–".to_owned() } else { differs.join(". ") };
        writeln!(text, "| `{}` | {} | {here} | {differs} |", row.variable, row.default)
            .expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests;
