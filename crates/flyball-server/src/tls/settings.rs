//! What was asked for. Plain values; files are only named.

use std::path::PathBuf;

use crate::config::{ClientAuth, TlsMinVersion};

/// Everything about TLS that somebody decides. The words are the original's; `docs/tls.md` explains them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificates that are believed beside the system's, to verify peers.
    pub ca: Option<PathBuf>,
    /// The key of that certificate, with which certificates are made.
    pub ca_key: Option<PathBuf>,
    /// What the node presents: its own certificate first, then those that lead to the root.
    pub cert: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
    /// What of the above is not given is made, in memory.
    pub auto: bool,
    /// The oldest version that is spoken.
    pub min_version: TlsMinVersion,
    /// What is asked of clients. `None`: nothing.
    pub client_auth: Option<ClientAuth>,
    /// Certificates that are believed when clients are verified; otherwise `ca`.
    pub client_auth_ca: Option<PathBuf>,
    /// What the node presents to peers that ask; otherwise `cert`.
    pub client_auth_cert: Option<PathBuf>,
    /// The key of that certificate.
    pub client_auth_key: Option<PathBuf>,
    /// The name that certificates of peers must carry; otherwise the host that was dialled.
    pub server_name: Option<String>,
    /// Certificates of peers are not verified.
    pub skip_verify: bool,
    /// Names and addresses of this node, for a certificate that is made.
    pub names: Vec<String>,
}
