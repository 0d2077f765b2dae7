//! What the system knows about a node: threads, memory, sockets. Linux only, as are the tests that ask.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;

use anyhow::Context as _;

use super::Member;

/// States of `/proc/net/tcp` in which a socket is a connection or becomes one: ESTABLISHED and SYN_SENT.
const CONNECTED: [&str; 2] = ["01", "02"];

impl Member {
    /// Its threads.
    pub fn threads(&self) -> anyhow::Result<u64> {
        self.status("Threads:")
    }

    /// Its memory in RAM, KiB.
    pub fn resident_kib(&self) -> anyhow::Result<u64> {
        self.status("VmRSS:")
    }

    /// Its connections, under way or made, to this address.
    pub fn connections_to(&self, peer: SocketAddr) -> anyhow::Result<usize> {
        let id = self.id()?;
        let mut own = HashSet::new();
        for entry in fs::read_dir(format!("/proc/{id}/fd"))? {
            // Files come and go while we look.
            let Ok(target) = fs::read_link(entry?.path()) else { continue };
            let inode = target.to_str().and_then(|it| it.strip_prefix("socket:[")?.strip_suffix(']'));
            own.extend(inode.map(str::to_owned));
        }
        let remote = hex(peer);
        let table = fs::read_to_string(format!("/proc/{id}/net/tcp"))?;
        let count = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|fields| fields.get(2).is_some_and(|it| *it == remote))
            .filter(|fields| fields.get(3).is_some_and(|it| CONNECTED.contains(it)))
            .filter(|fields| fields.get(9).is_some_and(|inode| own.contains(*inode)))
            .count();
        Ok(count)
    }

    fn status(&self, field: &str) -> anyhow::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.id()?))?;
        let value =
            text.lines().find_map(|line| line.strip_prefix(field)).with_context(|| field.to_owned())?;
        let number = value.split_whitespace().next().with_context(|| field.to_owned())?;
        Ok(number.parse()?)
    }
}

/// As the kernel writes it: the four bytes as a number of this machine, and the port.
fn hex(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => {
            format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port())
        }
        SocketAddr::V6(_) => String::new(),
    }
}
