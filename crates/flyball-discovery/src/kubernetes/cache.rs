//! The objects of one kind as of one version: a list, and what happened to it since.
//!
//! Versions are the server's and mean nothing here but "after this one". Bookmarks, which are events about nothing, bring
//! newer ones, so that a watch that is begun again rarely begins too early. What the server says about a version that is
//! too old, or about anything else, ends the watch, and then everything is listed again.

use std::collections::BTreeMap;

use kube::core::WatchEvent;
use kube::{Resource, ResourceExt};

/// Most objects that are kept; more of them are no cluster. With a label that only the peers have there is one for each
/// hundred peers, or one for each.
pub(super) const OBJECTS_MAX: usize = crate::source::PEERS_MAX;

/// Objects by their name; all are in one namespace.
#[derive(Debug)]
pub(super) struct Cache<K> {
    objects: BTreeMap<String, K>,
    version: String,
}

/// What an event meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The objects changed.
    Changed,
    /// They did not.
    Same,
    /// They are not known any more and have to be listed.
    Lost(String),
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    /// After a list. An error when there are too many.
    pub(super) fn new(version: String, objects: Vec<K>) -> Result<Self, String> {
        if objects.len() > OBJECTS_MAX {
            return Err(format!("{} objects; expected at most {OBJECTS_MAX}", objects.len()));
        }
        Ok(Self { objects: objects.into_iter().map(|object| (object.name_any(), object)).collect(), version })
    }

    /// The version after which to watch.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// All objects, by name.
    pub(super) fn objects(&self) -> impl Iterator<Item = &K> {
        self.objects.values()
    }

    /// Takes an event.
    pub(super) fn take(&mut self, event: WatchEvent<K>) -> Meaning {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.version_of(&object);
                self.objects.insert(object.name_any(), object);
                match self.objects.len() > OBJECTS_MAX {
                    true => Meaning::Lost(format!("more than {OBJECTS_MAX} objects")),
                    false => Meaning::Changed,
                }
            }
            WatchEvent::Deleted(object) => {
                self.version_of(&object);
                match self.objects.remove(&object.name_any()) {
                    Some(_) => Meaning::Changed,
                    None => Meaning::Same,
                }
            }
            WatchEvent::Bookmark(bookmark) => {
                self.version = bookmark.metadata.resource_version;
                Meaning::Same
            }
            WatchEvent::Error(status) => Meaning::Lost(status.message.clone()),
        }
    }

    fn version_of(&mut self, object: &K) {
        if let Some(version) = object.resource_version() {
            self.version = version;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{from_value, json};

    use super::*;

    fn pod(name: &str, version: &str) -> Pod {
        from_value(json!({"metadata": {"name": name, "resourceVersion": version}})).unwrap()
    }

    fn event(kind: &str, name: &str, version: &str) -> WatchEvent<Pod> {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "resourceVersion": version}});
        from_value(json!({"type": kind, "object": object})).unwrap()
    }

    fn names(cache: &Cache<Pod>) -> Vec<String> {
        cache.objects().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn events_change_the_list_and_move_its_version() {
        let mut cache = Cache::new("5".to_owned(), vec![pod("b", "1"), pod("a", "4")]).unwrap();
        assert_eq!((names(&cache).join(","), cache.version()), ("a,b".to_owned(), "5"));
        assert_eq!(cache.take(event("ADDED", "c", "6")), Meaning::Changed);
        assert_eq!(cache.take(event("MODIFIED", "a", "7")), Meaning::Changed);
        assert_eq!(cache.take(event("DELETED", "b", "8")), Meaning::Changed);
        assert_eq!((names(&cache).join(","), cache.version()), ("a,c".to_owned(), "8"));
        assert_eq!(cache.take(event("DELETED", "b", "9")), Meaning::Same);
        assert_eq!(cache.take(event("BOOKMARK", "", "20")), Meaning::Same);
        assert_eq!((names(&cache).len(), cache.version()), (2, "20"));
    }

    #[test]
    fn an_old_version_means_that_everything_is_listed_again() {
        let mut cache = Cache::new("5".to_owned(), vec![pod("a", "4")]).unwrap();
        let gone = json!({"kind": "Status", "status": "Failure", "code": 410, "message": "too old", "reason": "Expired"});
        let event = from_value(json!({"type": "ERROR", "object": gone})).unwrap();
        assert_eq!(cache.take(event), Meaning::Lost("too old".to_owned()));
    }
}
