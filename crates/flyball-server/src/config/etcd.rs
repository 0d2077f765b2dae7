//! The settings of discovery by etcd: the values, how they fit together, and the source that they make.
//!
//! TLS is on as soon as anything about it is said, as with the original, which goes by the prefix `GUBER_ETCD_TLS_` alone:
//! its own sample file misspells the switch, and that file has to go on working. Only an explicit `false` on the switch
//! itself says otherwise, and only where nothing contradicts it.

use flyball_discovery::{EtcdEndpoint, EtcdSettings, EtcdTls, EtcdUser, PeerInfo};

use super::Config;
use super::choices::PeerDiscovery;
use super::error::{Warning, quoted};
use super::raw::Raw;
use super::values::{HostPort, Value, items};

/// Discovery by etcd.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Etcd {
    /// The members.
    pub endpoints: EtcdEndpoints,
    /// What all keys begin with.
    pub key_prefix: String,
    /// The address peers know this node by, when it is another one than elsewhere.
    pub advertise_address: Option<HostPort>,
    /// The data center that is written, when it is another one than elsewhere.
    pub data_center: Option<String>,
    /// How long a connection may take to be made.
    pub dial_timeout: std::time::Duration,
    /// Who this is.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// Whether TLS is spoken: what the switch says, or else whether anything else asks for it.
    pub tls_enable: Option<bool>,
    /// A file of authorities.
    pub tls_ca: Option<String>,
    /// A file with this node's certificate.
    pub tls_cert: Option<String>,
    /// A file with its key.
    pub tls_key: Option<String>,
    /// Take any certificate for good.
    pub tls_skip_verify: Option<bool>,
}

impl Etcd {
    fn tls_is_on(&self) -> bool {
        self.tls_enable == Some(true)
    }
}

/// Members of etcd, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdEndpoints(pub Vec<EtcdEndpoint>);

impl Value for EtcdEndpoints {
    const KIND: &'static str = "list of host:port";

    fn parse(text: &str) -> Result<Self, String> {
        let parse = |item| EtcdEndpoint::parse(item).map_err(|why| format!("{} {why}", quoted(item)));
        let endpoints: Vec<_> = items(text).map(parse).collect::<Result<_, _>>()?;
        match endpoints.is_empty() {
            true => Err("expected a comma separated list of host:port".to_owned()),
            false => Ok(Self(endpoints)),
        }
    }

    fn show(&self) -> String {
        let shown: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        shown.join(",")
    }
}

/// What turns TLS on for the original, whatever follows.
const TLS_PREFIX: &str = "GUBER_ETCD_TLS_";

/// The settings about TLS, but the switch.
const TLS_FILES: [&str; 4] = [
    "discovery.etcd.tls_ca",
    "discovery.etcd.tls_cert",
    "discovery.etcd.tls_key",
    "discovery.etcd.tls_skip_verify",
];

/// Settles whether TLS is on. The answer is the switch's value from here on: shown, it makes the same configuration
/// again, also when all that asked for TLS was a variable with a misspelt name.
pub(super) fn complete(config: &mut Config, raw: &Raw) {
    if others_ask_for_tls(raw) {
        config.discovery.etcd.tls_enable.get_or_insert(true);
    }
}

/// Whether anything but the switch asks for TLS.
fn others_ask_for_tls(raw: &Raw) -> bool {
    TLS_FILES.iter().any(|name| raw.given_by_name(name).is_some())
        || raw.variables.iter().any(|(name, given)| {
            name.starts_with(TLS_PREFIX) && name != "GUBER_ETCD_TLS_ENABLE" && !given.text.is_empty()
        })
}

/// Whether the settings fit together.
pub(super) fn check(
    config: &Config,
    raw: &Raw,
    report: &mut impl FnMut(&str, String),
    warnings: &mut Vec<Warning>,
) {
    let etcd = &config.discovery.etcd;
    if etcd.advertise_address.as_ref().is_some_and(|address| address.port == 0) {
        report("discovery.etcd.advertise_address", "expected the port that peers dial, not 0".to_owned());
    }
    if etcd.password.is_some() && etcd.user.is_none() {
        report("discovery.etcd.password", "a password needs a user: set GUBER_ETCD_USER".to_owned());
    }
    match (&etcd.tls_cert, &etcd.tls_key) {
        (Some(_), None) => report(
            "discovery.etcd.tls_cert",
            "a certificate needs its key: set GUBER_ETCD_TLS_KEY".to_owned(),
        ),
        (None, Some(_)) => report(
            "discovery.etcd.tls_key",
            "a key needs its certificate: set GUBER_ETCD_TLS_CERT".to_owned(),
        ),
        _ => {}
    }
    if etcd.tls_is_on() && etcd.endpoints.0.iter().any(|endpoint| endpoint.secure() == Some(false)) {
        report(
            "discovery.etcd.endpoints",
            "TLS is on, and http:// asks for none; expected https:// or no scheme".to_owned(),
        );
    }
    if etcd.tls_enable == Some(false) {
        match others_ask_for_tls(raw) {
            true => report(
                "discovery.etcd.tls_enable",
                "other settings turn TLS on; expected no value, or none of the others".to_owned(),
            ),
            false => {
                let given = raw.given_by_name("discovery.etcd.tls_enable");
                let name = given.map(|given| given.origin.given_as()).unwrap_or_default();
                if name.starts_with(TLS_PREFIX) {
                    warnings.push(Warning(format!(
                        "{name} is false, so etcd is spoken to without TLS; with Gubernator any value turned it on"
                    )));
                }
            }
        }
    }
    if etcd.tls_skip_verify == Some(true) {
        warnings.push(Warning(
            "etcd's certificate is not verified: whoever is between can read the password and invent peers; set \
             GUBER_ETCD_TLS_CA instead of GUBER_ETCD_TLS_SKIP_VERIFY"
                .to_owned(),
        ));
    }
    if etcd.tls_skip_verify == Some(false) {
        let given = raw.given_by_name("discovery.etcd.tls_skip_verify");
        let name = given.map(|given| given.origin.given_as()).unwrap_or_default();
        if !name.is_empty() && !name.contains('.') {
            warnings.push(Warning(format!(
                "{name} is false, so etcd's certificate is verified; with Gubernator any value turned that off"
            )));
        }
    }
}

impl Config {
    /// What discovery by etcd is told, given the address peers know this node by.
    pub(super) fn etcd_settings(&self, own: &HostPort) -> EtcdSettings {
        let etcd = &self.discovery.etcd;
        let tls = || EtcdTls {
            ca: etcd.tls_ca.clone().map(Into::into),
            identity: etcd
                .tls_cert
                .clone()
                .zip(etcd.tls_key.clone())
                .map(|(cert, key)| (cert.into(), key.into())),
            skip_verify: etcd.tls_skip_verify == Some(true),
        };
        EtcdSettings {
            endpoints: etcd.endpoints.0.clone(),
            key_prefix: etcd.key_prefix.clone(),
            own: PeerInfo { data_center: self.data_center(), ..PeerInfo::new(own.to_string()) },
            dial_timeout: etcd.dial_timeout,
            user: etcd
                .user
                .clone()
                .map(|name| EtcdUser { name, password: etcd.password.clone().unwrap_or_default() }),
            tls: etcd.tls_is_on().then(tls),
        }
    }

    /// What this kind of discovery says about the node itself, when it is the one in force.
    pub(super) fn etcd_in_force(&self) -> Option<&Etcd> {
        (self.discovery.in_force() == PeerDiscovery::Etcd).then_some(&self.discovery.etcd)
    }
}
