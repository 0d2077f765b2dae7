//! TLS toward etcd: from files to a client configuration.
//!
//! The files are read for each connection, so certificates that were renewed are taken up without a restart and without
//! watching anything: connections are rare.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// What is shown to etcd, and what it must show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdTls {
    /// A file of authorities, which take the place of the system's.
    pub ca: Option<PathBuf>,
    /// Files of this node's certificate, with the chain after it, and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Take any certificate of etcd for good.
    pub skip_verify: bool,
}

/// The configuration that the files make now. The error says which file is wrong.
pub(super) fn client_config(tls: &EtcdTls) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let builder = match tls.skip_verify {
        true => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
        false => builder.with_root_certificates(authorities(tls.ca.as_deref())?),
    };
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let pem = read(key)?;
            let private = PrivateKeyDer::from_pem_slice(&pem)
                .map_err(|error| wrong(key, "holds no private key that can be used", &error))?;
            builder
                .with_client_auth_cert(chain, private)
                .map_err(|error| wrong(key, "does not go with the certificate", &error))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        let system = rustls_native_certs::load_native_certs();
        let (good, _) = store.add_parsable_certificates(system.certs);
        return match good {
            0 => Err("this system has no certificate authorities; set GUBER_ETCD_TLS_CA".to_owned()),
            _ => Ok(store),
        };
    };
    for certificate in certificates(file)? {
        store
            .add(certificate)
            .map_err(|error| wrong(file, "holds a certificate that is no authority", &error))?;
    }
    Ok(store)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(format!("{} holds no certificate", file.display())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(file, "holds no certificate", &error)),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| wrong(file, "cannot be read", &error))
}

fn wrong(file: &Path, what: &str, error: &dyn Display) -> String {
    format!("{} {what}: {error}", file.display())
}

/// Takes any certificate for good. That whoever shows it has its key is still checked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_will_not_do_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (empty, broken) = (file("empty", ""), file("broken", "-----BEGIN CERTIFICATE-----\n!\n"));
        let missing = folder.path().join("missing");
        let ca = |ca: &Path| EtcdTls { ca: Some(ca.to_owned()), ..EtcdTls::default() };
        for (tls, said) in [
            (ca(&missing), "missing cannot be read: "),
            (ca(&empty), "empty holds no certificate"),
            (ca(&broken), "broken holds no certificate: "),
            (
                EtcdTls { skip_verify: true, identity: Some((empty.clone(), empty)), ..EtcdTls::default() },
                "empty holds no certificate",
            ),
        ] {
            let error = client_config(&tls).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(
            client_config(&EtcdTls { skip_verify: true, ..EtcdTls::default() }).unwrap().alpn_protocols,
            [b"h2"]
        );
    }
}
