//! Whom we believe.
//!
//! A chain is verified by the library. Two things it does not do are done here: the modes that ask a client for a
//! certificate without verifying it, and a certificate that is its own authority. People make the latter with one command
//! and name it as certificate and as authority; the original believes it, so we do: not as an authority that signs
//! itself, but as the very certificate that was named, within its time and for its name.
//!
//! In every mode the client has to prove that it has the key of the certificate it shows.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};

use super::TlsError;
use crate::config::ClientAuth;

/// When a certificate's time begins and ends, in seconds since 1970. `None` for what is no certificate.
pub(super) fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let validity = parsed.validity();
    Some((validity.not_before.timestamp(), validity.not_after.timestamp()))
}

/// Whether this is one of the certificates that were named, within its time.
fn is_named(named: &[CertificateDer<'static>], shown: &CertificateDer<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let in_time = || validity(shown).is_some_and(|(begin, end)| (begin..=end).contains(&now));
    named.iter().any(|named| named.as_ref() == shown.as_ref()) && in_time()
}

/// Roots of these certificates.
fn roots(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(certificate.clone())
            .map_err(|error| TlsError::new(format!("cannot use a certificate of the CA: {error}")))?;
    }
    Ok(roots)
}

/// What is asked of clients in this mode.
pub(super) fn of_clients(
    mode: ClientAuth,
    ca: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let algorithms = provider.signature_verification_algorithms;
    let mandatory = matches!(mode, ClientAuth::RequireAny | ClientAuth::RequireAndVerify);
    if !mode.verifies() {
        return Ok(Arc::new(AnyCertificate { mandatory, algorithms }));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), Arc::clone(provider));
    let builder = if mandatory { builder } else { builder.allow_unauthenticated() };
    let chains = builder.build().map_err(|error| TlsError::new(format!("cannot verify clients: {error}")))?;
    Ok(Arc::new(KnownClients { chains, named: ca.to_vec() }))
}

/// Any certificate will do.
#[derive(Debug)]
struct AnyCertificate {
    mandatory: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    /// None: a client that was given names of authorities would keep back a certificate of another.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Chains that lead to our roots, and certificates that are among them.
#[derive(Debug)]
struct KnownClients {
    chains: Arc<dyn ClientCertVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ClientCertVerifier for KnownClients {
    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.chains.verify_client_cert(shown, intermediates, now) {
            Err(_) if is_named(&self.named, shown, now) => Ok(ClientCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Servers whose chains lead to the system's roots or ours, and certificates that are among ours; or everybody.
#[derive(Debug)]
pub(super) struct KnownServers {
    /// `None` where there are no roots at all.
    chains: Option<Arc<WebPkiServerVerifier>>,
    named: Vec<CertificateDer<'static>>,
    everybody: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl KnownServers {
    pub(super) fn new(
        ca: &[CertificateDer<'static>],
        everybody: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let mut roots = roots(ca)?;
        // Certificates of the system that cannot be read are the system's trouble, until one of them is needed.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let chains = match roots.is_empty() {
            true => None,
            false => {
                let builder =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
                let built = builder.build();
                Some(built.map_err(|error| TlsError::new(format!("cannot verify servers: {error}")))?)
            }
        };
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { chains, named: ca.to_vec(), everybody, algorithms })
    }
}

impl ServerCertVerifier for KnownServers {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.everybody {
            return Ok(ServerCertVerified::assertion());
        }
        let verified = match &self.chains {
            Some(chains) => chains.verify_server_cert(shown, intermediates, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        if verified.is_err() && is_named(&self.named, shown, now) {
            rustls::client::verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
