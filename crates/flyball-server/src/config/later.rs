//! Variables of the original whose feature this version lacks. They are refused, not ignored: a node that was
//! told to join a cluster or to speak TLS and quietly did neither would be worse than one that does not start.
//!
//! A whole prefix is refused, since the original too goes by prefixes. The names are known one by one for the
//! reference page and for suggestions. Empty values are no values, here as everywhere.

use super::error::Problem;
use super::raw::Raw;

/// A feature to come, with its variables.
#[derive(Debug)]
pub(super) struct Feature {
    /// What the page and the message call it.
    pub(super) name: &'static str,
    /// Every variable that begins so belongs to it.
    prefix: &'static str,
    /// Its variables.
    pub(super) variables: &'static [&'static str],
}

const fn feature(name: &'static str, prefix: &'static str, variables: &'static [&'static str]) -> Feature {
    Feature { name, prefix, variables }
}

/// Whether the variable's value must not be shown.
fn is_secret(variable: &str) -> bool {
    variable.contains("SECRET") || variable.contains("PASSWORD")
}

/// In the order of the reference page.
pub(super) const FEATURES: [Feature; 1] = [feature(
    "TLS to the collector of traces",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    &[
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    ],
)];

/// The feature a variable belongs to.
fn owner(variable: &str) -> Option<&'static Feature> {
    FEATURES
        .iter()
        .find(|feature| variable.starts_with(feature.prefix) || feature.variables.contains(&variable))
}

/// Whether the variable belongs to a feature to come.
pub(super) fn is_known(variable: &str) -> bool {
    owner(variable).is_some()
}

/// All their names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().flat_map(|feature| feature.variables.iter().copied())
}

/// A problem for each that was given.
pub(super) fn refuse(raw: &Raw, problems: &mut Vec<Problem>) {
    for (name, given) in raw.variables.iter().filter(|(_, given)| !given.text.is_empty()) {
        let Some(feature) = owner(name) else { continue };
        problems.push(Problem {
            name: name.clone(),
            value: (!is_secret(name)).then(|| given.text.clone()),
            origin: given.origin.clone(),
            advice: format!("{} is not available in this version; unset the variable", feature.name),
        });
    }
}
