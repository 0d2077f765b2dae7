//! The API server: with which credentials, which lists and which watches.

use std::error::Error;
use std::fmt::Debug;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use kube::{Api, Client, Config, Resource};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::cache::{Cache, OBJECTS_MAX};

/// Bound of a connection being made.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Bound of a list.
const LIST_MAX: Duration = Duration::from_secs(15);

/// How long a watch is asked for. Then another one begins where it ended, which costs a request; what it buys is that a
/// connection that died without a word is noticed, [`WATCH_MAX`] after it began.
const WATCH_FOR: Duration = Duration::from_secs(60);

/// Silence, even of a server that should have ended the watch long ago.
const WATCH_MAX: Duration = Duration::from_secs(70);

/// What is listed and watched: one kind of object in one namespace, by a label or by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    Labels(String),
    Name(String),
}

/// Events since a version.
pub(super) type Events<K> = Pin<Box<dyn Stream<Item = Result<WatchEvent<K>, kube::Error>> + Send>>;

/// Why something did not work.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    /// The server does not know this kind of object.
    pub(super) unknown_kind: bool,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, unknown_kind: false }
    }
}

/// Who to ask, and as whom: by the kubeconfig that is named, else as the pod, else by the user's kubeconfig.
///
/// Credentials are looked for each time, so a pod whose token is not mounted yet, or a file that is corrected, is found.
pub(super) async fn connect(kubeconfig: Option<&Path>) -> Result<Client, String> {
    // The library takes what the process chose, and stops it where there is a choice and nobody made it.
    if CryptoProvider::get_default().is_none() {
        let _ = aws_lc_rs::default_provider().install_default();
    }
    let options = KubeConfigOptions::default();
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path).map_err(|error| words(&error))?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(|error| words(&error))?
        }
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            Config::incluster().map_err(|error| format!("the credentials of this pod: {}", words(&error)))?
        }
        None => Config::from_kubeconfig(&options).await.map_err(|error| {
            format!(
                "this is no pod (KUBERNETES_SERVICE_HOST is not set), and there is no kubeconfig: {}",
                words(&error)
            )
        })?,
    };
    let config = {
        let mut config = config;
        config.connect_timeout = Some(CONNECT_MAX);
        // Failures are for us to judge.
        config.default_retry = false;
        config
    };
    Client::try_from(config).map_err(|error| words(&error))
}

/// Lists all objects, consistently.
pub(super) async fn list<K>(client: Client, namespace: &str, what: &Selection) -> Result<Cache<K>, Failure>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default().limit(OBJECTS_MAX as u32 + 1);
    match what {
        Selection::Labels(labels) => params = params.labels(labels),
        Selection::Name(name) => params = params.fields(&format!("metadata.name={name}")),
    }
    let api: Api<K> = Api::namespaced(client, namespace);
    let listed = timeout(LIST_MAX, api.list(&params)).await;
    let listed = listed.map_err(|_| format!("no answer within {LIST_MAX:?}"))?;
    let objects = listed.map_err(|error| Failure {
        unknown_kind: matches!(&error, kube::Error::Api(status) if status.code == 404),
        message: explain::<K>(&error, namespace),
    })?;
    let version = objects.metadata.resource_version.unwrap_or_default();
    Ok(Cache::new(version, objects.items)?)
}

/// Begins to watch after a version.
pub(super) async fn watch<K>(
    client: Client,
    namespace: &str,
    what: &Selection,
    version: &str,
) -> Result<Events<K>, Failure>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let mut params = WatchParams::default().timeout(WATCH_FOR.as_secs() as u32);
    match what {
        Selection::Labels(labels) => params = params.labels(labels),
        Selection::Name(name) => params = params.fields(&format!("metadata.name={name}")),
    }
    let api: Api<K> = Api::namespaced(client, namespace);
    let begun = timeout(LIST_MAX, api.watch(&params, version)).await;
    let events = begun.map_err(|_| format!("no answer within {LIST_MAX:?}"))?;
    Ok(events.map_err(|error| explain::<K>(&error, namespace))?.boxed())
}

/// The next event; nothing when the watch ended in peace.
pub(super) async fn next<K>(events: &mut Events<K>) -> Result<Option<WatchEvent<K>>, String> {
    match timeout(WATCH_MAX, events.next()).await {
        Err(_) => Err(format!("nothing was heard for {WATCH_MAX:?}")),
        Ok(None) => Ok(None),
        Ok(Some(Ok(event))) => Ok(Some(event)),
        Ok(Some(Err(error))) => Err(words(&error)),
    }
}

fn explain<K: Resource<DynamicType = ()>>(error: &kube::Error, namespace: &str) -> String {
    let plural = K::plural(&());
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            format!("the API server does not know these credentials: {}", status.message)
        }
        kube::Error::Api(status) if status.code == 403 => format!(
            "{}; the service account needs a Role with the verbs list and watch on {plural} in the namespace \
             {namespace}",
            status.message
        ),
        kube::Error::Api(status) => format!("{plural}: {} (status {})", status.message.trim(), status.code),
        error => words(error),
    }
}

/// The outermost words and the innermost cause.
fn words(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let (outer, inner) = (error.to_string(), cause.to_string());
    if outer.contains(&inner) { outer } else { format!("{outer}: {inner}") }
}
