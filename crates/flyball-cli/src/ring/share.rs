//! `flyball ring share`: how even is it?

use clap::ValueEnum;
use flyball_core::ring::Ring;
use rand::{RngCore as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use serde_json::json;

use super::{From, Picker, most_over_mean, percent};
use crate::exit::Exit;
use crate::human;
use crate::output;

/// Show each peer's share of the ring, and of a sample of keys
///
/// The share of the ring is what keys that spread evenly would show. Real keys may do worse: FNV-1 keeps keys
/// together that differ only at their end. --sample tries that with generated keys.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    picker: Picker,
    /// Also place N generated keys
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    sample: Option<u32>,
    /// What the generated keys look like
    #[arg(long, value_enum, default_value_t = Form::Account, requires = "sample")]
    sample_keys: Form,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  flyball ring share --peers a:1051,b:1051,c:1051
  flyball ring share --http 127.0.0.1:1050 --sample 1000000 --sample-keys uuid

max/mean: how much more than a fair share the busiest peer has; 1 is even.

JSON: peers [{address, share, sampled}] and max_over_mean {ring, sample}; shares are parts of 1, sampled
counts keys; without --sample, sampled and sample are null.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// account_0, account_1, …
    Account,
    /// 10.0.0.0, 10.0.0.1, …
    Address,
    /// Version 4 UUIDs, the same ones every time
    Uuid,
}

impl Form {
    fn key(self, number: u32) -> String {
        match self {
            Self::Account => format!("account_{number}"),
            Self::Address => format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255),
            Self::Uuid => {
                let mut random = SplitMix64::seed_from_u64(number.into());
                let (a, b) = (random.next_u64(), random.next_u64());
                let (a, b) = (a & !0xf000 | 0x4000, b & !(3 << 62) | 1 << 63);
                format!(
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    a >> 32,
                    a >> 16 & 0xffff,
                    a & 0xffff,
                    b >> 48,
                    b & 0xffff_ffff_ffff
                )
            }
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let ring = args.from.ring(args.picker)?;
    let shares = ring.shares();
    let counts = args.sample.map(|keys| count(&ring, args.sample_keys, keys));
    let even = most_over_mean(shares.iter().copied());
    let even_sample = counts.as_ref().map(|counts| most_over_mean(counts.iter().map(|&n| n as f64)));
    if args.json {
        let peers: Vec<_> = ring
            .peers()
            .zip(&shares)
            .enumerate()
            .map(|(index, (address, share))| {
                let sampled = counts.as_ref().map(|counts| counts[index]);
                json!({ "address": address, "share": share, "sampled": sampled })
            })
            .collect();
        let most = json!({ "ring": even, "sample": even_sample });
        output::line(&json!({ "peers": peers, "max_over_mean": most }).to_string())?;
        return Ok(Exit::Success);
    }
    let width = ring.peers().map(str::len).max().unwrap_or(0).max(8);
    let mut text = format!("{:width$}     ring{}\n", "", if counts.is_some() { "    sample" } else { "" });
    for (index, (address, share)) in ring.peers().zip(&shares).enumerate() {
        text += &format!("{:width$}  {}", output::foreign(address), percent(*share));
        if let (Some(counts), Some(keys)) = (&counts, args.sample) {
            text += &format!("   {}", percent(counts[index] as f64 / f64::from(keys)));
        }
        text.push('\n');
    }
    text += &format!("{:width$}  {even:7.3}", "max/mean");
    if let (Some(even), Some(keys)) = (even_sample, args.sample) {
        text += &format!(
            "   {even:7.3}   of {} keys like {}",
            human::count(keys.into()),
            args.sample_keys.key(1)
        );
    }
    text.push('\n');
    output::print(&text)?;
    Ok(Exit::Success)
}

/// How many of the generated keys each peer owns.
fn count(ring: &Ring, form: Form, keys: u32) -> Vec<u64> {
    let mut counts = vec![0; ring.len()];
    for number in 0..keys {
        if let Some(owner) = ring.owner_index("requests", &form.key(number)) {
            counts[owner] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_form() {
        assert_eq!(Form::Account.key(17), "account_17");
        assert_eq!(Form::Address.key(0x01_02_03), "10.1.2.3");
        let uuid = Form::Uuid.key(1);
        assert_eq!(uuid.len(), 36);
        assert_eq!(&uuid[14..15], "4");
        assert_eq!(uuid, Form::Uuid.key(1));
        assert_ne!(Form::Uuid.key(1), Form::Uuid.key(2));
    }
}
