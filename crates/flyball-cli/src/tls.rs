//! TLS for the commands that call a node: by flags, or by what the daemon beside them was told.
//!
//! A node that speaks TLS is configured by `GUBER_TLS_*` or by a file, and a command on the same machine or in the same
//! container reads the same: what the daemon believes of peers the command believes of it, and what the daemon shows
//! to peers the command shows. Any flag takes the place of its variable; together they are enough without any.

use anyhow::{Context as _, bail};
use flyball_core::cluster::host_of;
use flyball_server::config::{self, ClientAuth, Loaded, Tls};
use flyball_server::tls::{Alpn, TlsClient};

/// How to secure the connection.
#[derive(clap::Args, Debug, Default)]
#[group(skip)]
pub(crate) struct Args {
    /// Speak TLS; the node's certificate must be known to the system, or to --tls-ca
    #[arg(long)]
    tls: bool,
    /// Certificates, in PEM, that are believed beside the system's
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<String>,
    /// The certificate to show to a node that asks for one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<String>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<String>,
    /// The name that the node's certificate must carry, in place of the host of its address
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Do not verify the node's certificate
    #[arg(long)]
    tls_skip_verify: bool,
}

impl Args {
    fn any(&self) -> bool {
        self.tls
            || self.tls_skip_verify
            || [&self.tls_ca, &self.tls_cert, &self.tls_key, &self.tls_server_name]
                .into_iter()
                .any(Option::is_some)
    }

    /// TLS as the flags, the files and the environment say, or `None` where nobody speaks of it.
    ///
    /// # Errors
    /// A value is wrong.
    pub(crate) fn settings(&self, loaded: Option<&Loaded>) -> anyhow::Result<Option<Tls>> {
        let mut tls = match loaded {
            Some(loaded) => loaded.config.tls.clone(),
            None => config::client_tls(std::env::vars_os().filter_map(|(name, value)| {
                // What is no text cannot be meant for us.
                Some((name.into_string().ok()?, value.into_string().ok()?))
            }))?,
        };
        if !(self.any() || tls.on) {
            return Ok(None);
        }
        let replace = |value: &mut Option<String>, flag: &Option<String>| {
            if flag.is_some() {
                value.clone_from(flag);
            }
        };
        replace(&mut tls.ca, &self.tls_ca);
        replace(&mut tls.client_auth_cert, &self.tls_cert);
        replace(&mut tls.client_auth_key, &self.tls_key);
        replace(&mut tls.client_auth_server_name, &self.tls_server_name);
        tls.insecure_skip_verify |= self.tls_skip_verify;
        if self.tls_cert.is_some() {
            tls.client_auth.get_or_insert(ClientAuth::Request);
        }
        tls.on = true;
        Ok(Some(tls))
    }

    /// What secures connections; `None`: they are plain.
    ///
    /// # Errors
    /// A value is wrong, or a file cannot be used.
    pub(crate) fn client(&self, loaded: Option<&Loaded>, alpn: Alpn) -> anyhow::Result<Option<TlsClient>> {
        match self.settings(loaded)? {
            None => Ok(None),
            Some(tls) => client(&tls, alpn).map(Some),
        }
    }

    /// The same for a command that looks after the node on this very machine. What goes to a loopback address leaves the
    /// machine nowhere, and certificates are made for other names than that one, or in the daemon's memory; so without a
    /// flag that says how, a node on loopback is not verified.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn client_of_neighbour(
        &self,
        loaded: Option<&Loaded>,
        target: &str,
    ) -> anyhow::Result<Option<TlsClient>> {
        let Some(mut tls) = self.settings(loaded)? else { return Ok(None) };
        if self.tls_ca.is_none() && self.tls_server_name.is_none() && is_loopback(host_of(target)) {
            tls.insecure_skip_verify = true;
        }
        client(&tls, Alpn::Http1).map(Some)
    }
}

fn client(tls: &Tls, alpn: Alpn) -> anyhow::Result<TlsClient> {
    if tls.auto && tls.ca.is_none() && tls.cert.is_none() && !tls.insecure_skip_verify {
        bail!(
            "the node's certificate is made in its memory, so nobody else can verify it: give it GUBER_TLS_CA and \
             GUBER_TLS_CA_KEY, or this command --tls-skip-verify"
        );
    }
    TlsClient::new(&tls.settings(Vec::new()), alpn).context("cannot speak TLS")
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(tls: bool, cert: Option<&str>) -> Args {
        Args {
            tls,
            tls_ca: None,
            tls_cert: cert.map(str::to_owned),
            tls_key: cert.map(str::to_owned),
            tls_server_name: None,
            tls_skip_verify: false,
        }
    }

    #[test]
    fn flags_alone_are_enough() {
        assert!(!args(false, None).any() && args(true, None).any());
        let tls = args(false, Some("/c")).settings(None).unwrap().expect("a flag was given");
        assert!(tls.on && tls.client_auth.is_some() && tls.client_auth_cert.as_deref() == Some("/c"));
    }

    #[test]
    fn loopback_is_known_by_address_and_name() {
        for (target, expected) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("localhost:1", true),
            ("10.0.0.1:1", false),
            ("localhost.example:1", false),
        ] {
            assert_eq!(is_loopback(host_of(target)), expected, "{target}");
        }
    }
}
