//! The servers that a `resolv.conf` names.
//!
//! Only its `nameserver` lines count: names are absolute, so there is nothing to search, and the waits are ours. Other
//! lines may say what they like. (The crate of that name refuses a file with a line it does not know; a resolver
//! should not.)

use std::net::IpAddr;

/// The addresses in their order, each once. Those that cannot be used (with a zone) are left out.
pub(super) fn servers(text: &str) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        if let Some(server) = words.next().and_then(|word| word.parse().ok())
            && !servers.contains(&server)
            && servers.len() < SERVERS_MAX
        {
            servers.push(server);
        }
    }
    servers
}

/// The system's own resolver takes three.
const SERVERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nameservers_count() {
        let text = "# nameserver 1.1.1.1\n;nameserver 1.1.1.1\nsearch a b\nnameserver 10.0.0.2\n\
                    options strange:1 ndots:5\nnameserver\t::1 # ours\nnameserver fe80::1%eth0\nnameserver x\n\
                    nameservers 3.3.3.3\nnameserver 10.0.0.2\nnameserver";
        let expected: [IpAddr; 2] = ["10.0.0.2".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(servers(text), expected);
        assert!(servers("").is_empty());
        let many: String = (0..99).map(|number| format!("nameserver 10.0.0.{number}\n")).collect();
        assert_eq!(servers(&many).len(), SERVERS_MAX);
    }
}
