//! Addresses of peers as people write them.
//!
//! The text is a peer's identity and every node must have the same, so a host stays as written: `localhost:1051`
//! and `127.0.0.1:1051` are two peers. Only what cannot be dialled is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name that DNS has, in bytes.
const HOST_MAX: usize = 253;

/// Longest part of somebody's text that is repeated in a message, in characters.
const SHOWN_MAX: usize = 80;

/// `host:port` from `host:port`, or from `host` with the port of the caller. The error says what is wrong and
/// what is expected, to stand after the text it is about.
pub(crate) fn parse(text: &str, default_port: u16) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty; expected host:port".to_owned());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) =
                rest.split_once(']').ok_or("lacks the closing bracket; expected [::1]:1051")?;
            let port = match port.strip_prefix(':') {
                None if !port.is_empty() => {
                    return Err("has no colon before its port; expected [::1]:1051".to_owned());
                }
                port => port,
            };
            (v6(host)?, port)
        }
        None => match text.split_once(':') {
            Some((_, more)) if more.contains(':') => {
                return Err(match text.parse::<Ipv6Addr>() {
                    Ok(_) => {
                        format!("lacks the brackets of an IPv6 address; expected [{text}]:{default_port}")
                    }
                    Err(_) => "has more than one colon; expected host:port".to_owned(),
                });
            }
            Some((host, port)) => (name_or_v4(host)?, Some(port)),
            None => (name_or_v4(text)?, None),
        },
    };
    let port = match port {
        // `parse` would also take a sign.
        Some(port) => Some(port)
            .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|port| port.parse().ok())
            .filter(|port| *port != 0)
            .ok_or("has no valid port; expected host:port with a port from 1 to 65535")?,
        None => default_port,
    };
    Ok(format!("{host}:{port}"))
}

fn v6(host: &str) -> Result<String, String> {
    match host.parse::<Ipv6Addr>() {
        Ok(address) if address.is_unspecified() => Err(wildcard()),
        // As written, since the text is the identity.
        Ok(_) => Ok(format!("[{host}]")),
        Err(_) if host.contains('%') => Err(
            "has a zone, which means something on one machine only; expected an address all peers can dial"
                .to_owned(),
        ),
        Err(_) => Err("has brackets around what is no IPv6 address; expected [::1]:1051".to_owned()),
    }
}

fn name_or_v4(host: &str) -> Result<String, String> {
    if host.is_empty() {
        return Err("has no host; expected host:port".to_owned());
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.len() > HOST_MAX || !host.chars().all(fine) {
        return Err("has no valid host; expected host:port, without a scheme or a path".to_owned());
    }
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let address: Ipv4Addr =
            host.parse().map_err(|_| "is no IPv4 address; expected four numbers from 0 to 255".to_owned())?;
        if address.is_unspecified() {
            return Err(wildcard());
        }
    }
    Ok(host.to_owned())
}

fn wildcard() -> String {
    "means every interface, which nobody can dial; expected the address peers use".to_owned()
}

/// `host:port` with an IP address written in its one canonical form; any other text as it is.
///
/// [`Dns`](crate::Dns) lists peers so. Two nodes that found each other by DNS are therefore the same when their
/// canonical addresses are equal, however an operator wrote his own: `[2001:DB8:0::1]:1051` is
/// `[2001:db8::1]:1051`.
pub fn canonical_address(address: &str) -> String {
    let Some((host, port)) = address.rsplit_once(':') else { return address.to_owned() };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let Ok(port) = port.parse::<u16>() else { return address.to_owned() };
    match (bare, bare.unwrap_or(host).parse::<IpAddr>()) {
        (Some(_), Ok(ip @ IpAddr::V6(_))) | (None, Ok(ip @ IpAddr::V4(_))) => with_port(ip, port),
        _ => address.to_owned(),
    }
}

/// The one way an IP address and a port are written.
pub(crate) fn with_port(ip: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(ip, port).to_string()
}

/// Somebody's text between quotes, on one line and short, whatever it is.
pub(crate) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() { format!("'{shown}...'") } else { format!("'{shown}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_stays_as_written_and_gets_a_port() {
        for (text, expected) in [
            ("a:1051", "a:1051"),
            (" node-1.example.:81 ", "node-1.example.:81"),
            ("Node_1", "Node_1:7"),
            ("10.0.0.1", "10.0.0.1:7"),
            ("[2001:DB8:0::1]", "[2001:DB8:0::1]:7"),
            ("[::1]:65535", "[::1]:65535"),
        ] {
            assert_eq!(parse(text, 7).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_dialled_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            (":1051", "no host"),
            ("a:", "port"),
            ("a:0", "port"),
            ("a:+1", "port"),
            ("a:65536", "port"),
            ("http://a:1051", "colon"),
            ("a/b", "host"),
            ("a b:1", "host"),
            ("::1", "[::1]:7"),
            ("a:b:c", "colon"),
            ("[::1", "closing bracket"),
            ("[::1]1051", "no colon"),
            ("[a]:1", "no IPv6"),
            ("[fe80::1%eth0]:1", "zone"),
            ("0.0.0.0:1", "every interface"),
            ("[::]:1", "every interface"),
            ("10.0.0.300:1", "IPv4"),
        ] {
            let error = parse(text, 7).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn addresses_have_one_canonical_form() {
        for (text, expected) in [
            ("[2001:DB8:0:0::1]:1051", "[2001:db8::1]:1051"),
            ("[::1]:1051", "[::1]:1051"),
            ("10.0.0.1:1051", "10.0.0.1:1051"),
            ("Name:1051", "Name:1051"),
            ("::1:1051", "::1:1051"),
            ("10.0.0.1", "10.0.0.1"),
            ("[10.0.0.1]:1", "[10.0.0.1]:1"),
        ] {
            assert_eq!(canonical_address(text), expected);
        }
    }
}
