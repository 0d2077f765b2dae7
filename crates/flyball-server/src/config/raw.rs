//! What was given, before anybody asks what it means: texts with their origin, and which of them counts.

use std::collections::BTreeMap;
use std::fmt;

use jiff::tz::TimeZoneDatabase;
use serde::Serialize;

use super::error::Problem;
use super::file;
use super::table::{self, Setting};

/// Everything a configuration is made from. Tests and fuzzers fill it by hand; [`super::load()`] fills it from
/// the machine.
#[derive(Clone, Debug)]
pub struct Strings {
    /// The environment, in any order; of two equal names the later counts.
    pub env: Vec<(String, String)>,
    /// The files named on the command line, in that order; what a later one says counts.
    pub files: Vec<SourceFile>,
    /// Flags by their long name without dashes, with their value; of two equal names the later counts.
    pub flags: Vec<(String, String)>,
    /// Where time zones are looked up first; what it lacks comes from the data that is compiled in.
    pub zones: TimeZoneDatabase,
}

impl Default for Strings {
    /// Nothing given, and the zones that are compiled in.
    fn default() -> Self {
        Self { env: Vec::new(), files: Vec::new(), flags: Vec::new(), zones: TimeZoneDatabase::bundled() }
    }
}

/// A configuration file: TOML when its name ends in `.toml`, else the original's `KEY=VALUE` lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As given on the command line; only shown, and asked for its ending.
    pub path: String,
    /// What it says.
    pub text: String,
}

impl SourceFile {
    pub(super) fn is_toml(&self) -> bool {
        self.path.to_ascii_lowercase().ends_with(".toml")
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody gave one.
    Default,
    /// Our own file, and the dotted key in it.
    Toml {
        /// The file.
        file: String,
        /// The dotted key.
        key: String,
    },
    /// A variable of the environment.
    Environment {
        /// Its name.
        name: String,
    },
    /// A line of a `KEY=VALUE` file.
    KeyValue {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The variable.
        name: String,
    },
    /// A flag.
    Flag {
        /// Its long name, without dashes.
        name: String,
    },
    /// A whole file, where no single value is to blame.
    File {
        /// The file.
        file: String,
    },
}

impl Origin {
    /// The name the value was given under; empty for a default and a whole file.
    pub fn given_as(&self) -> String {
        match self {
            Self::Default | Self::File { .. } => String::new(),
            Self::Toml { key, .. } => key.clone(),
            Self::Environment { name } | Self::KeyValue { name, .. } => name.clone(),
            Self::Flag { name } => format!("--{name}"),
        }
    }

    /// How strong it is: of two values the one with the higher rank counts.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Toml { .. } => 1,
            Self::Environment { .. } => 2,
            Self::KeyValue { .. } | Self::File { .. } => 3,
            Self::Flag { .. } => 4,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Toml { file, .. } | Self::File { file } => f.write_str(file),
            Self::Environment { .. } => f.write_str("environment"),
            Self::KeyValue { file, line, .. } => write!(f, "{file}:{line}"),
            Self::Flag { .. } => f.write_str("command line"),
        }
    }
}

/// A text that is not empty, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// All texts by the name they were given under. Empty texts are kept: in the environment an empty line of the
/// file hides the variable of the same name.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) toml: BTreeMap<String, Given>,
    /// The environment with the `KEY=VALUE` files written over it, as the original does.
    pub(super) variables: BTreeMap<String, Given>,
    flags: BTreeMap<String, Given>,
}

impl Raw {
    /// Sorts what was given. Files that cannot be read as what they claim to be are problems; whatever they
    /// did say still counts, so that its mistakes are reported too.
    pub(super) fn collect(strings: &Strings, problems: &mut Vec<Problem>) -> Self {
        let mut raw = Self::default();
        for (name, text) in &strings.env {
            let origin = Origin::Environment { name: name.clone() };
            raw.variables.insert(name.clone(), Given { text: text.clone(), origin });
        }
        for source in &strings.files {
            // Some editors begin a text with a byte order mark.
            let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
            if source.is_toml() {
                file::read_toml(source, text, &mut raw.toml, problems);
            } else {
                file::read_key_value(source, text, &mut raw.variables, problems);
            }
        }
        for (name, text) in &strings.flags {
            let origin = Origin::Flag { name: name.clone() };
            raw.flags.insert(name.clone(), Given { text: text.clone(), origin });
        }
        raw
    }

    /// The text that counts for a setting, if anybody gave one.
    pub(super) fn given<'a>(&'a self, setting: &'a Setting) -> Option<&'a Given> {
        self.all_given(setting).next()
    }

    /// The texts that do not count because a stronger source has one.
    pub(super) fn hidden<'a>(&'a self, setting: &'a Setting) -> impl Iterator<Item = &'a Given> {
        self.all_given(setting).skip(1)
    }

    /// All texts for a setting that are not empty, the strongest first.
    fn all_given<'a>(&'a self, setting: &'a Setting) -> impl Iterator<Item = &'a Given> {
        let flag = setting.flag.and_then(|name| self.flags.get(name));
        let variables = setting.env.iter().filter_map(|name| self.variables.get(*name));
        let toml = self.toml.get(setting.name);
        flag.into_iter().chain(variables).chain(toml).filter(|given| !given.text.is_empty())
    }

    /// The same by name. For the few checks that look across settings.
    pub(super) fn given_by_name(&self, name: &str) -> Option<&Given> {
        table::by_name(name).and_then(|setting| self.given(setting))
    }
}

/// A setting as it is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// Its dotted name, as in the TOML file.
    pub name: &'static str,
    /// Its variable.
    pub variable: &'static str,
    /// Its value as text; empty when it has none, `<redacted>` when it is a secret.
    pub value: String,
    /// `default`, or where it was set.
    pub origin: String,
}
