//! Running other programs, so that a failure always shows the command that was tried.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

/// The top folder of the repository.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// `cargo`, in the top folder. Through the PATH and not `$CARGO`, so that `+nightly` works.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(args);
    command
}

/// The command as one would type it, with the variables it sets, except for a PATH that nobody would type.
pub fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs().filter(|(name, _)| *name != "PATH") {
        if let Some(value) = value {
            words.push(format!("{}={}", name.display(), quoted(value)));
        }
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Shows the command and runs it with this process's own output.
pub fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("{status}: {}", shown(command));
    }
    Ok(())
}

/// Runs the command quietly and returns what it printed.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| cannot_start(command))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}\n{}{}", output.status, shown(command), tail(&stdout, 20), tail(&stderr, 20));
    }
    Ok(stdout)
}

/// Whether the command can be started and succeeds; prints nothing.
pub fn run_quiet_ok(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The child that is running in the background, so that it can be ended when its result is no longer wanted.
#[derive(Debug, Default)]
pub struct Background(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pid: Option<u32>,
    stopped: bool,
}

impl Background {
    /// Runs the command with its output added to `log`, and waits. The error has the end of the log.
    pub fn run(&self, command: &mut Command, log: &Path) -> Result<()> {
        let out = File::options().create(true).append(true).open(log);
        let out = out.with_context(|| format!("cannot write the log {}", log.display()))?;
        let err = out.try_clone().context("cannot share the log file")?;
        let mut child = {
            let mut state = self.state();
            if state.stopped {
                bail!("not started, the run is over: {}", shown(command));
            }
            let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
            let child = child.with_context(|| cannot_start(command))?;
            state.pid = Some(child.id());
            child
        };
        let status = child.wait();
        self.state().pid = None;
        let status = status.with_context(|| format!("cannot wait for: {}", shown(command)))?;
        if !status.success() {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            bail!(
                "{status}: {}\nThe whole output is in {}; it ends:\n{}",
                shown(command),
                log.display(),
                tail(&text, 15)
            );
        }
        Ok(())
    }

    /// Ends the running child, if there is one, and lets no other start.
    pub fn stop(&self) {
        let pid = {
            let mut state = self.state();
            state.stopped = true;
            state.pid.take()
        };
        if let Some(pid) = pid {
            let _ = Command::new("kill").arg(pid.to_string()).stderr(Stdio::null()).status();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start: {}", shown(command))
}

/// The last `lines` lines, indented, each ended.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| format!("  {line}\n")).collect()
}

/// Where a program of this name is on the PATH.
pub fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("go");
        command
            .args(["build", "-ldflags", "-s -w", "it's"])
            .env("GOTOOLCHAIN", "go1.27.3")
            .env("PATH", "/bin");
        assert_eq!(shown(&command), r"GOTOOLCHAIN=go1.27.3 go build -ldflags '-s -w' 'it'\''s'");
    }

    #[test]
    fn a_failure_names_the_command_and_shows_its_words() {
        let error = capture(Command::new("sh").args(["-c", "echo no such thing >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("  no such thing"), "{text}");
        let error = capture(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start: no-such-program-anywhere");
    }

    #[test]
    fn tail_keeps_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "  b\n  c\n");
        assert_eq!(tail("", 2), "");
    }

    #[test]
    fn a_stopped_background_starts_nothing() {
        let background = Background::default();
        background.stop();
        let log = std::env::temp_dir().join(format!("flyball-xtask-{}.log", std::process::id()));
        let error = background.run(&mut Command::new("true"), &log).unwrap_err();
        std::fs::remove_file(&log).unwrap();
        assert_eq!(error.to_string(), "not started, the run is over: true");
    }
}
