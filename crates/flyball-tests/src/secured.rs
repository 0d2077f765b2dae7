//! A client that speaks TLS, over gRPC and HTTP: one call, on a connection of its own, and why there was none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use flyball::pb::v1_client::V1Client;
use flyball::pb::{GetRateLimitsReq, RateLimitReq, RateLimitResp};
use flyball_server::config::ClientAuth;
use flyball_server::tls::{Alpn, TlsClient, TlsSettings};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::certificates::Certificates;

/// What takes this long hangs.
const HANGS: Duration = Duration::from_secs(15);

/// How a client secures its calls.
#[derive(Clone, Debug)]
pub struct Secured(TlsSettings);

impl Secured {
    /// Who believes `ca.pem` and shows nothing.
    pub fn new(certificates: &Certificates) -> Self {
        Self(TlsSettings { ca: Some(certificates.path("ca.pem")), ..TlsSettings::default() })
    }

    /// Shows `<file>.pem`.
    #[must_use]
    pub fn showing(mut self, certificates: &Certificates, file: &str) -> Self {
        self.0.client_auth = Some(ClientAuth::Request);
        self.0.client_auth_cert = Some(certificates.path(&format!("{file}.pem")));
        self.0.client_auth_key = Some(certificates.path(&format!("{file}.key")));
        self
    }

    /// Expects this name of the server.
    #[must_use]
    pub fn expecting(mut self, name: &str) -> Self {
        self.0.server_name = Some(name.to_owned());
        self
    }

    /// Believes everybody.
    #[must_use]
    pub fn believing_everybody(mut self) -> Self {
        self.0.skip_verify = true;
        self
    }

    /// A gRPC channel, connected.
    pub async fn channel(&self, address: SocketAddr) -> anyhow::Result<Channel> {
        let tls = TlsClient::new(&self.0, Alpn::Http2)?;
        let connector = service_fn(move |_| {
            let tls = tls.clone();
            async move {
                let stream = TcpStream::connect(address).await?;
                tls.secure(&address.ip().to_string(), stream).await.map(TokioIo::new)
            }
        });
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        let channel = tokio::time::timeout(HANGS, endpoint.connect_with_connector(connector)).await?;
        channel.map_err(|error| anyhow::Error::msg(chain(&error)))
    }

    /// One check over gRPC.
    pub async fn check(&self, address: SocketAddr, item: RateLimitReq) -> anyhow::Result<RateLimitResp> {
        let mut client = V1Client::new(self.channel(address).await?);
        let request = GetRateLimitsReq { requests: vec![item] };
        let answer = tokio::time::timeout(HANGS, client.get_rate_limits(request)).await?;
        let answer = answer.map_err(|status| anyhow::Error::msg(chain(&status)))?;
        answer.into_inner().responses.pop().context("no answer")
    }

    /// GET over HTTP, the version as asked for.
    pub async fn get(&self, address: SocketAddr, alpn: Alpn, path: &str) -> anyhow::Result<(u16, String)> {
        let tls = TlsClient::new(&self.0, alpn)?;
        let exchange = async {
            let stream = TcpStream::connect(address).await?;
            let stream = TokioIo::new(tls.secure(&address.ip().to_string(), stream).await?);
            let request =
                hyper::Request::get(format!("https://{address}{path}")).body(Empty::<Bytes>::new())?;
            let response = match alpn {
                Alpn::Http1 => {
                    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
                    tokio::spawn(connection);
                    let mut request = request;
                    request.headers_mut().insert("host", address.to_string().parse()?);
                    *request.uri_mut() = path.parse()?;
                    sender.send_request(request).await?
                }
                Alpn::Http2 => {
                    let executor = TokioExecutor::new();
                    let (mut sender, connection) =
                        hyper::client::conn::http2::handshake(executor, stream).await?;
                    tokio::spawn(connection);
                    sender.send_request(request).await?
                }
            };
            let status = response.status().as_u16();
            let body = response.into_body().collect().await?.to_bytes();
            Ok((status, String::from_utf8_lossy(&body).into_owned()))
        };
        match tokio::time::timeout(HANGS, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("no answer within {HANGS:?}"),
        }
    }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// One hit of a limit of 100 in ten minutes.
pub fn item(key: &str) -> RateLimitReq {
    RateLimitReq {
        name: "tls".to_owned(),
        unique_key: key.to_owned(),
        hits: 1,
        limit: 100,
        duration: 600_000,
        ..RateLimitReq::default()
    }
}

/// Clients that call a node all the time. None of their calls may fail.
#[derive(Debug)]
pub struct Callers {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Callers {
    /// So many, half of them on one connection all the time, half on a new one for each call.
    pub fn start(runtime: &Runtime, count: usize, client: &Secured, address: SocketAddr) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tasks = (0..count).map(|caller| {
            let (client, stop, done) = (client.clone(), Arc::clone(&stop), Arc::clone(&done));
            runtime.spawn(async move {
                let kept = client.channel(address).await?;
                while !stop.load(Relaxed) {
                    if caller % 2 == 0 {
                        V1Client::new(kept.clone()).live_check(flyball::pb::LiveCheckReq {}).await?;
                    } else {
                        client.check(address, item("load")).await?;
                    }
                    done.fetch_add(1, Relaxed);
                }
                Ok(())
            })
        });
        let tasks = tasks.collect();
        Self { stop, done, tasks }
    }

    /// Ends them: how many calls there were.
    ///
    /// # Errors
    /// A call failed.
    pub fn stop(self, runtime: &Runtime) -> anyhow::Result<u64> {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            runtime.block_on(task)??;
        }
        Ok(self.done.load(Relaxed))
    }
}
