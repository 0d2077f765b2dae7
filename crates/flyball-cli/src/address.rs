//! Where the node is, from the point of view of a command that calls it.
//!
//! The daemon's own variables say where it *listens*. That is nearly where a caller on the same machine finds
//! it, except that one cannot call "every interface", so a wildcard becomes the loopback address. A container
//! that sets `GUBER_HTTP_ADDRESS=0.0.0.0:80` for the daemon thus needs nothing more for its health check. Where the
//! daemon is told by files, the same `--config` says where it is.
//!
//! Without a file only the one variable is read: a mistake elsewhere in the environment is the daemon's to refuse,
//! not a reason to call it unhealthy.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use flyball_server::config::{self, Loaded, ServeArgs};

/// The daemon's configuration files, for commands that look for its addresses there.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Files {
    /// The daemon's configuration file, read as `serve` reads it; may be given more than once
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
}

impl Files {
    /// What the daemon makes of these files and the environment; `None` without files.
    ///
    /// # Errors
    /// A file cannot be read, or what was given is no valid configuration.
    pub(crate) fn load(&self) -> anyhow::Result<Option<Loaded>> {
        if self.config.is_empty() {
            return Ok(None);
        }
        let args = ServeArgs { config: self.config.clone(), flags: Vec::new() };
        Ok(Some(config::load(&args, std::env::vars_os(), config::read_file)?))
    }
}

/// One of the daemon's two listeners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listener {
    /// The setting that moves it.
    setting: &'static str,
    /// Its environment variable.
    pub(crate) variable: &'static str,
    /// Where it is otherwise.
    pub(crate) default: &'static str,
}

/// Where gRPC is served.
pub(crate) const GRPC: Listener =
    Listener { setting: "grpc.address", variable: "GUBER_GRPC_ADDRESS", default: "127.0.0.1:1051" };

/// Where HTTP is served.
pub(crate) const HTTP: Listener =
    Listener { setting: "http.address", variable: "GUBER_HTTP_ADDRESS", default: "127.0.0.1:1050" };

/// Where the status is served, if at all.
const STATUS: &str = "GUBER_STATUS_HTTP_ADDRESS";

/// The `host:port` of the listener that asks for no certificate, when the files or the environment speak of one.
///
/// # Errors
/// An address that cannot be called.
pub(crate) fn status(loaded: Option<&Loaded>) -> anyhow::Result<Option<String>> {
    let address = match loaded {
        Some(loaded) => loaded.config.http.status_address.as_ref().map(ToString::to_string),
        None => std::env::var(STATUS).ok(),
    };
    match address.filter(|address| !address.trim().is_empty()) {
        None => Ok(None),
        Some(address) => usable(&address, STATUS).map(Some),
    }
}

impl Listener {
    /// The `host:port` to call: the flag (which [`callable`] has already judged), else what the files say, else the
    /// environment, else the default.
    ///
    /// # Errors
    /// An address that cannot be called; the text says where it was given.
    pub(crate) fn target(self, flag: Option<String>, loaded: Option<&Loaded>) -> anyhow::Result<String> {
        match (flag, loaded) {
            (Some(address), _) => Ok(address),
            (None, Some(loaded)) => {
                let settings = loaded.effective();
                let given = settings.iter().find(|setting| setting.name == self.setting);
                given.map_or_else(|| self.choose(None), |given| usable(&given.value, &given.origin))
            }
            (None, None) => self.choose(std::env::var(self.variable).ok().as_deref()),
        }
    }

    fn choose(self, variable: Option<&str>) -> anyhow::Result<String> {
        match variable {
            Some(address) if !address.trim().is_empty() => usable(address, self.variable),
            _ => usable(self.default, "the default"),
        }
    }
}

fn usable(given: &str, origin: &str) -> anyhow::Result<String> {
    callable(given).with_context(|| format!("{origin}: cannot use the address '{given}'"))
}

/// Turns a listen address, or an `http://` address, into `host:port` that can be called.
pub(crate) fn callable(address: &str) -> anyhow::Result<String> {
    if address.starts_with("https://") {
        bail!("write host:port, and --tls beside it");
    }
    let address = address.trim();
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
        assert_eq!(HTTP.target(Some("a:1".to_owned()), None).unwrap(), "a:1");
        assert_eq!(HTTP.choose(Some("b:2")).unwrap(), "b:2");
        assert_eq!(HTTP.choose(None).unwrap(), "127.0.0.1:1050");
        // As everywhere in the configuration, empty is not set.
        assert_eq!(HTTP.choose(Some("")).unwrap(), "127.0.0.1:1050");
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
            assert!(callable(nonsense).is_err(), "{nonsense}");
        }
        let error = format!("{:#}", GRPC.choose(Some("x")).unwrap_err());
        assert!(error.starts_with("GUBER_GRPC_ADDRESS: cannot use the address 'x': "), "{error}");
    }
}
