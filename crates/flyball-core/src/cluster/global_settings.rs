//! How GLOBAL hits and GLOBAL news are gathered: both machines wait, cut and are bounded alike.

use core::time::Duration;

/// See [the module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalSettings {
    /// How long the first hit, or the first key with news, waits for others. Default 100 ms.
    pub sync_wait: Duration,
    /// Keys after which a message leaves at once; also the most in a message. Default 1 000.
    pub items_max: usize,
    /// The most bytes in a message. Default 1 MiB less some room.
    pub bytes_max: usize,
    /// The most keys that wait: for all owners together, and for all peers together. Default 200 000 of each.
    pub keys_max: usize,
    /// For the tables' hash; should be a secret of the process.
    pub seed: u64,
}

impl Default for GlobalSettings {
    fn default() -> Self {
        Self {
            sync_wait: Duration::from_millis(100),
            items_max: 1_000,
            bytes_max: 1_024 * 1_024 - 4_096,
            keys_max: 200_000,
            seed: 0,
        }
    }
}
