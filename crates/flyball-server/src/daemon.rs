//! The daemon: everything built in order, run, and taken down in reverse order.
//!
//! # The way out
//! 1. The node says that it is not ready and `grpc.health.v1` says NOT_SERVING, while everything is served as before:
//!    load balancers turn away during the termination delay (none by default). Where nodes find each other by what
//!    each says of itself, it says that it goes, and peers turn away too.
//! 2. The ports close. Idle connections end at once (GOAWAY, `Connection: close`), others with their last open
//!    call. A client that has no call open and does not answer is waited for a second, and everything that is still
//!    open when the bound is over is cut.
//! 3. The node delivers what GLOBAL limits owe to its peers and closes, then spans that wait for a collector get one second to leave.
//!
//! Each step has a bound, so a stop ends whatever clients, peers or collectors do. A second signal skips the rest:
//! then only the operating system tidies up.
//!
//! Nothing here is global: a program, or a test, may run several daemons. What a process has once (its log, its
//! signals) is installed by the program and handed in.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::time::Duration;

use flyball::{Metrics, MetricsOptions, Node, PeerSource, PeerSourceFailure, Settings, TraceLevel};
use flyball_discovery::{Failing, Recover, Snapshot, SourceError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::config::{Config, HostFacts, HostPort, TracingLevel};
use crate::grpc::{GrpcOptions, GrpcServer, Health};
use crate::http::{self, AdminAccess, HttpOptions, HttpService};
use crate::listen::{self, ListenError, Purpose};
use crate::shutdown::{Signal, Signals};
use crate::telemetry::traces::{Traces, TracesError};
use crate::tls::{Surface, Tls, TlsError};

/// Why a daemon did not start. One line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The source of peers cannot be what was configured.
    #[error("cannot find peers: {0}")]
    Peers(#[from] SourceError),
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The exporter of traces cannot be built from what was configured.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// The operating system refused something a running process needs.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// How a daemon's run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the exit code of the process depends on it"]
pub enum Exit {
    /// It was asked to stop and did; no call was cut.
    Drained,
    /// It was asked to stop and did, but connections that outlasted the bound were cut, and their calls with them.
    Cut,
    /// This second signal stopped it at once.
    Forced(Signal),
    /// A port stopped being served by a bug of ours.
    Broken,
}

impl Exit {
    /// The exit code of the process: 0 after a stop that was asked for, 128 + the signal's number after a second
    /// signal, 1 after a bug.
    pub const fn code(self) -> u8 {
        match self {
            Self::Drained | Self::Cut => 0,
            Self::Forced(signal) => signal.exit_code(),
            Self::Broken => 1,
        }
    }
}

/// A running node with its ports. Dropping it stops everything at once.
#[derive(Debug)]
pub struct Daemon {
    node: Node,
    grpc_address: SocketAddr,
    http_address: SocketAddr,
    status_address: Option<SocketAddr>,
    tls: Option<Tls>,
    /// Follows the certificates' files.
    certificates: Option<AbortOnDropHandle<()>>,
    health: Health,
    traces: Option<Traces>,
    servers: JoinSet<()>,
    /// Follows the source of peers, if there is one.
    peers: Option<AbortOnDropHandle<()>>,
    /// Asks that task to let the others know that this node goes.
    leave: CancellationToken,
    /// Ends when they do.
    left: Option<oneshot::Receiver<()>>,
    drain: CancellationToken,
    delay: Duration,
    bound: Duration,
}

impl Daemon {
    /// Opens the ports and serves. When this returns, calls are answered.
    ///
    /// Must be called within a tokio runtime, whose tasks the daemon's are.
    ///
    /// # Errors
    /// A port cannot be opened, certificates cannot be used, or the exporter of traces cannot be built. Nothing is left
    /// behind.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let grpc_listener = listen::bind(Purpose::Grpc, &config.grpc.address.to_string()).await?;
        let grpc_address = grpc_listener.local_addr()?;
        let http_listener = listen::bind(Purpose::Http, &config.http.address.to_string())
            .await
            .map_err(|error| error.knowing(Purpose::Grpc, grpc_address))?;
        let http_address = http_listener.local_addr()?;
        let status_listener = match config.http.status_address.as_ref().filter(|_| config.tls.on) {
            None => None,
            Some(address) => Some(
                listen::bind(Purpose::Status, &address.to_string())
                    .await
                    .map_err(|error| error.knowing(Purpose::Grpc, grpc_address))
                    .map_err(|error| error.knowing(Purpose::Http, http_address))?,
            ),
        };
        let status_address = status_listener.as_ref().map(TcpListener::local_addr).transpose()?;

        let host = host_facts();
        let instance = config.instance_id(&host);
        let traces = Traces::start(&config, &instance)?;
        let own = own_address(&config, grpc_address.port()).await;
        let tls = config.tls_settings(&own).map(Tls::start).transpose()?;
        let source = config.source(&own)?;
        let node = node(&config, &host, &own, traces.as_ref(), tls.as_ref());
        if let (Some(tls), Some(_)) = (&tls, &source) {
            tls.known_as(&own.host);
        }

        let (drain, leave) = (CancellationToken::new(), CancellationToken::new());
        let (peers, left) = match source {
            Some(source) => {
                let source = Recover::new(source, host.random[1]);
                report(&source, &node);
                let (following, left) = follow(source, &node, leave.clone()).await;
                (Some(following), Some(left))
            }
            None => (None, None),
        };
        let grpc = GrpcServer::new(&node, &grpc_options(&config)).await;
        let health = grpc.health();
        let options = http_options(&config, http_address);
        let http = HttpService::new(node.clone(), options.clone());
        let mut servers = JoinSet::new();
        let port = |surface| tls.as_ref().map(|tls| tls.port(surface));
        servers.spawn(grpc.run(grpc_listener, port(Surface::Grpc), drain.clone()));
        servers.spawn(http::serve(http_listener, http, port(Surface::Http), drain.clone()));
        if let Some(listener) = status_listener {
            let status = HttpService::new(node.clone(), HttpOptions { status_only: true, ..options });
            servers.spawn(http::serve(listener, status, port(Surface::Status), drain.clone()));
        }
        let certificates = tls
            .clone()
            .map(|tls| AbortOnDropHandle::new(tokio::spawn(tls.keep_current(config.tls.reload_interval))));
        let over = if tls.is_some() { " over TLS" } else { "" };
        tracing::info!(address = %grpc_address, instance, "serving gRPC{over}");
        tracing::info!(address = %http_address, instance, "serving HTTP{over}");
        if let Some(address) = status_address {
            tracing::info!(%address, instance, "serving status over TLS, without client certificates");
        }

        let delay = Duration::from_secs(config.shutdown.delay_seconds.into());
        let bound = config.shutdown.timeout;
        let peers = peers.map(Following::spawn);
        Ok(Self {
            node,
            grpc_address,
            http_address,
            status_address,
            tls,
            certificates,
            health,
            traces,
            servers,
            peers,
            leave,
            left,
            drain,
            delay,
            bound,
        })
    }

    /// Where gRPC is served; the real port when 0 was asked for.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc_address
    }

    /// Where HTTP is served; the real port when 0 was asked for.
    pub fn http_address(&self) -> SocketAddr {
        self.http_address
    }

    /// Where the status is served, if there is such a listener.
    pub fn status_address(&self) -> Option<SocketAddr> {
        self.status_address
    }

    /// Its TLS, if it speaks it.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The node inside.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Serves until the first of `signals`, then stops gracefully; a second signal stops at once.
    pub async fn run(mut self, mut signals: Signals) -> Exit {
        let hangup = signals.hangup();
        loop {
            tokio::select! {
                biased;
                signal = signals.next() => {
                    tracing::info!(%signal, "stopping; a second signal stops at once");
                    break;
                }
                () = hangup.notified() => self.reload(),
                Some(_) = self.servers.join_next() => {
                    tracing::error!("a listener ended by itself; stopping");
                    let _ = self.stop().await;
                    return Exit::Broken;
                }
            }
        }
        let stop = self.stop_after_delay();
        tokio::select! {
            biased;
            exit = stop => exit,
            signal = signals.next() => {
                tracing::warn!(%signal, "stopped at once; open calls were cut");
                Exit::Forced(signal)
            }
        }
    }

    /// What SIGHUP asks for: certificates are read again. Nothing else can change while the daemon runs.
    fn reload(&self) {
        match &self.tls {
            Some(tls) => tls.reload(),
            None => {
                tracing::info!("SIGHUP ignored: nothing is reloaded; restart to change the configuration");
            }
        }
    }

    async fn stop_after_delay(mut self) -> Exit {
        self.announce_stop().await;
        if !self.delay.is_zero() {
            tracing::info!(delay = ?self.delay, "not ready any more; still serving before the ports close");
            tokio::time::sleep(self.delay).await;
        }
        self.stop().await
    }

    /// Stops gracefully, without the termination delay: open calls are answered, within the configured bound.
    pub async fn stop(mut self) -> Exit {
        self.announce_stop().await;

        self.drain.cancel();
        self.health.end_watches().await;
        let servers = &mut self.servers;
        let drained = timeout(self.bound, async { while servers.join_next().await.is_some() {} }).await;
        let exit = match drained {
            Ok(()) => Exit::Drained,
            Err(_) => {
                tracing::warn!(bound = ?self.bound, "not every connection had ended at the bound of the stop; what is left is cut");
                self.servers.shutdown().await;
                Exit::Cut
            }
        };

        // From here on nobody new is found; what is under way to peers goes on until the node closes.
        drop(self.peers.take());
        drop(self.certificates.take());
        self.node.close().await;
        if let Some(traces) = self.traces.take() {
            traces.flush_and_stop().await;
        }
        tracing::info!("stopped");
        exit
    }

    /// Turns load balancers and peers away. Everything is still served.
    async fn announce_stop(&mut self) {
        self.node.drain();
        self.health.not_serving().await;
        self.leave.cancel();
        if let Some(left) = self.left.take()
            && timeout(LEAVE_WITHIN, left).await.is_err()
        {
            tracing::warn!("peers could not be told within {LEAVE_WITHIN:?} that this node goes");
        }
    }
}

/// Under which address this node is known to its peers, on the port where gRPC really listens.
async fn own_address(config: &Config, grpc_port: u16) -> HostPort {
    let mut own = config.advertise_address(grpc_port);
    if own.is_wildcard() {
        own.host = listen::own_address().await.to_string();
    }
    own
}

/// The node that `config` describes.
fn node(
    config: &Config,
    host: &HostFacts,
    own: &HostPort,
    traces: Option<&Traces>,
    tls: Option<&Tls>,
) -> Node {
    let settings = Settings {
        advertise_address: config.peer_address(own),
        data_center: config.data_center(),
        rules: config.rules(),
        store: config.store_settings(host),
        cluster: config.cluster_settings(),
    };
    let metrics =
        Metrics::new(MetricsOptions { process: config.metrics.flags.os, ..MetricsOptions::default() });
    let builder = match tls {
        Some(tls) => Node::builder().metrics(metrics.with(tls.metrics())).peer_tls(tls.peers()),
        None => Node::builder().metrics(metrics),
    };
    let builder = builder.settings(settings);
    match traces {
        Some(traces) => builder.tracer(traces.tracer(), trace_level(config.tracing.level)),
        None => builder,
    }
    .build()
}

/// How long the ports stay closed for the first set of peers. A node that is asked before it knows its peers counts
/// every key itself; one that waits for ever cannot be what others wait for.
const FIRST_PEERS_WITHIN: Duration = Duration::from_secs(2);

/// How long it may take to say to the source of peers that this node goes.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// A source of peers that is followed: what it says goes to the node.
struct Following {
    source: Recover,
    node: Node,
    leave: CancellationToken,
    left: oneshot::Sender<()>,
}

/// Lets the node tell how its source of peers is doing.
fn report(source: &Recover, node: &Node) {
    let status = source.status();
    node.report_peer_source(move || {
        let Snapshot { kind, origin, peers, age, failing, failures } = status.snapshot();
        let failing = failing.map(|Failing { message, lasting, times }| PeerSourceFailure {
            error: message,
            lasting,
            times,
        });
        PeerSource { kind, origin, peers, age, failures, failing }
    });
}

/// Begins to follow a source, with its first set if that comes soon.
async fn follow(
    mut source: Recover,
    node: &Node,
    leave: CancellationToken,
) -> (Following, oneshot::Receiver<()>) {
    match timeout(FIRST_PEERS_WITHIN, source.next()).await {
        Ok(peers) => node.set_peers(peers).await,
        Err(_) => {
            tracing::warn!("no peers within {FIRST_PEERS_WITHIN:?}: this node is alone until they are found");
        }
    }
    let (left, has_left) = oneshot::channel();
    (Following { source, node: node.clone(), leave, left }, has_left)
}

impl Following {
    fn spawn(mut self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(peers) = self.leave.run_until_cancelled(self.source.next()).await {
                self.node.set_peers(peers).await;
            }
            self.source.leave().await;
            // Nobody may be waiting any more.
            let _ = self.left.send(());
            // Who goes still passes on what is others', and has to know who they are.
            loop {
                let peers = self.source.next().await;
                self.node.set_peers(peers).await;
            }
        }))
    }
}

fn grpc_options(config: &Config) -> GrpcOptions {
    let age = config.grpc.max_connection_age_seconds;
    GrpcOptions {
        reflection: config.grpc.reflection,
        health: config.grpc.health,
        max_connection_age: (age > 0).then(|| Duration::from_secs(age.into())),
    }
}

fn http_options(config: &Config, bound: SocketAddr) -> HttpOptions {
    HttpOptions {
        health_routes: config.http.health_routes,
        openapi: config.http.openapi,
        admin: AdminAccess::new(config.http.admin, &config.http.address, bound),
        status_only: false,
    }
}

fn trace_level(level: TracingLevel) -> TraceLevel {
    match level {
        TracingLevel::Error => TraceLevel::Error,
        TracingLevel::Info => TraceLevel::Info,
        TracingLevel::Debug => TraceLevel::Debug,
    }
}

/// What the machine contributes.
fn host_facts() -> HostFacts {
    // The standard library's hash keys are the only random source it has; they come from the system.
    let random = || RandomState::new().build_hasher().finish();
    HostFacts {
        cpus: std::thread::available_parallelism().map_or(1, NonZero::get),
        cgroup: std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        random: [random(), random()],
    }
}
