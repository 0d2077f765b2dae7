//! Readable stories: who there is, what happens, what clients are told.
//!
//! ```text
//! nodes a b c
//! hit a key=k@b hits=3        # a key that b owns; limit 10 in a minute unless said otherwise
//! = UNDER_LIMIT 7 via owner
//! crash b
//! advance 1s
//! ```
//!
//! The lines with `=` are what was told, and are written anew when `FLYBALL_SCENARIO_REWRITE` is set. [`parse()`] makes
//! steps of the text and knows nothing of who carries them out: [`play()`] does so on simulated nodes, and
//! `flyball-tests/tests/real_stories.rs` plays the same files on real ones.

mod parse;
mod play;

pub use parse::{Ask, Line, Mistake, Step, parse};
pub use play::{Via, play, render};
