//! `flyball config --from-env`: what the environment of a running Gubernator means under flyball, variable by
//! variable. What is said is [`flyball_server::config`]'s; this is how it looks.

use flyball_server::config::{self, Report, ServeArgs, Variable};

use crate::exit::Exit;
use crate::output::{self, BAD, GOOD, LATER, foreign, styled};

pub(crate) fn run(settings: &ServeArgs, json: bool) -> anyhow::Result<Exit> {
    let report = config::report(settings, std::env::vars_os(), config::read_file);
    if json {
        output::line(&serde_json::to_string(&report)?)?;
    } else {
        output::print(&text(&report))?;
        report.warnings.iter().for_each(|warning| output::warning(&foreign(warning)));
        report.problems.iter().for_each(|problem| output::error(&foreign(problem)));
    }
    Ok(if report.is_refused() { Exit::Invalid(report.exit_code) } else { Exit::Success })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |words: &str| {
        text.push_str(words);
        text.push('\n');
    };
    match report.variables.len() {
        0 => line("no variable of Gubernator or flyball is set"),
        1 => line("1 variable is set"),
        count => line(&format!("{count} variables are set")),
    }
    for variable in &report.variables {
        line("");
        about(variable, &mut line);
    }
    if !report.defaults.is_empty() {
        line("\nNot set, and not the same as Gubernator's default");
        for default in &report.defaults {
            line(&format!("\n{} (there: {})", default.name, default.original));
            default.differs.iter().for_each(|differs| line(&differs_line(differs)));
        }
    }
    if !report.toml.is_empty() && !report.variables.is_empty() {
        line("\nThe same as a file of flyball's own\n");
        line(foreign_lines(&report.toml).trim_end());
    }
    line(&match report.problems.len() {
        0 => format!("\n{}: flyball starts with this environment", styled(GOOD, "accepted")),
        1 => format!("\n{}: flyball does not start with this environment", styled(BAD, "refused")),
        count => {
            format!(
                "\n{}: flyball does not start with this environment, for {count} reasons",
                styled(BAD, "refused")
            )
        }
    });
    text
}

fn about(variable: &Variable, line: &mut impl FnMut(&str)) {
    line(&format!(
        "{}={}  ({})",
        foreign(&variable.name),
        foreign(&variable.value),
        foreign(&variable.origin)
    ));
    match variable.setting {
        Some(setting) => line(&format!("  {setting}: {}", variable.meaning)),
        None => line("  not read"),
    }
    match (&variable.in_force, &variable.refused) {
        (_, Some(why)) => line(&format!("  {}: {}", styled(BAD, "refused"), foreign(why))),
        (Some(value), None) if *value != variable.value => line(&format!("  in force: {}", foreign(value))),
        _ => {}
    }
    variable.differs.iter().for_each(|differs| line(&differs_line(differs)));
}

fn differs_line(differs: &str) -> String {
    format!("  {}: {differs}", styled(LATER, "differs"))
}

/// Every line made harmless by itself.
fn foreign_lines(text: &str) -> String {
    text.lines().map(|line| foreign(line) + "\n").collect()
}
