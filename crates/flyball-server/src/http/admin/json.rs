//! The overview as JSON. Its own, plain form: numbers are numbers, times are Unix milliseconds, what is unknown is
//! null. None of the wire's messages come here, so protobuf's mapping has no say.

use std::time::Duration;

use bytes::Bytes;
use flyball::overview::{GlobalOverview, Overview};
use flyball::{PeerSource, Semantics};
use serde_json::{Value, json};

pub(super) fn overview(it: &Overview) -> Bytes {
    let semantics = match it.semantics {
        Semantics::Exact => "exact",
        Semantics::Gubernator => "gubernator",
    };
    let errors = it.checks.errors.iter().map(|(cause, count)| json!({"cause": cause, "count": count}));
    let micros = |seconds: f64| (seconds * 1e9).round() / 1e3;
    let calls = it.calls.iter().map(|calls| {
        let latency = calls.latency.map(|latency| {
            json!({
                "p50_us": micros(latency.p50),
                "p99_us": micros(latency.p99),
                "max_us": micros(latency.max),
            })
        });
        json!({
            "method": calls.method,
            "started": calls.started,
            "succeeded": calls.succeeded,
            "failed": calls.failed,
            "latency": latency,
        })
    });
    body(&json!({
        "advertise_address": it.advertise_address,
        "data_center": it.data_center,
        "version": it.version,
        "semantics": semantics,
        "ready": it.ready,
        "now_ms": it.now_ms,
        "started_ms": it.started_ms,
        "uptime_ms": it.uptime_ms,
        "epoch": it.epoch,
        "peers_total": it.peers_total,
        "peers": peer_list(it),
        "peer_source": source_value(it.peer_source.as_ref()),
        "checks": {
            "decided": it.checks.decided,
            "token_bucket": it.checks.token_bucket,
            "refused": it.checks.refused,
            "errors": errors.collect::<Value>(),
            "replica": it.checks.replica,
            "forwarded": it.checks.forwarded,
            "fallback": it.checks.fallback,
            "intake_refused": it.checks.intake_refused,
        },
        "calls": calls.collect::<Value>(),
        "top": top_value(it),
        "global": global_value(&it.global),
        "store": store_value(it),
    }))
}

/// What `flyball peers` reads: changes to it are changes to that command.
pub(super) fn peers(it: &Overview) -> Bytes {
    body(&json!({
        "self": it.advertise_address,
        "epoch": it.epoch,
        "peers": peer_list(it),
        "peer_source": source_value(it.peer_source.as_ref()),
    }))
}

pub(super) fn top(it: &Overview) -> Bytes {
    body(&top_value(it))
}

pub(super) fn global(it: &Overview) -> Bytes {
    body(&global_value(&it.global))
}

pub(super) fn store(it: &Overview) -> Bytes {
    body(&store_value(it))
}

fn body(value: &Value) -> Bytes {
    value.to_string().into()
}

fn peer_list(it: &Overview) -> Value {
    let peers = it.peers.iter().map(|peer| {
        json!({
            "grpc_address": peer.grpc_address,
            "data_center": peer.data_center,
            "is_self": peer.is_self,
            "share": peer.share,
            "state": peer.state.name(),
            "since_ms": peer.since_ms,
            "last_error": peer.last_error,
            "last_error_age_ms": peer.last_error_age_ms,
            "queued": peer.queued,
            "in_flight": peer.in_flight,
            "calls": peer.calls,
            "failures": peer.failures,
            "fallbacks": peer.fallbacks,
        })
    });
    peers.collect()
}

fn source_value(source: Option<&PeerSource>) -> Value {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let Some(source) = source else { return Value::Null };
    let failing = source.failing.as_ref().map(
        |failing| json!({"error": failing.error, "lasting_ms": ms(failing.lasting), "times": failing.times}),
    );
    json!({
        "kind": source.kind,
        "origin": source.origin,
        "peers": source.peers,
        "age_ms": source.age.map(ms),
        "failures": source.failures,
        "failing": failing,
    })
}

fn top_value(it: &Overview) -> Value {
    let keys = it.top_refused.iter().map(|key| {
        json!({
            "name": key.name,
            "unique_key": key.unique_key,
            "hits": key.hits,
            "error": key.error,
        })
    });
    json!({"keys": keys.collect::<Value>(), "missed": it.top_missed})
}

fn global_value(it: &GlobalOverview) -> Value {
    json!({
        "hits_queued_keys": it.hits_queued_keys,
        "hits_in_flight_keys": it.hits_in_flight_keys,
        "hits_dropped": it.hits_dropped,
        "hits_ended": it.hits_ended,
        "sends": it.sends,
        "send_errors": it.send_errors,
        "broadcast_queued_keys": it.broadcast_queued_keys,
        "broadcasts": it.broadcasts,
        "broadcast_errors": it.broadcast_errors,
        "updates": it.updates,
    })
}

fn store_value(it: &Overview) -> Value {
    let stats = &it.store.stats;
    json!({
        "entries": stats.entries,
        "entries_max": it.store.entries_max,
        "resident": stats.resident,
        "bytes": stats.bytes,
        "bytes_max": it.store.bytes_max,
        "hits": stats.hits,
        "misses": stats.misses,
        "over_limit": stats.over_limit,
        "scheduled": stats.scheduled,
        "ceiling_refused": stats.ceiling_refused,
        "debt_dropped": stats.debt_dropped,
        "evicted_alive": stats.evicted_alive,
        "evicted_in_debt": stats.evicted_in_debt,
        "expired": stats.expired,
        "oversized": stats.oversized,
    })
}
