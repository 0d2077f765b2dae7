//! Names nobody knows, and the one that was probably meant.
//!
//! Only names that are ours to judge are judged: `GUBER_*` and `FLYBALL_*` in the environment and in files, and
//! in a `KEY=VALUE` file, which was written for this program, also whatever is nearly one of our names.

use super::error::Warning;
use super::raw::{Origin, Raw};
use super::{later, table};

/// At most so many unknown names are reported one by one: enough for every honest mistake, and a bound for a
/// file that is no configuration at all.
pub(super) const REPORTED_MAX: usize = 20;

/// Longer names get no suggestion; none of ours comes near, and comparing costs the product of the lengths.
const COMPARED_MAX: usize = 64;

/// Names in a file that are not ours by prefix: at most so many are compared with all of ours.
const STRANGERS_MAX: usize = 200;

/// `; did you mean x?`, or nothing when no name is near.
pub(super) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map(|known| format!("; did you mean {known}?")).unwrap_or_default()
}

/// The known name with the fewest typing mistakes between it and `name`, if that is at most a third of it.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > COMPARED_MAX {
        return None;
    }
    known
        // The lengths alone may show that the distance is too great.
        .filter(|known| known.len().abs_diff(name.len()) <= known.len() / 3)
        .map(|known| (strsim::osa_distance(name, known), known))
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Names in our prefix that are set by others: the variables Kubernetes makes for a service called `flyball`
/// or `guber`, and the test suite's own.
pub(super) fn is_foreign(name: &str) -> bool {
    ["FLYBALL_", "GUBER_"]
        .iter()
        .filter_map(|prefix| name.strip_prefix(prefix))
        .any(|rest| rest == "PORT" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_"))
        || name.starts_with("FLYBALL_TEST_")
        || name == "FLYBALL_BLESS"
}

/// A warning for each unknown name.
pub(super) fn variables(raw: &Raw) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut more = 0usize;
    let mut strangers = 0usize;
    for (name, given) in &raw.variables {
        let in_file = matches!(given.origin, Origin::KeyValue { .. });
        let ours = name.starts_with("GUBER_") || name.starts_with("FLYBALL_");
        if !(ours || in_file) || is_foreign(name) || table::by_variable(name) || later::is_known(name) {
            continue;
        }
        if warnings.len() >= REPORTED_MAX {
            more += usize::from(ours);
            continue;
        }
        let known = || table::variables().chain(later::names());
        if ours {
            let hint = did_you_mean(name, known());
            let name = super::error::quoted(name);
            warnings.push(Warning(format!("unknown variable {name} ({}){hint}", given.origin)));
            continue;
        }
        strangers += 1;
        if strangers <= STRANGERS_MAX
            && let Some(meant) = nearest(name, known())
            && strsim::osa_distance(name, meant) <= 2
        {
            let name = super::error::quoted(name);
            let origin = &given.origin;
            warnings.push(Warning(format!("unknown variable {name} ({origin}); did you mean {meant}?")));
        }
    }
    if more > 0 {
        warnings.push(Warning(format!("{more} more unknown variables")));
    }
    warnings
}
