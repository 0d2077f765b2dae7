//! What is wrong with a configuration, in the words of somebody who has to put it right.

use std::fmt;

use super::raw::{Given, Origin};
use super::table::Setting;

/// One thing that keeps the daemon from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable, key or flag as it was given; empty when a whole file is wrong.
    pub name: String,
    /// The value as it was given; `None` when it must not be shown or there is none.
    pub value: Option<String>,
    /// Where it was given.
    pub origin: Origin,
    /// What was expected, or what to do.
    pub advice: String,
}

impl Problem {
    /// A value of a setting that will not do.
    pub(super) fn value(setting: &Setting, given: &Given, advice: impl Into<String>) -> Self {
        Self {
            name: given.origin.given_as(),
            value: (!setting.secret).then(|| setting.shown(&given.text)),
            origin: given.origin.clone(),
            advice: advice.into(),
        }
    }

    /// A file that cannot be used.
    pub(super) fn file(path: &str, advice: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            value: None,
            origin: Origin::File { file: path.to_owned() },
            advice: advice.into(),
        }
    }
}

/// Longest part of a value that is repeated in a message, in characters.
const SHOWN_MAX: usize = 80;

/// The text of a URL without what may be a secret: everything before the last `@`, and a query or fragment. Rather
/// too much than too little, since what is wrong with it may be that it cannot be taken apart.
pub(crate) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = match url.find("://") {
        Some(end) => url.split_at(end + 3),
        None => ("", url),
    };
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("<redacted>@", rest),
        None => ("", rest),
    };
    match rest.find(['?', '#']) {
        Some(start) => {
            let (rest, mark) = (&rest[..start], &rest[start..=start]);
            format!("{scheme}{credentials}{rest}{mark}<redacted>")
        }
        None => format!("{scheme}{credentials}{rest}"),
    }
}

/// A value between quotes, on one line whatever it contains.
pub(super) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    // Quotes inside are the reader's to see, not to puzzle over.
    let shown = shown.replace("\\\"", "\"").replace("\\'", "'");
    if text.chars().nth(SHOWN_MAX).is_some() { format!("'{shown}...'") } else { format!("'{shown}'") }
}

impl fmt::Display for Problem {
    /// One line: `NAME='value' (origin): what is expected`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.origin, &self.value) {
            (Origin::File { file }, _) => write!(f, "{file}: {}", self.advice),
            (origin, Some(value)) => {
                let value = quoted(value);
                write!(f, "{}={value} ({origin}): {}", quoted_name(&self.name), self.advice)
            }
            (origin, None) => write!(f, "{} ({origin}): {}", quoted_name(&self.name), self.advice),
        }
    }
}

/// A name as it is, unless it holds something that would break the line.
fn quoted_name(name: &str) -> String {
    match name.chars().any(|c| c.is_control()) || name.chars().nth(SHOWN_MAX).is_some() {
        true => quoted(name),
        false => name.to_owned(),
    }
}

/// Everything that keeps the daemon from starting; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
    /// Problems beyond [`PROBLEMS_MAX`].
    more: usize,
    usage: bool,
}

/// At most so many problems are kept and shown: a file that is something else entirely has thousands.
const PROBLEMS_MAX: usize = 100;

impl ConfigError {
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        debug_assert!(!problems.is_empty(), "an error says what is wrong");
        let usage = problems.iter().any(|problem| matches!(problem.origin, Origin::Flag { .. }));
        let more = problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        Self { problems, more, usage }
    }

    /// What is wrong, files first, then in the order of the reference page.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// 2 when the command line itself is wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        if self.usage { 2 } else { 1 }
    }
}

impl fmt::Display for ConfigError {
    /// One problem is one line; several are a headline and one line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [problem] => problem.fmt(f),
            problems => {
                write!(f, "{} problems in the configuration:", problems.len() + self.more)?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))?;
                if self.more > 0 { write!(f, "\n  and {} more", self.more) } else { Ok(()) }
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// Something that looks like a mistake but lets the daemon start. To be logged once, by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub(super) String);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
