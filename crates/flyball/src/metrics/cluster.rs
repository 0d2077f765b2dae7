//! What the page says of the exchange with peers. Unlabelled families are there from the start, at zero on a node
//! alone; those by peer have one series per peer of the present view, and at most [`PEERS_SHOWN`].

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::counters::Tally;
use super::page::{Labels, Page};
use super::timing::Timing;
use crate::peer_source::PeerSource;
use crate::service::Inner;

/// Series per family by peer. More nodes have totals.
const PEERS_SHOWN: usize = 1_000;

/// `node` is missing only while it is being built or taken down.
pub(super) fn cluster(page: &mut Page, tally: &Tally, node: Option<&Inner>) {
    global(page, tally, node);
    own(page, tally, node);
    if let Some(node) = node {
        peers(page, node);
    }
}

fn global(page: &mut Page, tally: &Tally, node: Option<&Inner>) {
    let now = Instant::now();
    let labels: Labels<'_> = &[];
    let globals = node.map(|node| &node.globals);
    let count = |pick: fn(&crate::global::GlobalCounts) -> u64| globals.map_or(0, |it| pick(&it.counts));
    let nothing = || Timing::default().snapshot(now);
    let (rounds, sends) = match globals {
        Some(it) => (it.counts.round_time.snapshot(now), it.counts.send_time.snapshot(now)),
        None => (nothing(), nothing()),
    };
    page.summaries(
        "gubernator_broadcast_duration",
        "Seconds per round of telling peers about GLOBAL keys.",
        &[0.5, 0.99],
        [(labels, count(|it| it.rounds.load(Relaxed)), rounds)],
    );
    page.counter(
        "gubernator_broadcast_errors",
        "Peers that could not be told about GLOBAL keys.",
        count(|it| it.broadcast_errors.load(Relaxed)),
    );
    page.gauge(
        "gubernator_global_queue_length",
        "GLOBAL keys that peers are yet to be told about.",
        globals.map_or(0, |it| it.broadcast().len()) as f64,
    );
    page.summaries(
        "gubernator_global_send_duration",
        "Seconds per batch of GLOBAL hits on its way to their owner.",
        &[0.5, 0.99],
        [(labels, count(|it| it.sends.load(Relaxed)), sends)],
    );
    page.counter(
        "gubernator_global_send_errors",
        "Batches of GLOBAL hits that did not arrive.",
        count(|it| it.send_errors.load(Relaxed)),
    );
    let hits = globals.map(|it| it.hits().stats()).unwrap_or_default();
    page.gauge(
        "gubernator_global_send_queue_length",
        "Keys with hits that their owners lack.",
        (hits.pending + hits.under_way) as f64,
    );
    page.counter(
        "gubernator_updatepeerglobals_counter",
        "Items received in UpdatePeerGlobals.",
        tally.updates + tally.updates_skipped,
    );
    let given_up: [(Labels<'_>, u64); 3] = [
        (&[("why", "ended")], hits.ended),
        (&[("why", "lost")], hits.lost),
        (&[("why", "room")], hits.dropped),
    ];
    page.counters(
        "flyball_global_hits_dropped_total",
        "Keys whose GLOBAL hits never reached their owner: the window ended, nobody knows whether they arrived, or \
         there was no room.",
        given_up,
    );
    page.counter(
        "flyball_global_repeated_total",
        "Batches of GLOBAL hits that came twice and were counted once.",
        count(|it| it.repeated.load(Relaxed)),
    );
    page.counter(
        "flyball_global_stale_total",
        "Broadcasts that came late and changed nothing.",
        count(|it| it.stale.load(Relaxed)),
    );
    page.counter(
        "flyball_global_told_keys_total",
        "Keys told in broadcasts, once for each receiver.",
        count(|it| it.keys_told.load(Relaxed)),
    );
    page.counter(
        "flyball_global_told_bytes_total",
        "Bytes of broadcasts, once for each receiver.",
        count(|it| it.bytes_told.load(Relaxed)),
    );
    page.counter(
        "flyball_global_forgotten_total",
        "Keys with news that were forgotten before everybody was told, to make room.",
        globals.map_or(0, |it| it.broadcast().forgotten()),
    );
}

fn own(page: &mut Page, tally: &Tally, node: Option<&Inner>) {
    page.counter("flyball_forwarded_total", "Checks handed to the owner of their key.", tally.forwarded);
    page.counter(
        "flyball_fallback_total",
        "Checks answered in the stead of an owner that could not be reached.",
        tally.fallback,
    );
    page.counter(
        "flyball_strangers_refused_total",
        "Calls of the peers' service by who is no peer.",
        tally.strangers,
    );
    let epoch = node.map_or(0, |node| node.cluster.load().view.epoch());
    if let Some(source) = node.and_then(|node| node.peer_source.get()) {
        peer_source(page, &source);
    }
    page.gauge("flyball_view_epoch", "How often the set of peers has changed.", epoch as f64);
}

/// Absent on a node without a source of peers.
fn peer_source(page: &mut Page, source: &PeerSource) {
    let labels: Labels<'_> = &[("source", source.kind)];
    page.gauges(
        "flyball_discovery_peers",
        "Peers in the last good set, this node included; 0 before the first.",
        [(labels, source.peers as f64)],
    );
    page.gauges(
        "flyball_discovery_age_seconds",
        "Since the set of peers changed last.",
        source.age.map(|age| (labels, age.as_secs_f64())),
    );
    page.gauges(
        "flyball_discovery_failing",
        "Whether the source of peers fails; the last good set serves meanwhile.",
        [(labels, f64::from(u8::from(source.failing.is_some())))],
    );
    page.gauges(
        "flyball_discovery_failing_seconds",
        "For how long the source of peers has been failing; 0 while it answers.",
        [(labels, source.failing.as_ref().map_or(0.0, |failing| failing.lasting.as_secs_f64()))],
    );
    page.counters(
        "flyball_discovery_failures_total",
        "Failures of the source of peers.",
        [(labels, source.failures)],
    );
}

fn peers(page: &mut Page, node: &Inner) {
    let cluster = node.cluster.load();
    let shown: Vec<_> = cluster.peers().take(PEERS_SHOWN).collect();
    let labels: Vec<_> = shown.iter().map(|peer| [("peerAddr", peer.address())]).collect();
    let each = || labels.iter().map(|labels| labels as Labels<'_>).zip(&shown);
    page.gauges(
        "gubernator_batch_queue_length",
        "Checks that wait for a batch to this peer.",
        each().map(|(labels, peer)| (labels, peer.waiting().0 as f64)),
    );
    let now = Instant::now();
    page.summaries(
        "gubernator_batch_send_duration",
        "Seconds per call that forwards checks to this peer.",
        &[0.99],
        each().map(|(labels, peer)| {
            let timing = peer.sends.snapshot(now);
            (labels, timing.weight, timing)
        }),
    );
    page.gauges(
        "flyball_peer_up",
        "Whether the peer answers.",
        each().map(|(labels, peer)| (labels, f64::from(u8::from(peer.is_up())))),
    );
    page.counters(
        "flyball_peer_calls_total",
        "Calls to this peer.",
        each().map(|(labels, peer)| (labels, peer.counts.calls.load(Relaxed))),
    );
    page.counters(
        "flyball_peer_failures_total",
        "Calls to this peer that failed.",
        each().map(|(labels, peer)| (labels, peer.counts.failures.load(Relaxed))),
    );
    page.counters(
        "flyball_peer_fallbacks_total",
        "Checks answered in the stead of this peer.",
        each().map(|(labels, peer)| (labels, peer.counts.fallbacks.load(Relaxed))),
    );
}
