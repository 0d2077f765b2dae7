//! What the TLS library needs, for every port and for peers: made as a whole, or not at all.

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::server::ServerSessionMemoryCache;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ServerConfig, SupportedProtocolVersion};

use super::client::{Alpn, TlsClient, server_name};
use super::material::{Material, Pair};
use super::verify::{self, KnownServers, validity};
use super::{TlsError, TlsSettings};
use crate::config::TlsMinVersion;

/// Sessions of each port that a client may go on with instead of a whole handshake. The oldest make room.
const SESSIONS: usize = 4_096;

static TLS_1_2: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
static TLS_1_3: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

pub(super) fn versions(least: TlsMinVersion) -> &'static [&'static SupportedProtocolVersion] {
    match least {
        // There is nothing older in the library; whoever asked for it was warned.
        TlsMinVersion::Tls10 | TlsMinVersion::Tls11 | TlsMinVersion::Tls12 => &TLS_1_2,
        TlsMinVersion::Tls13 => &TLS_1_3,
    }
}

/// One certificate's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// Which one, for a label.
    pub(super) which: &'static str,
    /// Seconds since 1970.
    pub(super) from: i64,
    pub(super) until: i64,
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Configs {
    pub(super) grpc: Arc<ServerConfig>,
    pub(super) http: Arc<ServerConfig>,
    /// Asks for no certificate.
    pub(super) status: Arc<ServerConfig>,
    pub(super) peers: TlsClient,
    /// Of all that is presented or believed here; the one that ends first of each kind.
    pub(super) lifetimes: Vec<Lifetime>,
    servers: Arc<KnownServers>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    material: Material,
}

impl Configs {
    pub(super) fn new(settings: &TlsSettings, material: Material) -> Result<Self, TlsError> {
        let provider = provider();
        let clients = match settings.client_auth {
            None => None,
            Some(mode) => Some(verify::of_clients(mode, &material.client_ca, &provider)?),
        };
        let server = |clients: Option<&Arc<dyn ClientCertVerifier>>, protocols: &[&[u8]]| {
            server(settings, &material.server, clients, protocols, &provider)
        };
        let servers = Arc::new(KnownServers::new(&material.ca, settings.skip_verify, &provider)?);
        let peers = TlsClient::of(
            Some(&material.client),
            Arc::clone(&servers),
            settings.server_name.as_deref(),
            settings.min_version,
            Alpn::Http2,
            &provider,
        )?;
        Ok(Self {
            grpc: server(clients.as_ref(), &[b"h2"])?,
            http: server(clients.as_ref(), &[b"h2", b"http/1.1"])?,
            status: server(None, &[b"h2", b"http/1.1"])?,
            peers,
            lifetimes: lifetimes(&material),
            servers,
            clients,
            material,
        })
    }

    /// What other nodes with the same settings will find wrong with this one, which they know as `host`. Nothing when
    /// all is well.
    pub(super) fn what_peers_will_refuse(&self, settings: &TlsSettings, host: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let now = UnixTime::now();
        let name = settings.server_name.as_deref().unwrap_or(host);
        let (shown, rest) = split(&self.material.server);
        let server =
            server_name(name).map(|name| self.servers.verify_server_cert(shown, rest, &name, &[], now));
        match server {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => wrong.push(format!("the certificate of this node, known as {name}: {error}")),
            Err(error) => wrong.push(error),
        }
        if let Some(clients) = &self.clients {
            let (shown, rest) = split(&self.material.client);
            if let Err(error) = clients.verify_client_cert(shown, rest, now) {
                wrong.push(format!("what this node presents to peers: {error}"));
            }
        }
        wrong
    }
}

fn split(
    pair: &Pair,
) -> (&rustls::pki_types::CertificateDer<'static>, &[rustls::pki_types::CertificateDer<'static>]) {
    let (shown, rest) = pair.chain.split_first().expect("a chain that was read has a certificate");
    (shown, rest)
}

fn server(
    settings: &TlsSettings,
    pair: &Pair,
    clients: Option<&Arc<dyn ClientCertVerifier>>,
    protocols: &[&[u8]],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions(settings.min_version))
        .map_err(|error| TlsError::new(format!("cannot speak TLS: {error}")))?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(pair.chain.clone(), pair.key.clone_key())
        .map_err(|error| TlsError::new(format!("cannot use {}: {}", pair.origin, plain(&error))))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Each port has its own: a session of one that asks for no certificate must not open one that does.
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(Arc::new(config))
}

/// What the library refuses, in words.
pub(super) fn plain(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "they do not belong together".to_owned(),
        error => error.to_string(),
    }
}

fn lifetimes(material: &Material) -> Vec<Lifetime> {
    let first = |which, certificates: &[rustls::pki_types::CertificateDer<'static>]| {
        let all = certificates.iter().filter_map(|certificate| validity(certificate));
        all.map(|(from, until)| Lifetime { which, from, until }).min_by_key(|life| life.until)
    };
    let own = material.client.chain == material.server.chain;
    let client = if own { &[][..] } else { &material.client.chain };
    [
        first("server", &material.server.chain),
        first("client", client),
        first("ca", &material.ca),
        first("client-ca", if material.client_ca == material.ca { &[] } else { &material.client_ca }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
