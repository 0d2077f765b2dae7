//! From strings to a [`Config`], and from the machine to strings.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;

use super::error::{ConfigError, Problem, Warning};
use super::raw::{Effective, Origin, Raw, SourceFile, Strings};
use super::{Config, ServeArgs, check, later, table, tls, unknown};

/// Largest configuration file that is read, in bytes. A path that names something endless must not fill the
/// memory.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// A configuration, with what there is to say about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What looks like a mistake; to be logged once logging is up.
    pub warnings: Vec<Warning>,
    origins: Vec<Origin>,
}

impl Loaded {
    /// Every setting with the value in force and where it came from, in the order of the reference page.
    /// Secrets are not in it.
    pub fn effective(&self) -> Vec<Effective> {
        table::all()
            .zip(&self.origins)
            .map(|(setting, origin)| {
                let value = match (setting.field.show)(&self.config) {
                    value if setting.secret && !value.is_empty() => "<redacted>".to_owned(),
                    value => setting.shown(&value),
                };
                Effective { name: setting.name, variable: setting.env[0], value, origin: describe(origin) }
            })
            .collect()
    }
}

/// The origin together with the name the value was given under.
fn describe(origin: &Origin) -> String {
    match origin {
        Origin::Default | Origin::File { .. } => origin.to_string(),
        _ => format!("{origin}: {}", origin.given_as()),
    }
}

/// The configuration that these strings make, or everything that is wrong with them.
pub fn from_strings(strings: &Strings) -> Result<Loaded, ConfigError> {
    judge(strings, Vec::new())
}

/// The same, after some problems were already met.
fn judge(strings: &Strings, problems: Vec<Problem>) -> Result<Loaded, ConfigError> {
    let Judged { config, origins, warnings, problems } = judged(strings, problems);
    if problems.is_empty() {
        Ok(Loaded { config, warnings, origins })
    } else {
        Err(ConfigError::new(problems))
    }
}

/// A configuration with everything there is to say about it. With problems it is what the other values make.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) config: Config,
    /// In the order of the table.
    pub(super) origins: Vec<Origin>,
    pub(super) warnings: Vec<Warning>,
    pub(super) problems: Vec<Problem>,
}

/// Reads every setting, and finds everything that is wrong, beside the problems that were already met.
pub(super) fn judged(strings: &Strings, mut problems: Vec<Problem>) -> Judged {
    let raw = Raw::collect(strings, &mut problems);
    let mut config = Config::default();
    let mut scratch = config.clone();
    let mut origins = Vec::new();
    for setting in table::all() {
        let given = raw.given(setting);
        if let Some(given) = given
            && let Err(expected) = (setting.field.set)(&mut config, &given.text)
        {
            problems.push(Problem::value(setting, given, expected));
        }
        // What a stronger source hides is judged too: whoever takes that one away must not meet a new mistake.
        for hidden in raw.hidden(setting) {
            if let Err(expected) = (setting.field.set)(&mut scratch, &hidden.text) {
                problems.push(Problem::value(setting, hidden, expected));
            }
        }
        origins.push(given.map_or(Origin::Default, |given| given.origin.clone()));
    }
    later::refuse(&raw, &mut problems);
    let mut warnings = unknown::variables(&raw);
    check::check(&mut config, &raw, strings, &mut problems, &mut warnings);
    Judged { config, origins, warnings, problems }
}

/// Gathers the strings and makes the configuration. The only impure thing here is `read_file`.
///
/// Variables that are no UTF-8 are wrong if they are ours, and nobody's business otherwise.
pub fn load(
    args: &ServeArgs,
    env: impl IntoIterator<Item = (OsString, OsString)>,
    read_file: impl FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Result<Loaded, ConfigError> {
    let (strings, problems) = gather(args, env, read_file);
    judge(&strings, problems)
}

/// What the machine says, for [`load`] and for [`super::report`]; with what could not be read at all.
pub(super) fn gather(
    args: &ServeArgs,
    env: impl IntoIterator<Item = (OsString, OsString)>,
    mut read_file: impl FnMut(&Path) -> io::Result<Vec<u8>>,
) -> (Strings, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut strings =
        Strings { flags: args.flags.clone(), zones: jiff::tz::db().clone(), ..Strings::default() };
    for (name, value) in env {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => strings.env.push((name, value)),
            Err(_) if table::by_variable(&name) || later::is_known(&name) || tls::turns_on(&name) => problems
                .push(Problem {
                    origin: Origin::Environment { name: name.clone() },
                    name,
                    value: None,
                    advice: "expected a value that is valid UTF-8".to_owned(),
                }),
            Err(_) => {}
        }
    }
    for path in &args.config {
        let shown = path.display().to_string();
        match read_file(path).map(String::from_utf8) {
            Ok(Ok(text)) if text.len() <= FILE_BYTES_MAX => {
                strings.files.push(SourceFile { path: shown, text });
            }
            Ok(Ok(_)) => problems.push(Problem::file(&shown, "expected a configuration of at most 1 MiB")),
            Ok(Err(_)) => problems.push(Problem::file(&shown, "expected a text file that is valid UTF-8")),
            Err(error) => {
                let advice = format!(
                    "cannot read the configuration file: {error}; correct --config or its permissions"
                );
                problems.push(Problem::file(&shown, advice));
            }
        }
    }
    (strings, problems)
}

/// Reads a configuration file, but not much more than [`FILE_BYTES_MAX`] of it. For [`load`].
///
/// # Errors
/// It cannot be read, or is no regular file (or a link to one): a pipe or a terminal would hang the start.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Before opening it, since opening a pipe waits for its writer.
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "it is a directory" } else { "it is a pipe or a device" };
        return Err(io::Error::other(format!("{what}, not a regular file")));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
