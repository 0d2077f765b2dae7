//! From a connection that we opened to a secured one.
//!
//! The name that the server's certificate must carry is the host that was dialled, as with the original: a name, or an
//! IP address, which then has to be in the certificate as one. Where a certificate knows only names and peers know each
//! other by addresses, a configured name takes the host's place, in the check and in what the server is told (P31).

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::configs::{plain, provider, versions};
use super::material::{self, Pair};
use super::verify::KnownServers;
use super::{TlsError, TlsSettings};
use crate::config::TlsMinVersion;

/// What will be spoken on the secured connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/2, as gRPC does.
    Http2,
    /// HTTP/1.1.
    Http1,
}

/// Secures connections that this process opens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl TlsClient {
    /// For a command that calls a node with these settings. It shows a certificate only where `client_auth` says that the
    /// node asks for one.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn new(settings: &TlsSettings, alpn: Alpn) -> Result<Self, TlsError> {
        let (pair, ca) = material::for_client(settings)?;
        let provider = provider();
        let servers = Arc::new(KnownServers::new(&ca, settings.skip_verify, &provider)?);
        let name = settings.server_name.as_deref();
        Self::of(pair.as_ref(), servers, name, settings.min_version, alpn, &provider)
    }

    pub(super) fn of(
        pair: Option<&Pair>,
        servers: Arc<KnownServers>,
        name: Option<&str>,
        min_version: TlsMinVersion,
        alpn: Alpn,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(versions(min_version))
            .map_err(|error| TlsError::new(format!("cannot speak TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(servers);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(pair.chain.clone(), pair.key.clone_key())
                .map_err(|error| TlsError::new(format!("cannot use {}: {}", pair.origin, plain(&error))))?,
        };
        config.alpn_protocols = match alpn {
            Alpn::Http2 => vec![b"h2".to_vec()],
            Alpn::Http1 => vec![b"http/1.1".to_vec()],
        };
        let name = name.map(server_name).transpose().map_err(TlsError::new)?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// Does the handshake with the server at `host`. Not bounded in time.
    ///
    /// # Errors
    /// The connection fails, or one side does not believe the other.
    pub async fn secure(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => server_name(host).map_err(io::Error::other)?,
        };
        let secured = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await;
        secured.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                error.kind(),
                "the connection was closed during the handshake; does TLS end there?",
            ),
            _ => error,
        })
    }
}

pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let bare = bare.split('%').next().unwrap_or(bare);
    ServerName::try_from(bare.to_owned())
        .map_err(|_| format!("'{host}' is no name that a certificate could carry; set a server name"))
}
