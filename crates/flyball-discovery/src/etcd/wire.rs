//! The part of etcd's v3 API that is used here: seven methods and their messages.
//!
//! Written out by hand. The messages are few and frozen (fields are only ever added, and unknown ones are skipped),
//! while generating them would need the Protobuf compiler on every machine that builds a node, as the client crate
//! that exists does. Fields that are neither written nor looked at are left out.

use prost::Message;

/// A method: the path it is called by.
pub(super) mod method {
    pub(crate) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
    pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
    pub(crate) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
    pub(crate) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
    pub(crate) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
    pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
}

/// Stands at the head of every answer.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Header {
    /// The revision of the whole store at that moment.
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

/// Keys from `key` up to but without `range_end`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

/// Also what a sign of life is answered with; then a `ttl` of 0 says that there is no such lease.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Lease {
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
    #[prost(string, tag = "4")]
    pub(super) error: String,
}

/// Both a sign of life and the end.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseId {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) create: Option<WatchCreate>,
}

/// What happened before is not asked for (`prev_kv`): an event only says that the keys are to be read again.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    /// Not 0 when the watch began at a revision that is gone.
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    /// How many there are is all that matters.
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Event {}

/// Answers of which nothing else is read.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Done {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
}

/// The end of the range of all keys with this prefix: the prefix with its last byte one up. A prefix of nothing but
/// the highest byte, or of nothing, has no end, which is written as a zero.
pub(super) fn range_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|byte| *byte < u8::MAX) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_one_begins() {
        assert_eq!(range_end(b"/gubernator-peers"), b"/gubernator-peert");
        assert_eq!(range_end(b"a\xff"), b"b");
        assert_eq!(range_end(b"\xff"), b"\0");
        assert_eq!(range_end(b""), b"\0");
    }
}
