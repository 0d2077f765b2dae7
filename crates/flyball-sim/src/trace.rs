//! What happened, as one number: two runs are the same when their digests are. With a tail, also as text.

use std::collections::VecDeque;
use std::fmt::{self, Write};

/// Lines that are kept for a failure.
const TAIL: usize = 60;

/// See [the module](self).
#[derive(Clone, Debug)]
pub struct Trace {
    digest: u64,
    tail: Option<VecDeque<String>>,
}

impl Trace {
    /// Nothing happened yet. `keep`: remember the last lines.
    pub fn new(keep: bool) -> Self {
        Self { digest: 0xcbf2_9ce4_8422_2325, tail: keep.then(VecDeque::new) }
    }

    /// Something happened.
    pub fn note(&mut self, what: fmt::Arguments<'_>) {
        // Formatting feeds the hash; text is made only where somebody will read it.
        let _ = Hasher(&mut self.digest).write_fmt(what);
        if let Some(tail) = &mut self.tail {
            if tail.len() == TAIL {
                tail.pop_front();
            }
            tail.push_back(what.to_string());
        }
    }

    /// Of everything so far.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// The last lines, if they were kept.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().flatten().map(String::as_str)
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
