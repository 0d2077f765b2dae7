//! Where a member of etcd is, as it is written: `host:port`, with or without `http://` or `https://` before it.

use std::fmt;

use crate::address;

/// The port of an endpoint that is written without one.
const DEFAULT_PORT: u16 = 2379;

/// One member's client address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdEndpoint {
    /// `host:port`, brackets around an IPv6 address.
    authority: String,
    /// What the scheme says, if there is one.
    secure: Option<bool>,
}

impl EtcdEndpoint {
    /// Reads one.
    ///
    /// # Errors
    /// It is no address; the error stands after the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (secure, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("http", rest)) => (Some(false), rest),
            Some(("https", rest)) => (Some(true), rest),
            Some(_) => return Err("has a scheme other than http and https".to_owned()),
        };
        // Some write the root of the server after it.
        let authority = address::parse(rest.strip_suffix('/').unwrap_or(rest), DEFAULT_PORT)?;
        Ok(Self { authority, secure })
    }

    /// Whether the scheme asks for TLS, or for none; nothing without a scheme.
    pub fn secure(&self) -> Option<bool> {
        self.secure
    }

    /// `host:port`.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// The host without brackets, and the port.
    pub(super) fn host_and_port(&self) -> (&str, u16) {
        let (host, port) = self.authority.rsplit_once(':').unwrap_or((&self.authority, ""));
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        (host, port.parse().unwrap_or(DEFAULT_PORT))
    }
}

impl fmt::Display for EtcdEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.secure {
            None => f.write_str(&self.authority),
            Some(false) => write!(f, "http://{}", self.authority),
            Some(true) => write!(f, "https://{}", self.authority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_ports_and_brackets() {
        for (text, shown, host, port, secure) in [
            ("etcd", "etcd:2379", "etcd", 2379, None),
            ("http://10.0.0.1:2380/", "http://10.0.0.1:2380", "10.0.0.1", 2380, Some(false)),
            ("https://[::1]", "https://[::1]:2379", "::1", 2379, Some(true)),
        ] {
            let endpoint = EtcdEndpoint::parse(text).unwrap();
            assert_eq!((endpoint.to_string().as_str(), endpoint.secure()), (shown, secure));
            assert_eq!(endpoint.host_and_port(), (host, port));
        }
        for text in ["", "unix:///run/etcd", "http://a/b", "a:b:c", "::1"] {
            assert!(EtcdEndpoint::parse(text).is_err(), "{text}");
        }
    }
}
