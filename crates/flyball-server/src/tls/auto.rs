//! Self-made certificates: an authority, given or made, and one certificate that it signs.
//!
//! They live in memory. A cluster whose nodes made their own authorities cannot verify each other: nodes share the
//! authority's certificate and key, or skip verifying. Times begin an hour ago, so that a machine whose clock lags a
//! little believes a node that has just started.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;
use super::material::Pair;

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a made authority is valid: for as long as the process runs.
const AUTHORITY_DAYS: u32 = 3_650;
/// How long a made certificate is valid; it is made anew in time.
const CERTIFICATE_DAYS: u32 = 365;
const ORGANIZATION: &str = "gubernator";

/// Who signs the certificates that are made.
#[derive(Debug)]
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, when it was made here.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

fn failed(error: &rcgen::Error) -> TlsError {
    TlsError::new(format!("cannot make a certificate: {error}"))
}

impl Authority {
    /// A new one, valid from `now`.
    pub(super) fn make(now: SystemTime) -> Result<Self, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("flyball automatic CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        params.not_before = (now - HOUR).into();
        params.not_after = (now + DAY * AUTHORITY_DAYS).into();
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let certificate = params.self_signed(&key).map_err(|error| failed(&error))?;
        Ok(Self { issuer: Issuer::new(params, key), certificate: Some(certificate.der().clone()) })
    }

    /// The one whose certificate and key are in these files.
    pub(super) fn given(certificate: &str, key: &str) -> Result<Self, String> {
        let key = KeyPair::from_pem(key).map_err(|error| format!("its key cannot be used: {error}"))?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(|error| error.to_string())?;
        Ok(Self { issuer, certificate: None })
    }

    /// A certificate for these names and addresses, valid from `now`, to serve and to call with.
    pub(super) fn sign(&self, names: &[String], now: SystemTime) -> Result<Pair, TlsError> {
        let mut params = CertificateParams::new(names).map_err(|error| failed(&error))?;
        params.distinguished_name = name("flyball");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = (now - HOUR).into();
        params.not_after = (now + DAY * CERTIFICATE_DAYS).into();
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|error| failed(&error))?;
        let key =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| TlsError::new(error.to_owned()))?;
        Ok(Pair {
            chain: vec![certificate.der().clone()],
            key,
            origin: "the automatic certificate".to_owned(),
        })
    }
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, ORGANIZATION);
    name.push(DnType::CommonName, common);
    name
}

/// What a made certificate is valid for: this machine by every address and name it has, and what was configured.
pub(super) fn names(configured: &[String]) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(configured.iter().filter(|name| is_name(name)).cloned());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    names.extend(Some(host.trim().to_owned()).filter(|name| is_name(name)));
    // Without them the configured addresses have to do.
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    names.extend(interfaces.iter().map(|interface| interface.ip().to_string()));
    names.sort();
    names.dedup();
    names
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name != "0.0.0.0"
        && name != "::"
        && rustls::pki_types::ServerName::try_from(name).is_ok()
}
