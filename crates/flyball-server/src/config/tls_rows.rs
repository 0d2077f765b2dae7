//! The settings about TLS.

use super::Config;
use super::table::Section::Tls;
use super::table::{Field, Setting, field};

/// Shown as what they are.
const FILE_CA: Field = Field { kind: "file", ..field!(tls.ca) };
const FILE_CA_KEY: Field = Field { kind: "file", ..field!(tls.ca_key) };
const FILE_CERT: Field = Field { kind: "file", ..field!(tls.cert) };
const FILE_KEY: Field = Field { kind: "file", ..field!(tls.key) };
const FILE_CLIENT_CA: Field = Field { kind: "file", ..field!(tls.client_auth_ca_cert) };
const FILE_CLIENT_CERT: Field = Field { kind: "file", ..field!(tls.client_auth_cert) };
const FILE_CLIENT_KEY: Field = Field { kind: "file", ..field!(tls.client_auth_key) };

/// What a certificate can carry.
const SERVER_NAME: Field = Field { set: server_name, ..field!(tls.client_auth_server_name) };

fn server_name(config: &mut Config, text: &str) -> Result<(), String> {
    super::tls::server_name(config, text)
}

/// In the order of the reference page.
pub(super) const ROWS: [Setting; 13] = [
    Setting::new(
        Tls,
        "tls.ca",
        &["GUBER_TLS_CA"],
        FILE_CA,
        "File with certificates, in PEM, that are believed beside the system's when a peer is verified; also \
         when clients are, unless `tls.client_auth_ca_cert` is given.",
    )
    .without("the system's certificates alone")
    .flag("tls-ca"),
    Setting::new(
        Tls,
        "tls.ca_key",
        &["GUBER_TLS_CA_KEY"],
        FILE_CA_KEY,
        "File with the key of the certificate in `tls.ca`. With `tls.auto` it signs the certificate that is \
         made: give all nodes of a cluster the same two.",
    )
    .without("a CA is made where one is needed")
    .flag("tls-ca-key"),
    Setting::new(
        Tls,
        "tls.cert",
        &["GUBER_TLS_CERT"],
        FILE_CERT,
        "File with the certificate that this node presents, in PEM, followed by those that lead to its root.",
    )
    .without("no certificate but an automatic one")
    .flag("tls-cert"),
    Setting::new(
        Tls,
        "tls.key",
        &["GUBER_TLS_KEY"],
        FILE_KEY,
        "File with the key of that certificate, unencrypted.",
    )
    .without("no key")
    .flag("tls-key"),
    Setting::new(
        Tls,
        "tls.auto",
        &["GUBER_TLS_AUTO"],
        field!(tls.auto),
        "Make the certificate that was not given, in memory: for `localhost`, this machine's addresses and \
         name, and the configured hosts. It is made anew before it ends.",
    )
    .default("false")
    .flag("tls-auto"),
    Setting::new(
        Tls,
        "tls.min_version",
        &["GUBER_TLS_MIN_VERSION"],
        field!(tls.min_version),
        "Oldest version of TLS that is spoken, by clients and with peers. `1.0` and `1.1` mean 1.2.",
    )
    .default("1.3")
    .flag("tls-min-version"),
    Setting::new(
        Tls,
        "tls.client_auth",
        &["GUBER_TLS_CLIENT_AUTH"],
        field!(tls.client_auth),
        "What is asked of clients, over gRPC and HTTP: `request-cert` asks for a certificate and verifies \
         nothing, `verify-cert` verifies it if there is one, `require-any-cert` insists on one and verifies \
         nothing, `require-and-verify` insists and verifies. Where clients are verified, the peers' service \
         is for clients with a certificate only.",
    )
    .without("no certificate is asked for")
    .flag("tls-client-auth"),
    Setting::new(
        Tls,
        "tls.client_auth_ca_cert",
        &["GUBER_TLS_CLIENT_AUTH_CA_CERT"],
        FILE_CLIENT_CA,
        "File with the certificates, in PEM, that are believed when clients are verified.",
    )
    .without("those of `tls.ca`")
    .flag("tls-client-auth-ca-cert"),
    Setting::new(
        Tls,
        "tls.client_auth_cert",
        &["GUBER_TLS_CLIENT_AUTH_CERT"],
        FILE_CLIENT_CERT,
        "File with the certificate that this node presents to peers that ask for one. Read only when \
         `tls.client_auth` is set.",
    )
    .without("the certificate it presents to clients")
    .flag("tls-client-auth-cert"),
    Setting::new(
        Tls,
        "tls.client_auth_key",
        &["GUBER_TLS_CLIENT_AUTH_KEY"],
        FILE_CLIENT_KEY,
        "File with the key of that certificate.",
    )
    .without("the key of the other")
    .flag("tls-client-auth-key"),
    Setting::new(
        Tls,
        "tls.client_auth_server_name",
        &["GUBER_TLS_CLIENT_AUTH_SERVER_NAME"],
        SERVER_NAME,
        "Name that the certificates of all peers must carry, whatever address they are dialled at. For \
         certificates that know names where peers know addresses.",
    )
    .without("the host of the peer's address")
    .flag("tls-client-auth-server-name"),
    Setting::new(
        Tls,
        "tls.insecure_skip_verify",
        &["GUBER_TLS_INSECURE_SKIP_VERIFY"],
        field!(tls.insecure_skip_verify),
        "Do not verify the certificates of peers. Calls are encrypted, and may be to anybody.",
    )
    .default("false")
    .flag("tls-insecure-skip-verify"),
    Setting::new(
        Tls,
        "tls.reload_interval",
        &["FLYBALL_TLS_RELOAD_INTERVAL"],
        field!(tls.reload_interval),
        "How often the files are looked at; what has changed counts for new connections. 0 leaves it to \
         SIGHUP.",
    )
    .default("10s")
    .flag("tls-reload-interval"),
];
