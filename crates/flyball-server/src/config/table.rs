//! One row per setting: its names, its kind, its default, its documentation, and its field in [`Config`].
//!
//! Everything that must agree about settings is made from these rows: parsing, defaults, flags, the effective
//! configuration, the reference page and the example files. A new setting is a new row and a new field.

use super::error::without_credentials;
use super::values::Value;
use super::{Config, etcd_rows, kubernetes_rows, memberlist_rows, otel_rows, peer_rows, rows, tls_rows};

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Dotted name, the key in our TOML file. Also the setting's identity.
    pub name: &'static str,
    /// Its variables, the one that counts first: the original's name where it has one, the standard name for
    /// OpenTelemetry, `FLYBALL_` and the dotted name for what is new.
    pub env: &'static [&'static str],
    /// Its flag without dashes.
    pub flag: Option<&'static str>,
    /// What its values look like.
    pub kind: &'static str,
    /// The default as text; empty when there is none.
    pub default: &'static str,
    /// What happens without a value, where there is no default.
    pub without: &'static str,
    /// What it does. The first sentence stands alone in short help.
    pub doc: &'static str,
    /// Where it stands in the reference page.
    pub section: Section,
    /// Whom it matters to.
    pub scope: Scope,
    /// Its value is never shown.
    pub secret: bool,
    /// It is a URL, of which only the address is shown.
    pub url: bool,
    pub(super) field: Field,
}

/// Part of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// How checks are judged.
    Rules,
    /// Where the node listens and what it is called.
    Addresses,
    /// The bucket store.
    Store,
    /// Start and stop.
    Lifecycle,
    /// Logs and metrics.
    Logs,
    /// Peers.
    Cluster,
    /// TLS.
    Tls,
    /// Traces.
    Traces,
}

impl Section {
    /// All, in the order of the page.
    pub const ALL: [Self; 8] = [
        Self::Rules,
        Self::Addresses,
        Self::Store,
        Self::Lifecycle,
        Self::Logs,
        Self::Cluster,
        Self::Tls,
        Self::Traces,
    ];

    /// Its headline.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rules => "How checks are judged",
            Self::Addresses => "Addresses and names",
            Self::Store => "Memory",
            Self::Lifecycle => "Start and stop",
            Self::Logs => "Logs and metrics",
            Self::Cluster => "Peers",
            Self::Tls => "TLS",
            Self::Traces => "Traces",
        }
    }
}

/// Whom a setting matters to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every node.
    Node,
    /// A node with peers. A cluster of one accepts and checks it, so that one file serves both.
    Cluster,
}

/// The way from a text to a field of [`Config`] and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) kind: &'static str,
    /// Reads the text into the field; the error says what was expected.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    /// The field as text.
    pub(super) show: fn(&Config) -> String,
    /// A number for which the original cannot tell 0 from "not set": 0 leaves the default.
    pub(super) zero_is_default: bool,
}

/// The kind of a field, without a value of it at hand.
pub(super) const fn kind_of<T: Value>(_: fn(&Config) -> &T) -> &'static str {
    T::KIND
}

/// Writes `text` into `field`, unless it is a zero that means "the default".
pub(super) fn put<T: Value>(field: &mut T, text: &str, zero_is_default: bool) -> Result<(), String> {
    let value = T::parse(text)?;
    if !(zero_is_default && value.is_zero()) {
        *field = value;
    }
    Ok(())
}

/// The [`Field`] at a path of [`Config`]; with `zero = default` for the original's numbers.
macro_rules! field {
    (@make $zero:literal, $($path:ident).+) => {
        $crate::config::table::Field {
            kind: $crate::config::table::kind_of(|config| &config.$($path).+),
            set: |config, text| $crate::config::table::put(&mut config.$($path).+, text, $zero),
            show: |config| $crate::config::values::Value::show(&config.$($path).+),
            zero_is_default: $zero,
        }
    };
    ($($path:ident).+, zero = default) => { field!(@make true, $($path).+) };
    ($($path:ident).+) => { field!(@make false, $($path).+) };
}
pub(super) use field;

impl Setting {
    pub(super) const fn new(
        section: Section,
        name: &'static str,
        env: &'static [&'static str],
        field: Field,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            env,
            flag: None,
            kind: field.kind,
            default: "",
            without: "",
            doc,
            section,
            scope: Scope::Node,
            secret: false,
            url: false,
            field,
        }
    }

    pub(super) const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    /// In place of a default: what happens without a value.
    pub(super) const fn without(mut self, without: &'static str) -> Self {
        self.without = without;
        self
    }

    pub(super) const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    pub(super) const fn cluster(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    pub(super) const fn url(mut self) -> Self {
        self.url = true;
        self
    }

    /// A value as it may be shown, when it may be shown at all.
    pub(super) fn shown(&self, text: &str) -> String {
        match self.url || text.contains("://") {
            true => without_credentials(text),
            false => text.to_owned(),
        }
    }

    pub(super) const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Whether 0 means the default.
    pub const fn zero_is_default(&self) -> bool {
        self.field.zero_is_default
    }

    /// The default, or in words what happens without a value.
    pub const fn default_text(&self) -> &'static str {
        if self.default.is_empty() { self.without } else { self.default }
    }
}

/// All settings in the order of the reference page, in the parts they are written in; `all` joins them.
pub const SETTINGS: [&[Setting]; 7] = [
    &rows::ROWS,
    &peer_rows::ROWS,
    &memberlist_rows::ROWS,
    &etcd_rows::ROWS,
    &kubernetes_rows::ROWS,
    &tls_rows::ROWS,
    &otel_rows::ROWS,
];

/// All settings.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.into_iter().flatten()
}

/// The setting with this dotted name.
pub(super) fn by_name(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}

/// Whether a setting has this variable.
pub(super) fn by_variable(variable: &str) -> bool {
    variables().any(|known| known == variable)
}

/// All dotted names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|setting| setting.name)
}

/// All variables.
pub(super) fn variables() -> impl Iterator<Item = &'static str> {
    all().flat_map(|setting| setting.env.iter().copied())
}
