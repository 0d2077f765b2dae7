//! Chains, keys and roots, read from files or made.
//!
//! All files are read at once, so that a change is seen as a whole, and whatever is wrong with one names it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::auto::{self, Authority};
use super::{TlsError, TlsSettings};
use crate::config;

/// The contents of all files that the settings name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    pub(super) fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let mut files = BTreeMap::new();
        let TlsSettings { ca, ca_key, cert, key, .. } = settings;
        let ca_key = ca_key.as_ref().filter(|_| settings.auto);
        let named = [ca.as_ref(), ca_key, cert.as_ref(), key.as_ref()].into_iter().flatten();
        // Whoever does not ask for certificates has no use for these, as with the original.
        let client = [&settings.client_auth_ca, &settings.client_auth_cert, &settings.client_auth_key];
        let client = client.into_iter().flatten().filter(|_| settings.client_auth.is_some());
        for path in named.chain(client) {
            let text = config::read_file(path).and_then(|text| match text.len() {
                0..=config::FILE_BYTES_MAX => Ok(text),
                _ => Err(std::io::Error::other("it is larger than 1 MiB")),
            });
            let text = text.map_err(|error| {
                TlsError::new(format!("while reading file '{}': {error}", path.display()))
            })?;
            files.insert(path.clone(), text);
        }
        Ok(Self(files))
    }

    fn get(&self, path: &Path) -> &[u8] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }

    fn text(&self, path: &Path) -> Result<&str, TlsError> {
        std::str::from_utf8(self.get(path)).map_err(|_| wrong(path, "it is no text; expected PEM"))
    }

    fn certificates(&self, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.get(path)).collect();
        match all {
            Ok(all) if all.is_empty() => {
                Err(wrong(path, "it has no certificate; expected PEM with -----BEGIN CERTIFICATE-----"))
            }
            Ok(all) => Ok(all),
            Err(error) => Err(wrong(path, error)),
        }
    }

    fn key(&self, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
        let text = self.get(path);
        PrivateKeyDer::from_pem_slice(text).map_err(|_| {
            let encrypted = text.windows(9).any(|word| word == b"ENCRYPTED");
            match encrypted {
                true => wrong(path, "its key is encrypted; expected an unencrypted one"),
                false => wrong(path, "it has no private key; expected PEM with -----BEGIN PRIVATE KEY-----"),
            }
        })
    }

    fn pair(&self, certificate: &Path, key: &Path) -> Result<Pair, TlsError> {
        Ok(Pair {
            chain: self.certificates(certificate)?,
            key: self.key(key)?,
            origin: format!("'{}' with the key '{}'", certificate.display(), key.display()),
        })
    }
}

fn wrong(path: &Path, what: impl std::fmt::Display) -> TlsError {
    TlsError::new(format!("cannot use file '{}': {what}", path.display()))
}

/// A certificate with what leads to its root, and its key.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    /// For messages.
    pub(super) origin: String,
}

impl Clone for Pair {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key(), origin: self.origin.clone() }
    }
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Material {
    /// What is presented to clients.
    pub(super) server: Pair,
    /// What is presented to peers.
    pub(super) client: Pair,
    /// Believed beside the system's roots.
    pub(super) ca: Vec<CertificateDer<'static>>,
    /// Believed of clients.
    pub(super) client_ca: Vec<CertificateDer<'static>>,
}

impl Material {
    /// Puts together what the files say and what has to be made. `authority` is kept by the caller, so that what is made
    /// later is believed by whoever believes the present.
    pub(super) fn new(
        settings: &TlsSettings,
        files: &Files,
        authority: &mut Option<Authority>,
        now: SystemTime,
    ) -> Result<Self, TlsError> {
        let mut ca = match &settings.ca {
            Some(path) => files.certificates(path)?,
            None => Vec::new(),
        };
        let server = match (&settings.cert, &settings.key) {
            (Some(certificate), Some(key)) => files.pair(certificate, key)?,
            _ if settings.auto => {
                let authority = match (&settings.ca, &settings.ca_key) {
                    (Some(certificate), Some(key)) => {
                        let given = Authority::given(files.text(certificate)?, files.text(key)?);
                        authority.insert(given.map_err(|why| {
                            wrong(certificate, format_args!("it cannot sign automatic certificates: {why}"))
                        })?)
                    }
                    _ => match authority {
                        Some(made) => made,
                        None => authority.insert(Authority::make(now)?),
                    },
                };
                ca.extend(authority.certificate.clone());
                authority.sign(&auto::names(&settings.names), now)?
            }
            _ => return Err(TlsError::new("TLS has no certificate: set GUBER_TLS_CERT and GUBER_TLS_KEY")),
        };
        let client = match (&settings.client_auth, &settings.client_auth_cert, &settings.client_auth_key) {
            (Some(_), Some(certificate), Some(key)) => files.pair(certificate, key)?,
            _ => server.clone(),
        };
        let client_ca = match (&settings.client_auth, &settings.client_auth_ca) {
            (Some(_), Some(path)) => files.certificates(path)?,
            (Some(_), None) if ca.is_empty() => {
                return Err(TlsError::new("client auth enabled, but no CA's provided"));
            }
            (Some(_), None) => ca.clone(),
            (None, _) => Vec::new(),
        };
        Ok(Self { server, client, ca, client_ca })
    }
}

/// What a command presents and believes, of a node's settings: certificates of its own only if the node asks for them.
pub(super) fn for_client(
    settings: &TlsSettings,
) -> Result<(Option<Pair>, Vec<CertificateDer<'static>>), TlsError> {
    let mut settings = settings.clone();
    settings.auto = false;
    if settings.client_auth.is_none() {
        (settings.cert, settings.key) = (None, None);
    }
    // Only the daemon verifies clients.
    settings.client_auth_ca = None;
    if settings.client_auth_cert.is_some() && settings.client_auth_key.is_some() {
        (settings.cert, settings.key) = (None, None);
    }
    let files = Files::read(&settings)?;
    let pairs = [(&settings.client_auth_cert, &settings.client_auth_key), (&settings.cert, &settings.key)];
    let pair = pairs.into_iter().find_map(|pair| match pair {
        (Some(certificate), Some(key)) if settings.client_auth.is_some() => {
            Some(files.pair(certificate, key))
        }
        _ => None,
    });
    let ca = match &settings.ca {
        Some(path) => files.certificates(path)?,
        None => Vec::new(),
    };
    Ok((pair.transpose()?, ca))
}
