//! TLS of whole daemons in the test's process. Certificates are made by the test.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod modes;
mod peers;
mod ports;
mod reload;

use flyball_tests::certificates::{Certificates, Flaw};
use flyball_tests::in_process::InProcess;

/// Client certificates, good and bad, and a server's for this machine.
fn certificates() -> Certificates {
    let certificates = Certificates::new().unwrap();
    certificates.issue("node", &["localhost", "127.0.0.1", "127.0.0.2", "127.0.0.3"], Flaw::None).unwrap();
    certificates.issue("good", &["client"], Flaw::None).unwrap();
    certificates.issue("expired", &["client"], Flaw::Expired).unwrap();
    certificates.issue("stranger-client", &["client"], Flaw::Stranger).unwrap();
    certificates
}

/// A daemon with `node.pem`, and what else is said.
fn daemon(certificates: &Certificates, more: &[(&str, &str)]) -> anyhow::Result<InProcess> {
    let (cert, key) = (certificates.text("node.pem"), certificates.text("node.key"));
    let ca = certificates.text("ca.pem");
    let mut env = vec![("GUBER_TLS_CERT", cert.as_str()), ("GUBER_TLS_KEY", &key), ("GUBER_TLS_CA", &ca)];
    env.extend_from_slice(more);
    InProcess::with_env(&env)
}
