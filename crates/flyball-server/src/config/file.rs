//! The two kinds of configuration file, taken apart into names and texts.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::error::Problem;
use super::raw::{Given, Origin, SourceFile};
use super::{table, unknown};

/// The original's format: a line is `NAME=value`, cut at the first `=`, both sides trimmed. Skipped are empty
/// lines and those whose first character is `#`, a space or a tab. No quotes, no continuation, no comments
/// after a value.
///
/// Lines without `=` are reported in the original's words, which count lines from 0; a carriage return alone is
/// such a line.
pub(super) fn read_key_value(
    source: &SourceFile,
    text: &str,
    variables: &mut BTreeMap<String, Given>,
    problems: &mut Vec<Problem>,
) {
    let mut malformed = 0;
    for (index, line) in text.split('\n').enumerate() {
        if line.is_empty() || line.starts_with(['#', ' ', '\t']) {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            malformed += 1;
            if malformed <= unknown::REPORTED_MAX {
                let advice = format!(
                    "malformed key=value on line '{index}' (counted from 0); expected NAME=value or # comment"
                );
                problems.push(Problem::file(&source.path, advice));
            }
            continue;
        };
        let name = name.trim().to_owned();
        let origin = Origin::KeyValue { file: source.path.clone(), line: index + 1, name: name.clone() };
        variables.insert(name, Given { text: value.trim().to_owned(), origin });
    }
    if malformed > unknown::REPORTED_MAX {
        let more = malformed - unknown::REPORTED_MAX;
        problems.push(Problem::file(&source.path, format!("{more} more malformed lines")));
    }
}

/// Our own format. Every key must be known; a text, a number, a truth value or an array of them is the text
/// that the setting's variable would hold.
pub(super) fn read_toml(
    source: &SourceFile,
    text: &str,
    known: &mut BTreeMap<String, Given>,
    problems: &mut Vec<Problem>,
) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let line = error.span().map(|span| {
                let before = text.get(..span.start).unwrap_or(text);
                before.bytes().filter(|byte| *byte == b'\n').count() + 1
            });
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let message = error.message().lines().collect::<Vec<_>>().join(" ");
            problems.push(Problem::file(&source.path, format!("not valid TOML: {place}{message}")));
            return;
        }
    };
    let mut leaves = Vec::new();
    flatten("", table, &mut leaves);
    let mut strangers = 0;
    for (key, value) in leaves {
        let origin = Origin::Toml { file: source.path.clone(), key: key.clone() };
        if table::by_name(&key).is_none() {
            strangers += 1;
            if strangers <= unknown::REPORTED_MAX {
                let advice = format!("no such setting{}", unknown::did_you_mean(&key, table::names()));
                problems.push(Problem { name: key, value: None, origin, advice });
            }
            continue;
        }
        match as_text(&value) {
            Some(text) => {
                known.insert(key, Given { text, origin });
            }
            None => problems.push(Problem {
                name: key,
                value: None,
                origin,
                advice: "expected a text, a whole number, true or false, or an array of them".to_owned(),
            }),
        }
    }
    if strangers > unknown::REPORTED_MAX {
        let more = strangers - unknown::REPORTED_MAX;
        problems.push(Problem::file(&source.path, format!("{more} more unknown settings")));
    }
}

/// The values of a document under their dotted names. An empty table says nothing, known or not; the depth is
/// bounded by the parser.
fn flatten(prefix: &str, table: Table, leaves: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) => flatten(&path, inner, leaves),
            value => leaves.push((path, value)),
        }
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) if number.is_finite() => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        Value::Array(items) => {
            let texts: Option<Vec<_>> = items
                .iter()
                .map(|item| match item {
                    // A comma inside would make two items of one.
                    Value::String(text) if !text.contains(',') => Some(text.clone()),
                    Value::Integer(number) => Some(number.to_string()),
                    _ => None,
                })
                .collect();
            texts.map(|texts| texts.join(","))
        }
        Value::Float(_) | Value::Datetime(_) | Value::Table(_) => None,
    }
}
