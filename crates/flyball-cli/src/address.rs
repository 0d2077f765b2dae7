//! Where the node is, from the point of view of a command that calls it.
//!
//! The daemon's own variables say where it *listens*. That is nearly where a caller on the same machine finds
//! it, except that one cannot call "every interface", so a wildcard becomes the loopback address. A container
//! that sets `GUBER_HTTP_ADDRESS=0.0.0.0:80` for the daemon thus needs nothing more for its health check.

use anyhow::{Context as _, bail};

/// One of the daemon's two listeners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listener {
    /// The environment variable that moves it.
    pub(crate) variable: &'static str,
    /// Where it is otherwise.
    pub(crate) default: &'static str,
}

/// Where gRPC is served.
pub(crate) const GRPC: Listener = Listener { variable: "GUBER_GRPC_ADDRESS", default: "127.0.0.1:1051" };

/// Where HTTP is served.
pub(crate) const HTTP: Listener = Listener { variable: "GUBER_HTTP_ADDRESS", default: "127.0.0.1:1050" };

impl Listener {
    /// The `host:port` to call: the flag, else the environment, else the default.
    ///
    /// # Errors
    /// An address without a port, or with one that is no number; the text names the flag or variable.
    pub(crate) fn target(self, flag: Option<&str>) -> anyhow::Result<String> {
        self.choose(flag, std::env::var(self.variable).ok().as_deref())
    }

    fn choose(self, flag: Option<&str>, variable: Option<&str>) -> anyhow::Result<String> {
        let (given, origin) = match (flag, variable) {
            (Some(address), _) => (address, "--address"),
            (None, Some(address)) if !address.trim().is_empty() => (address, self.variable),
            (None, _) => (self.default, "the default"),
        };
        callable(given.trim()).with_context(|| format!("{origin}: cannot use the address '{given}'"))
    }
}

/// Turns a listen address, or an `http://` address, into `host:port` that can be called.
fn callable(address: &str) -> anyhow::Result<String> {
    if address.starts_with("https://") {
        bail!("the node is called without TLS; write host:port");
    }
    let address = address.strip_prefix("http://").unwrap_or(address);
    let address = address.strip_suffix('/').unwrap_or(address);
    let Some((host, port)) = address.rsplit_once(':') else {
        bail!("the port is missing; write host:port, like 127.0.0.1:1051");
    };
    match port.parse::<u16>() {
        Ok(1..) => {}
        _ => bail!("'{port}' is not a port (1 to 65535)"),
    }
    let host = match host {
        "" | "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        host => host,
    };
    let authority = format!("{host}:{port}");
    if host.contains(':') && !host.starts_with('[') {
        bail!("write an IPv6 host in brackets, like [::1]:{port}");
    }
    authority.parse::<http::uri::Authority>().context("this is not a host and a port")?;
    Ok(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_the_variable_and_that_over_the_default() {
        assert_eq!(HTTP.choose(Some("a:1"), Some("b:2")).unwrap(), "a:1");
        assert_eq!(HTTP.choose(None, Some("b:2")).unwrap(), "b:2");
        assert_eq!(HTTP.choose(None, None).unwrap(), "127.0.0.1:1050");
        // As everywhere in the configuration, empty is not set.
        assert_eq!(HTTP.choose(None, Some("")).unwrap(), "127.0.0.1:1050");
    }

    #[test]
    fn a_wildcard_is_called_on_loopback() {
        for (listen, call) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            (":80", "127.0.0.1:80"),
            ("localhost:80", "localhost:80"),
            ("10.1.2.3:80", "10.1.2.3:80"),
            ("http://10.1.2.3:80/", "10.1.2.3:80"),
        ] {
            assert_eq!(callable(listen).unwrap(), call);
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_place_it_came_from() {
        for nonsense in
            ["", "localhost", "localhost:", "localhost:0", "a:70000", "::1:80", "a b:80", "https://a:1"]
        {
            let error = format!("{:#}", GRPC.choose(Some(nonsense), None).unwrap_err());
            assert!(
                error.starts_with(&format!("--address: cannot use the address '{nonsense}': ")),
                "{error}"
            );
        }
        let error = format!("{:#}", GRPC.choose(None, Some("x")).unwrap_err());
        assert!(error.starts_with("GUBER_GRPC_ADDRESS: "), "{error}");
    }
}
