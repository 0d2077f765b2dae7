//! TLS: the values and how they fit together.
//!
//! Any variable that begins with `GUBER_TLS_` and is not empty turns TLS on, as with the original, also one that nobody
//! knows: whoever wrote it wanted TLS, and a node that quietly spoke plaintext would be worse than one that does not
//! start. So what is left without a certificate is refused, where the original starts and then fails every handshake.
//! The one exception are values that say what holds anyway (`GUBER_TLS_AUTO=false`): there the original turns TLS on too
//! and nothing works, and what this daemon prints as its settings could not be given back to it.
//!
//! Files are named here and read when the daemon starts.

use std::path::PathBuf;
use std::time::Duration;

use super::error::{Problem, Warning};
use super::raw::{Origin, Raw, Strings};
use super::values::{HostPort, Value, choice};
use super::{Config, PeerDiscovery, tls_rows};
use crate::tls::TlsSettings;

/// What every variable of TLS begins with.
const PREFIX: &str = "GUBER_TLS_";

choice! {
    /// The oldest version of TLS that is spoken.
    TlsMinVersion {
        /// Means 1.2.
        Tls10 = "1.0",
        /// Means 1.2.
        Tls11 = "1.1",
        /// 1.2.
        Tls12 = "1.2",
        /// 1.3.
        #[default]
        Tls13 = "1.3",
    }
}

choice! {
    /// What is asked of clients.
    ClientAuth {
        /// A certificate, which is not verified and may be missing.
        #[default]
        Request = "request-cert",
        /// A certificate, which may be missing and is verified otherwise.
        VerifyIfGiven = "verify-cert",
        /// A certificate, which is not verified.
        RequireAny = "require-any-cert",
        /// A certificate, which is verified.
        RequireAndVerify = "require-and-verify",
    }
}

impl ClientAuth {
    /// Whether a certificate that a client shows is verified.
    pub const fn verifies(self) -> bool {
        matches!(self, Self::VerifyIfGiven | Self::RequireAndVerify)
    }
}

/// TLS, on all ports and to peers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// Certificates that are believed beside the system's.
    pub ca: Option<String>,
    /// The key of that certificate.
    pub ca_key: Option<String>,
    /// What the node presents.
    pub cert: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// Make what is not given.
    pub auto: bool,
    /// The oldest version that is spoken.
    pub min_version: TlsMinVersion,
    /// What is asked of clients.
    pub client_auth: Option<ClientAuth>,
    /// Certificates that are believed of clients.
    pub client_auth_ca_cert: Option<String>,
    /// What the node presents to peers.
    pub client_auth_cert: Option<String>,
    /// Its key.
    pub client_auth_key: Option<String>,
    /// The name that peers' certificates must carry.
    pub client_auth_server_name: Option<String>,
    /// Do not verify peers.
    pub insecure_skip_verify: bool,
    /// How often files are looked at; zero: only when asked.
    pub reload_interval: Duration,
    /// Whether there is TLS at all; set by the cross-check.
    pub on: bool,
}

impl Tls {
    /// As the part that makes TLS of them asks for them. `names`: this node's, for a certificate that is made.
    pub fn settings(&self, names: Vec<String>) -> TlsSettings {
        let path = |file: &Option<String>| file.as_ref().map(PathBuf::from);
        TlsSettings {
            ca: path(&self.ca),
            ca_key: path(&self.ca_key),
            cert: path(&self.cert),
            key: path(&self.key),
            auto: self.auto,
            min_version: self.min_version,
            client_auth: self.client_auth,
            client_auth_ca: path(&self.client_auth_ca_cert),
            client_auth_cert: path(&self.client_auth_cert),
            client_auth_key: path(&self.client_auth_key),
            server_name: self.client_auth_server_name.clone(),
            skip_verify: self.insecure_skip_verify,
            names,
        }
    }
}

impl Config {
    /// TLS, when it is on. `own`: this node's address as peers know it.
    pub fn tls_settings(&self, own: &HostPort) -> Option<TlsSettings> {
        let hosts = [&self.grpc.address, &self.http.address, own].map(|address| address.host.clone());
        let names = hosts.into_iter().chain(self.tls.client_auth_server_name.clone());
        self.tls.on.then(|| self.tls.settings(names.collect()))
    }

    /// Whether this node and its peers are told apart from others by certificates.
    pub fn peers_are_certified(&self) -> bool {
        self.tls.on && self.tls.client_auth.is_some_and(ClientAuth::verifies)
    }
}

/// What the environment says about TLS, for a command that calls a node: whether there is TLS at all, and the settings.
/// Nothing else is looked at, and what a daemon needs and a client does not may be missing.
///
/// # Errors
/// What is wrong with the values.
pub fn client_tls(env: impl IntoIterator<Item = (String, String)>) -> Result<Tls, super::ConfigError> {
    let env: Vec<_> = env.into_iter().filter(|(name, _)| turns_on(name)).collect();
    let mut problems = Vec::new();
    let raw = Raw::collect(&Strings { env, ..Strings::default() }, &mut problems);
    let mut config = Config::default();
    for setting in &tls_rows::ROWS {
        if let Some(given) = raw.given(setting)
            && let Err(expected) = (setting.field.set)(&mut config, &given.text)
        {
            problems.push(Problem::value(setting, given, expected));
        }
    }
    config.tls.on = turned_on_by(&config, &raw).is_some();
    if problems.is_empty() { Ok(config.tls) } else { Err(super::ConfigError::new(problems)) }
}

/// Whether a variable turns TLS on, known or not.
pub(super) fn turns_on(variable: &str) -> bool {
    variable.starts_with(PREFIX)
}

/// The first that turns TLS on: its name and where it was given.
fn turned_on_by(config: &Config, raw: &Raw) -> Option<(String, Origin)> {
    let settings = tls_rows::ROWS.iter().filter(|setting| setting.name != "tls.reload_interval");
    let says_more = settings.filter(|setting| (setting.field.show)(config) != setting.default);
    let known = says_more.filter_map(|setting| raw.given(setting));
    let unknown = raw
        .variables
        .iter()
        .filter(|(name, given)| turns_on(name) && !super::table::by_variable(name) && !given.text.is_empty());
    let given = known.chain(unknown.map(|(_, given)| given)).next()?;
    Some((given.origin.given_as(), given.origin.clone()))
}

/// Whether the settings fit together, and whether TLS is on. Called with what was wrong with single values: what follows
/// from those is not reported again.
pub(super) fn check(
    config: &mut Config,
    raw: &Raw,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) {
    let turned_on = turned_on_by(config, raw);
    config.tls.on = turned_on.is_some();
    let status = raw.given_by_name("http.status_address");
    let Some((name, origin)) = turned_on else {
        if let Some(given) = status {
            let (name, origin) = (given.origin.given_as(), &given.origin);
            warnings.push(Warning(format!(
                "{name} ({origin}) has no effect without TLS: the HTTP listener serves everything it would"
            )));
        }
        return;
    };
    let given = |name: &str| raw.given_by_name(name);
    let is_tls = |problem: &Problem| {
        tls_rows::ROWS.iter().any(|setting| {
            let flag = setting.flag.map(|flag| format!("--{flag}"));
            problem.name == setting.name
                || setting.env.contains(&problem.name.as_str())
                || flag.as_ref() == Some(&problem.name)
        })
    };
    if problems.iter().any(is_tls) {
        return;
    }
    let tls = &config.tls;
    let pairs = [
        ("tls.cert", &tls.cert, "tls.key", &tls.key, "GUBER_TLS_CERT", "GUBER_TLS_KEY"),
        (
            "tls.client_auth_cert",
            &tls.client_auth_cert,
            "tls.client_auth_key",
            &tls.client_auth_key,
            "GUBER_TLS_CLIENT_AUTH_CERT",
            "GUBER_TLS_CLIENT_AUTH_KEY",
        ),
    ];
    let mut report = |name: &str, advice: String| {
        if let (Some(setting), Some(given)) = (super::table::by_name(name), given(name)) {
            problems.push(Problem::value(setting, given, advice));
        }
    };
    let mut paired = true;
    for (name, certificate, key_name, key, variable, key_variable) in pairs {
        match (certificate, key) {
            (Some(_), None) => report(name, format!("it needs its key; set {key_variable}")),
            (None, Some(_)) => report(key_name, format!("it needs its certificate; set {variable}")),
            _ => continue,
        }
        paired = false;
    }
    if tls.ca_key.is_some() && tls.ca.is_none() {
        report("tls.ca_key", "it needs its certificate; set GUBER_TLS_CA".to_owned());
    }
    if paired && tls.cert.is_none() && !tls.auto {
        problems.push(Problem {
            name,
            value: None,
            origin,
            advice: "it turns TLS on, and there is no certificate; set GUBER_TLS_CERT and GUBER_TLS_KEY, or \
                     GUBER_TLS_AUTO=true, or unset it"
                .to_owned(),
        });
        return;
    }
    let mut report = |name: &str, advice: &str| {
        if let (Some(setting), Some(given)) = (super::table::by_name(name), given(name)) {
            problems.push(Problem::value(setting, given, advice));
        }
    };
    if tls.client_auth.is_some() && tls.ca.is_none() && tls.client_auth_ca_cert.is_none() && !tls.auto {
        // The original's words, which its users may look for.
        report(
            "tls.client_auth",
            "client auth enabled, but no CA's provided; set GUBER_TLS_CLIENT_AUTH_CA_CERT or GUBER_TLS_CA",
        );
    }
    warn(config, raw, warnings);
}

/// What does not do what it seems to.
fn warn(config: &Config, raw: &Raw, warnings: &mut Vec<Warning>) {
    let tls = &config.tls;
    let mut warn = |name: &str, text: &str| {
        if let Some(given) = raw.given_by_name(name) {
            warnings.push(Warning(format!("{} ({}) {text}", given.origin.given_as(), given.origin)));
        }
    };
    if matches!(tls.min_version, TlsMinVersion::Tls10 | TlsMinVersion::Tls11) {
        warn("tls.min_version", "means 1.2: older versions of TLS are broken and not spoken here");
    }
    if tls.client_auth.is_none() {
        for name in ["tls.client_auth_ca_cert", "tls.client_auth_cert", "tls.client_auth_key"] {
            warn(name, "has no effect unless GUBER_TLS_CLIENT_AUTH is set");
        }
    }
    if tls.insecure_skip_verify {
        warn("tls.insecure_skip_verify", "lets anybody who answers at a peer's address be that peer");
    }
    let makes = tls.auto && tls.cert.is_none();
    if !makes {
        warn("tls.ca_key", "has no effect: no certificate is made");
    } else if tls.ca.is_some() && tls.ca_key.is_none() {
        warn(
            "tls.ca",
            "signs no automatic certificates without GUBER_TLS_CA_KEY; they are signed by a made CA",
        );
    }
    if makes
        && (tls.ca.is_none() || tls.ca_key.is_none())
        && !tls.insecure_skip_verify
        && config.discovery.in_force() != PeerDiscovery::None
    {
        warn(
            "tls.auto",
            "makes a CA that peers do not know, so no node can verify another; give all of them the same GUBER_TLS_CA \
             and GUBER_TLS_CA_KEY",
        );
    }
}

/// A name that a certificate can carry: of DNS, or an IP address.
pub(super) fn server_name(config: &mut Config, text: &str) -> Result<(), String> {
    if rustls::pki_types::ServerName::try_from(text).is_err() {
        return Err("expected a DNS name or an IP address, as in the certificates of the peers".to_owned());
    }
    config.tls.client_auth_server_name = Some(String::parse(text)?);
    Ok(())
}
