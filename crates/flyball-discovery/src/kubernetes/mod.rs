//! Peers by the Kubernetes API: the endpoints of a service, or pods by their labels.
//!
//! Nothing is registered; the cluster knows its pods. All objects are listed once and then watched ([`cache`]), and after
//! each change the peers are told anew ([`found`]), never from a list that is not complete. A watch that ends is begun
//! again where it ended; one that fails, or whose version is too old, means another list. Where the server fails the
//! caller asks again ([`Recover`](crate::Recover)), and what was known stays.
//!
//! A server of before Kubernetes 1.21 does not know endpoint slices (`discovery.k8s.io/v1`). It is then asked for the
//! service's `Endpoints`, which tell the same.
//!
//! # What the service account needs
//! A Role in the namespace of the pods with the verbs `list` and `watch` on `endpointslices` in the group
//! `discovery.k8s.io`; or on `pods` in the core group, if those are watched; on an old server on `endpoints`.

mod cache;
mod client;
mod found;

use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Endpoints, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::WatchEvent;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use self::cache::{Cache, Meaning};
use self::client::{Events, Failure, Selection};
use self::found::Own;
use crate::source::{NextPeers, PEERS_MAX, Source, SourceError};

/// The label by which slices belong to a service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The least time between the beginnings of two watches: a server that ends them at once is not asked in a loop.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// What is watched, and what this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// Where the pods are.
    pub namespace: String,
    /// Which they are.
    pub watch: KubernetesWatch,
    /// The gRPC port of all of them.
    pub port: u16,
    /// This pod's address, by which it finds itself.
    pub own_ip: Option<IpAddr>,
    /// This node's data center, in which all peers are.
    pub data_center: String,
    /// A file with the API server's address and the credentials; without it those of the pod, else the user's.
    pub kubeconfig: Option<PathBuf>,
}

/// Which pods are the peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubernetesWatch {
    /// The endpoints of the service with this name.
    Service(String),
    /// The pods that these labels select.
    Pods(String),
}

/// The nodes that Kubernetes lists.
pub struct Kubernetes {
    settings: Arc<KubernetesSettings>,
    client: Option<Client>,
    /// An old server, that does not know slices.
    old: bool,
    watching: Option<Watching>,
    /// The step that goes on. It is kept here and not in the call: a caller that drops its calls more often than the
    /// server takes to answer would otherwise never hear anything.
    doing: Option<Doing>,
    /// The set that was told last.
    told: Option<Vec<PeerInfo>>,
    /// Whether the last answer was an error, so that the next good list has to be told.
    told_error: bool,
}

type Doing = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What became of a step.
struct Done {
    client: Option<Client>,
    result: Result<Watching, Failure>,
    changed: bool,
}

/// A watch on one of the three kinds.
enum Watching {
    Slices(Watch<EndpointSlice>),
    Endpoints(Watch<Endpoints>),
    Pods(Watch<Pod>),
}

/// The objects, and what happens to them; no events when the watch ended and is to be begun again.
struct Watch<K> {
    cache: Cache<K>,
    events: Option<Events<K>>,
    /// When the watch was begun.
    begun: Instant,
}

impl Debug for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Kubernetes");
        debug.field("settings", &self.settings).field("told", &self.told).finish_non_exhaustive()
    }
}

impl Kubernetes {
    /// Asks nobody yet.
    pub fn new(settings: KubernetesSettings) -> Self {
        Self {
            settings: Arc::new(settings),
            client: None,
            old: false,
            watching: None,
            doing: None,
            told: None,
            told_error: false,
        }
    }

    async fn run(&mut self) -> Result<Vec<PeerInfo>, SourceError> {
        loop {
            let doing = match &mut self.doing {
                Some(doing) => doing,
                None => {
                    let step =
                        step(Arc::clone(&self.settings), self.client.clone(), self.watching.take(), self.old);
                    self.doing.insert(Box::pin(step))
                }
            };
            let done = doing.await;
            // No await from here on, so a dropped call cannot lose what was found.
            self.doing = None;
            self.client = done.client;
            match done.result {
                Err(failure) => {
                    if failure.unknown_kind && matches!(self.settings.watch, KubernetesWatch::Service(_)) {
                        self.old = !self.old;
                    }
                    // Addresses and credentials are found anew: either may be what is wrong.
                    self.client = None;
                    self.told_error = true;
                    return Err(SourceError::new(format!("Kubernetes: {}", failure.message)));
                }
                Ok(watching) => {
                    let peers = done.changed.then(|| watching.peers(&self.settings));
                    self.watching = Some(watching);
                    if let Some(answer) = peers.and_then(|peers| self.conclude(peers)) {
                        return answer;
                    }
                }
            }
        }
    }

    fn conclude(&mut self, peers: Vec<PeerInfo>) -> Option<Result<Vec<PeerInfo>, SourceError>> {
        if peers.len() > PEERS_MAX {
            self.told_error = true;
            let count = peers.len();
            return Some(Err(SourceError::paced(format!(
                "Kubernetes: {count} peers; expected at most {PEERS_MAX}"
            ))));
        }
        let healed = std::mem::take(&mut self.told_error);
        if !healed && self.told.as_ref() == Some(&peers) {
            return None;
        }
        self.told = Some(peers.clone());
        Some(Ok(peers))
    }
}

/// One step: a list where nothing is known, a watch where none is open, else an event.
async fn step(
    settings: Arc<KubernetesSettings>,
    client: Option<Client>,
    watching: Option<Watching>,
    old: bool,
) -> Done {
    let client = match client {
        Some(client) => client,
        None => match client::connect(settings.kubeconfig.as_deref()).await {
            Ok(client) => client,
            Err(error) => return Done { client: None, result: Err(error.into()), changed: false },
        },
    };
    let what = settings.selection(old);
    let namespace = &settings.namespace;
    let (result, changed) = match (watching, &settings.watch) {
        (Some(Watching::Slices(watch)), _) => {
            of(watch.go_on(&client, namespace, &what).await, Watching::Slices)
        }
        (Some(Watching::Endpoints(watch)), _) => {
            of(watch.go_on(&client, namespace, &what).await, Watching::Endpoints)
        }
        (Some(Watching::Pods(watch)), _) => of(watch.go_on(&client, namespace, &what).await, Watching::Pods),
        (None, KubernetesWatch::Service(_)) if old => {
            of(Watch::list(&client, namespace, &what).await, Watching::Endpoints)
        }
        (None, KubernetesWatch::Service(_)) => {
            of(Watch::list(&client, namespace, &what).await, Watching::Slices)
        }
        (None, KubernetesWatch::Pods(_)) => of(Watch::list(&client, namespace, &what).await, Watching::Pods),
    };
    Done { client: Some(client), result, changed }
}

fn of<K>(
    done: Result<(Watch<K>, bool), Failure>,
    kind: fn(Watch<K>) -> Watching,
) -> (Result<Watching, Failure>, bool) {
    match done {
        Ok((watch, changed)) => (Ok(kind(watch)), changed),
        Err(failure) => (Err(failure), false),
    }
}

impl KubernetesSettings {
    fn selection(&self, old: bool) -> Selection {
        match &self.watch {
            KubernetesWatch::Pods(labels) => Selection::Labels(labels.clone()),
            KubernetesWatch::Service(name) if old => Selection::Name(name.clone()),
            KubernetesWatch::Service(name) => Selection::Labels(format!("{SERVICE_LABEL}={name}")),
        }
    }
}

impl<K> Watch<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    /// Lists all objects and begins to watch: what cannot be followed is not told.
    async fn list(client: &Client, namespace: &str, what: &Selection) -> Result<(Self, bool), Failure> {
        let begun = Instant::now();
        let cache = client::list(client.clone(), namespace, what).await?;
        let events = client::watch(client.clone(), namespace, what, cache.version()).await?;
        Ok((Self { cache, events: Some(events), begun }, true))
    }

    /// Waits for an event. Whether the objects changed.
    async fn go_on(
        mut self,
        client: &Client,
        namespace: &str,
        what: &Selection,
    ) -> Result<(Self, bool), Failure> {
        let lost = match self.next(client, namespace, what).await {
            Ok(None) => {
                self.events = None;
                sleep_until(self.begun + WATCH_PAUSE).await;
                return Ok((self, false));
            }
            Ok(Some(event)) => match self.cache.take(event) {
                Meaning::Changed => return Ok((self, true)),
                Meaning::Same => return Ok((self, false)),
                Meaning::Lost(why) => why,
            },
            Err(why) => why,
        };
        tracing::debug!("the watch on Kubernetes ended, and everything is listed again: {lost}");
        sleep_until(self.begun + WATCH_PAUSE).await;
        Self::list(client, namespace, what).await
    }

    async fn next(
        &mut self,
        client: &Client,
        namespace: &str,
        what: &Selection,
    ) -> Result<Option<WatchEvent<K>>, String> {
        let events = match &mut self.events {
            Some(events) => events,
            None => {
                self.begun = Instant::now();
                let begun = client::watch(client.clone(), namespace, what, self.cache.version()).await;
                self.events.insert(begun.map_err(|failure| failure.message)?)
            }
        };
        client::next(events).await
    }
}

impl Watching {
    fn peers(&self, settings: &KubernetesSettings) -> Vec<PeerInfo> {
        let own = Own { ip: settings.own_ip, port: settings.port, data_center: settings.data_center.clone() };
        match self {
            Self::Slices(watch) => found::peers(watch.cache.objects().flat_map(found::in_slice), &own),
            Self::Endpoints(watch) => found::peers(watch.cache.objects().flat_map(found::in_endpoints), &own),
            Self::Pods(watch) => found::peers(watch.cache.objects().filter_map(found::in_pod), &own),
        }
    }
}

impl Source for Kubernetes {
    fn kind(&self) -> &'static str {
        "k8s"
    }

    fn origin(&self) -> String {
        let namespace = &self.settings.namespace;
        match &self.settings.watch {
            KubernetesWatch::Service(name) => format!("endpoints of the service {namespace}/{name}"),
            KubernetesWatch::Pods(labels) => format!("pods {labels} in the namespace {namespace}"),
        }
    }

    fn next(&mut self) -> NextPeers<'_> {
        Box::pin(self.run())
    }
}
