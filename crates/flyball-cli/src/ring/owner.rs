//! `flyball ring owner`: whose is this key?

use std::io::{BufRead as _, Read as _};

use anyhow::{Context as _, bail};
use flyball_core::ring::Ring;
use serde_json::json;

use super::{From, Picker};
use crate::exit::{self, Exit};
use crate::output;

/// Show which peer owns a key
///
/// Prints a line for each key: its owner, then the key as name_key.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The name of a limit and the keys whose owners are wanted; or - for joined keys on standard input, one a line
    #[arg(value_name = "NAME KEY…")]
    keys: Vec<String>,
    /// A key in its joined form name_key; may be given more than once
    #[arg(long = "key", value_name = "NAME_KEY")]
    joined: Vec<String>,
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    picker: Picker,
    /// Print a JSON object for each key
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  flyball ring owner --peers a:1051,b:1051 requests_per_minute alice bob
  flyball ring owner --http 127.0.0.1:1050 --key requests_per_minute_alice
  flyball ring owner --peers a:1051,b:1051 - < keys | cut -d' ' -f1 | sort | uniq -c

JSON: key (name_key), owner, and place, the key's place on the ring in hexadecimal digits.";

/// The longest line of standard input, in bytes: more than any node takes for a key.
const LINE_MAX: u64 = 1 << 20;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let from_input = args.keys == ["-"];
    if !from_input && args.keys.len() == 1 {
        return Err(exit::usage("ring", "a name alone is no key; write NAME KEY, or --key NAME_KEY"));
    }
    if args.keys.is_empty() && args.joined.is_empty() {
        return Err(exit::usage("ring", "no key; write NAME KEY, --key NAME_KEY, or - to read them"));
    }
    let ring = args.from.ring(args.picker)?;
    let width = ring.peers().map(str::len).max().unwrap_or(0);
    let answers = Answers { ring, width, json: args.json };
    for joined in &args.joined {
        answers.tell(joined)?;
    }
    if from_input {
        return input(&answers);
    }
    if let Some((name, keys)) = args.keys.split_first() {
        keys.iter().try_for_each(|key| answers.tell(&format!("{name}_{key}")))?;
    }
    Ok(Exit::Success)
}

/// Answers each line of standard input when it comes.
fn input(answers: &Answers) -> anyhow::Result<Exit> {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = (&mut input).take(LINE_MAX).read_until(b'\n', &mut line);
        let read = read.context("cannot read standard input")?;
        if read == 0 {
            break;
        }
        let whole = line.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let key = match whole {
            None if read as u64 == LINE_MAX => {
                bail!(
                    "line {number} of standard input is longer than {LINE_MAX} bytes; is it a list of keys?"
                )
            }
            whole => whole.unwrap_or(&line),
        };
        if key.is_empty() {
            continue;
        }
        let key = std::str::from_utf8(key)
            .with_context(|| format!("line {number} of standard input is not UTF-8, as keys are"))?;
        answers.tell(key)?;
    }
    Ok(Exit::Success)
}

struct Answers {
    ring: Ring,
    /// Of the longest address, so that keys stand in a column.
    width: usize,
    json: bool,
}

impl Answers {
    fn tell(&self, joined: &str) -> anyhow::Result<()> {
        let place = self.ring.place_of_joined(joined);
        let owner = self.ring.owner_at(place).and_then(|index| self.ring.peer(index)).unwrap_or_default();
        output::line(&if self.json {
            json!({ "key": joined, "owner": owner, "place": format!("{place:016x}") }).to_string()
        } else {
            // Peers may come from a node, keys from anywhere.
            let (owner, key) = (output::foreign(owner), output::foreign(joined));
            format!("{owner:width$}  {key}", width = self.width)
        })
    }
}
