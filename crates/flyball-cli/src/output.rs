//! What the process writes. Colours appear only on a terminal, and never with `NO_COLOR`; the library under
//! this file decides that, so everybody else may write colours freely.

use std::io::{ErrorKind, Write as _};

use anstyle::{AnsiColor, Style};

/// A granted check, a healthy node.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// A refused check, an error.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something to wait for.
pub(crate) const LATER: Style = AnsiColor::Yellow.on_default().bold();

/// Writes to standard output. A reader that has seen enough (`| head`) is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

/// [`print()`] and a line end.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n"))
}

/// Writes a line to standard error. There is nobody left to tell when that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Writes a line that begins with `error:` to standard error.
pub(crate) fn error(text: &str) {
    note(&format!("{BAD}error:{BAD:#} {text}"));
}

/// Writes a line that begins with `warning:` to standard error.
pub(crate) fn warning(text: &str) {
    note(&format!("{LATER}warning:{LATER:#} {text}"));
}

/// Text from elsewhere, made harmless: what could move the cursor, recolour the terminal, break the line or turn the
/// direction of writing is shown escaped. Everything that came over the network goes through here.
pub(crate) fn foreign(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// `text` in a style.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(foreign("key 'ü' is \\ 漢字"), "key 'ü' is \\ 漢字");
        assert_eq!(foreign("a\x1b[2J\r\nb\x07\u{9b}1m\u{7f}"), r"a\u{1b}[2J\r\nb\u{7}\u{9b}1m\u{7f}");
        assert_eq!(foreign("\u{202e}drow"), r"\u{202e}drow");
    }
}
