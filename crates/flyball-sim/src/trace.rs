//! What happened, as one number: two runs are the same when their digests are. With a tail, also as text.

use std::collections::VecDeque;
use std::fmt::{self, Write};

/// See [the module](self).
#[derive(Clone, Debug)]
pub struct Trace {
    digest: u64,
    keep: usize,
    tail: VecDeque<String>,
}

impl Trace {
    /// Nothing happened yet. So many of the last lines are kept.
    pub const fn new(keep: usize) -> Self {
        Self { digest: 0xcbf2_9ce4_8422_2325, keep, tail: VecDeque::new() }
    }

    /// Something happened.
    pub fn note(&mut self, what: fmt::Arguments<'_>) {
        // Formatting feeds the hash; text is made only where somebody will read it.
        let _ = Hasher(&mut self.digest).write_fmt(what);
        if self.keep > 0 {
            if self.tail.len() == self.keep {
                self.tail.pop_front();
            }
            self.tail.push_back(what.to_string());
        }
    }

    /// Of everything so far.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// The last lines, if they were kept.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}

struct Hasher<'a>(&'a mut u64);

impl Write for Hasher<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            *self.0 = (*self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}
