//! Text to steps.

use std::fmt;
use std::time::Duration;

use flyball_core::Behavior;

/// What a client asks in a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The key's name in the story.
    pub key: String,
    /// Which node is to own it among those that run when it is first named; `None`: whoever.
    pub owner: Option<String>,
    /// Units.
    pub hits: i64,
    /// Units per duration.
    pub limit: i64,
    /// Milliseconds.
    pub duration: i64,
    /// As on the wire.
    pub algorithm: i32,
    /// Size of a leaky bucket, 0 for the limit.
    pub burst: i64,
    /// Flags.
    pub behavior: Behavior,
    /// Milliseconds.
    pub max_wait: i64,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These nodes start and know each other.
    Nodes(Vec<String>),
    /// One more node starts, and all are told of it.
    Join(String),
    /// A node ends, and nobody is told.
    Crash(String),
    /// A node ends in order: it sends what it owes. Nobody is told.
    Stop(String),
    /// It starts again at the same address, and knows the others.
    Start(String),
    /// All nodes that run are told of these peers.
    Peers(Vec<String>),
    /// A node stops for a while.
    Freeze(String, Duration),
    /// Nothing arrives between these nodes and those, either way.
    Partition(Vec<String>, Vec<String>),
    /// Nothing arrives from the first at the second.
    Cut(String, String),
    /// Everything arrives again.
    Heal,
    /// Time passes.
    Advance(Duration),
    /// A client asks a node.
    Ask(String, Ask),
}

/// A line of a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// As it is written, with comments and empty lines before it.
    pub text: String,
    /// What happens; `None` at the end of the file.
    pub step: Option<Step>,
    /// What is to be told.
    pub expected: Option<String>,
}

/// What is wrong with a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub line: usize,
    /// What, and what it should be.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for Mistake {}

/// Reads a story.
pub fn parse(text: &str) -> Result<Vec<Line>, Mistake> {
    let mut lines: Vec<Line> = Vec::new();
    let mut before = String::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let mistake = |text: String| Mistake { line: number, text };
        let said = line.split('#').next().unwrap_or_default().trim();
        if let Some(expected) = said.strip_prefix('=') {
            match lines.last_mut() {
                Some(Line { step: Some(Step::Ask(..)), expected: open, .. }) if open.is_none() => {
                    *open = Some(expected.trim().to_owned());
                }
                _ => {
                    return Err(mistake("`=` tells the answer to the hit or look just before it".to_owned()));
                }
            }
            continue;
        }
        before.push_str(line);
        before.push('\n');
        if said.is_empty() {
            continue;
        }
        let step = step(said).map_err(mistake)?;
        lines.push(Line { number, text: std::mem::take(&mut before), step: Some(step), expected: None });
    }
    if !before.is_empty() {
        lines.push(Line { number: text.lines().count(), text: before, step: None, expected: None });
    }
    Ok(lines)
}

fn step(said: &str) -> Result<Step, String> {
    let mut words = said.split_whitespace();
    let verb = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let names = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match (verb, rest.as_slice()) {
        ("nodes", [_, ..]) => Ok(Step::Nodes(names(&rest))),
        ("peers", [_, ..]) => Ok(Step::Peers(names(&rest))),
        ("join", [node]) => Ok(Step::Join((*node).to_owned())),
        ("crash", [node]) => Ok(Step::Crash((*node).to_owned())),
        ("stop", [node]) => Ok(Step::Stop((*node).to_owned())),
        ("start", [node]) => Ok(Step::Start((*node).to_owned())),
        ("freeze", [node, time]) => Ok(Step::Freeze((*node).to_owned(), duration(time)?)),
        ("cut", [from, to]) => Ok(Step::Cut((*from).to_owned(), (*to).to_owned())),
        ("heal", []) => Ok(Step::Heal),
        ("advance", [time]) => Ok(Step::Advance(duration(time)?)),
        ("partition", words) => match words.iter().position(|word| *word == "|") {
            Some(at) => Ok(Step::Partition(names(&words[..at]), names(&words[at + 1..]))),
            None => Err("a partition is `partition a b | c`".to_owned()),
        },
        ("hit", [node, words @ ..]) => Ok(Step::Ask((*node).to_owned(), ask(words, 1)?)),
        ("look", [node, words @ ..]) => Ok(Step::Ask((*node).to_owned(), ask(words, 0)?)),
        _ => Err(format!(
            "{said:?} is no step; there are nodes, join, crash, stop, start, peers, freeze, partition, cut, heal, advance, \
             hit and look"
        )),
    }
}

fn ask(words: &[&str], hits: i64) -> Result<Ask, String> {
    let mut ask = Ask {
        key: "k".to_owned(),
        owner: None,
        hits,
        limit: 10,
        duration: 60_000,
        algorithm: 0,
        burst: 0,
        behavior: Behavior::default(),
        max_wait: 0,
    };
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<i64>().map_err(|_| format!("{word:?}: {value:?} is no number"));
        let ms = || duration(value).map(|time| time.as_millis() as i64);
        let flag = match name {
            "global" => Behavior::GLOBAL,
            "no_batching" => Behavior::NO_BATCHING,
            "reset" => Behavior::RESET_REMAINING,
            "drain" => Behavior::DRAIN_OVER_LIMIT,
            "gregorian" => Behavior::DURATION_IS_GREGORIAN,
            _ => Behavior::default(),
        };
        ask.behavior = ask.behavior.with(flag);
        match name {
            _ if flag != Behavior::default() => {}
            "key" => {
                let (key, owner) = value.split_once('@').map_or((value, None), |(key, at)| (key, Some(at)));
                (ask.key, ask.owner) = (key.to_owned(), owner.map(str::to_owned));
            }
            "hits" => ask.hits = number()?,
            "limit" => ask.limit = number()?,
            "burst" => ask.burst = number()?,
            "leaky" => ask.algorithm = 1,
            "duration" => ask.duration = ms()?,
            "max_wait" => ask.max_wait = ms()?,
            _ => {
                return Err(format!(
                    "{word:?} is nothing to ask; there are key, hits, limit, burst, duration, max_wait, leaky, global, \
                     no_batching, reset, drain and gregorian"
                ));
            }
        }
    }
    Ok(ask)
}

/// `500ms`, `3s`, `1m`; a bare number is milliseconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no duration, such as 500ms or 3s"))?;
    match &text[digits.len()..] {
        "ms" | "" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        unit => Err(format!("{text:?}: the units are ms, s and m, not {unit:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_becomes_steps_and_keeps_its_words() {
        let text = "# Two.\nnodes a b\nhit a key=k@b hits=2 global  # asked\n= UNDER_LIMIT 8 via replica\nadvance 1s\n\n";
        let lines = parse(text).unwrap();
        assert_eq!(lines[0].step, Some(Step::Nodes(vec!["a".into(), "b".into()])));
        let Some(Step::Ask(node, ask)) = &lines[1].step else { panic!("{lines:?}") };
        assert_eq!(
            (node.as_str(), ask.key.as_str(), ask.owner.as_deref(), ask.hits),
            ("a", "k", Some("b"), 2)
        );
        assert_eq!(lines[1].expected.as_deref(), Some("UNDER_LIMIT 8 via replica"));
        assert_eq!(lines[2].step, Some(Step::Advance(Duration::from_secs(1))));
        let words: String = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(words, text.replace("= UNDER_LIMIT 8 via replica\n", ""));
    }

    #[test]
    fn mistakes_name_the_line_and_what_would_be_right() {
        for (text, expected) in [
            ("nodes a\nhop a", "line 2: \"hop a\" is no step"),
            ("= UNDER_LIMIT", "line 1: `=` tells the answer"),
            ("advance 3h", "line 1: \"3h\": the units are"),
            ("advance soon", "line 1: \"soon\" is no duration"),
            ("hit a hits=x", "line 1: \"hits=x\": \"x\" is no number"),
            ("hit a wild", "line 1: \"wild\" is nothing to ask"),
            ("partition a b", "line 1: a partition is"),
        ] {
            let mistake = parse(text).unwrap_err().to_string();
            assert!(mistake.starts_with(expected), "{mistake}");
        }
    }
}
