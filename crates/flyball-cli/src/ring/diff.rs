//! `flyball ring diff`: what moves when the peers change?

use std::collections::BTreeSet;

use serde_json::json;

use super::{Addresses, From, Picker, addresses, percent};
use crate::exit::Exit;
use crate::output;

/// Show which share of the keys moves from whom to whom when the peers change
///
/// A peer that comes only takes, a peer that goes only gives; nothing moves between those that stay. A key that
/// moves starts a new window at its new owner.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    from: From,
    /// The peers afterwards
    #[arg(long, value_name = "HOST:PORT,…", value_parser = addresses)]
    to: Addresses,
    #[command(flatten)]
    picker: Picker,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  flyball ring diff --peers a:1051,b:1051 --to a:1051,b:1051,c:1051
  flyball ring diff --http 127.0.0.1:1050 --to a:1051,b:1051

JSON: moved [{from, to, share}] and share, all of it together; shares are parts of 1.";

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (before, after) = (args.from.ring(args.picker)?, args.picker.ring(&args.to)?);
    let moved: Vec<(&str, &str, f64)> = before
        .moved(&after)
        .into_iter()
        .filter_map(|moved| Some((before.peer(moved.from)?, after.peer(moved.to)?, moved.share)))
        .collect();
    // From a positive zero: the sum of nothing is a negative one.
    let share = moved.iter().fold(0.0, |sum, (_, _, share)| sum + share);
    if args.json {
        let moved: Vec<_> =
            moved.iter().map(|(from, to, share)| json!({ "from": from, "to": to, "share": share })).collect();
        output::line(&json!({ "moved": moved, "share": share }).to_string())?;
        return Ok(Exit::Success);
    }
    let width = moved.iter().map(|(from, _, _)| from.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (from, to, share) in &moved {
        let (from, to) = (output::foreign(from), output::foreign(to));
        text += &format!("{}  {from:width$} -> {to}\n", percent(*share));
    }
    let (was, is): (BTreeSet<&str>, BTreeSet<&str>) = (before.peers().collect(), after.peers().collect());
    let (new, gone) = (is.difference(&was).count(), was.difference(&is).count());
    text += &format!("{}  of all keys change their owner; peers: {new} new, {gone} gone\n", percent(share));
    output::print(&text)?;
    Ok(Exit::Success)
}
