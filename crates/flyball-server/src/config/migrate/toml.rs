//! The settings that were given, as our own file says them.

use super::super::load::Judged;
use super::super::raw::{Origin, Raw};
use super::super::table::{self, Setting};

const HEAD: &str = "# What the present environment says, as a file of flyball's own: flyball serve --config FILE.toml\n\
                    # The environment is stronger than this file; take out there what is said here.\n";

/// A file with the meaning of everything that was given. The values are the given texts, which the file reads as the
/// environment does; only the log level is that in force, since `debug` may have had a say in it.
pub(super) fn equivalent(raw: &Raw, judged: &Judged) -> String {
    let given: Vec<(&Setting, String)> = table::all()
        .zip(&judged.origins)
        .filter(|(setting, origin)| **origin != Origin::Default && setting.name != "log.debug")
        .chain(level_from_debug(judged))
        .map(|(setting, _)| (setting, line(setting, raw, judged)))
        .collect();
    let mut text = HEAD.to_owned();
    // Keys without a table first: after a headline they would belong to it.
    for (_, line) in given.iter().filter(|(setting, _)| !setting.name.contains('.')) {
        text.push_str(line);
    }
    let mut tables: Vec<&str> = Vec::new();
    for table in given.iter().filter_map(|(setting, _)| setting.name.rsplit_once('.')).map(|(table, _)| table)
    {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    for table in tables {
        text.push_str(&format!("\n[{table}]\n"));
        let within = |setting: &&(&Setting, String)| {
            setting.0.name.rsplit_once('.').is_some_and(|(its, _)| its == table)
        };
        for (_, line) in given.iter().filter(within) {
            text.push_str(line);
        }
    }
    text
}

/// The log level, when only `debug` was given.
fn level_from_debug(judged: &Judged) -> Option<(&'static Setting, &Origin)> {
    let origin = |name| table::all().zip(&judged.origins).find(|(setting, _)| setting.name == name);
    let (level, debug) = (origin("log.level")?, origin("log.debug")?);
    (*level.1 == Origin::Default && *debug.1 != Origin::Default).then_some(level)
}

fn line(setting: &Setting, raw: &Raw, judged: &Judged) -> String {
    let key = setting.name.rsplit_once('.').map_or(setting.name, |(_, key)| key);
    let text = match (setting.name, raw.given(setting)) {
        ("log.level", _) | (_, None) => (setting.field.show)(&judged.config),
        (_, Some(given)) => given.text.clone(),
    };
    if setting.secret || setting.shown(&text) != text {
        return format!("# {key}: not repeated here; keep it in {}\n", setting.env[0]);
    }
    let bare = text.parse::<i64>().is_ok_and(|number| number.to_string() == text)
        || matches!(text.as_str(), "true" | "false");
    match bare {
        true => format!("{key} = {text}\n"),
        false => format!("{key} = {}\n", toml::Value::String(text)),
    }
}
