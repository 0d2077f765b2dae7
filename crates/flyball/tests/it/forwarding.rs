//! Which messages a node makes of a call for others.

use std::time::Duration;

use flyball::{PeerInfo, Rules, Semantics, Settings, Unreachable, pb};
use prost::Message as _;
use tokio::net::TcpListener;

use crate::cluster::{Member, NO_BATCHING, cluster, get, key_of, member};
use crate::common::{ask, item};

/// The messages with checks that came to a node from others.
fn messages(member: &Member) -> u64 {
    let overview = member.node.overview();
    let calls = overview.calls.iter().find(|calls| calls.method == "GetPeerRateLimits");
    calls.map_or(0, |calls| calls.started)
}

/// So many items of one owner.
async fn items_of(members: &[Member], owner: usize, count: usize) -> Vec<pb::RateLimitReq> {
    let key = key_of(members, owner).await;
    vec![pb::RateLimitReq { limit: 1_000_000, ..item(&key) }; count]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_makes_one_message_per_owner_of_what_must_not_wait() {
    for batching in [true, false] {
        let members = cluster(2, |settings| settings.cluster.batching = batching).await;
        let plain = items_of(&members, 1, 300).await;
        let alone = plain.iter().map(|item| pb::RateLimitReq { behavior: NO_BATCHING, ..item.clone() });
        let waiting =
            plain.iter().map(|item| pb::RateLimitReq { max_wait: 1_000, algorithm: 1, ..item.clone() });
        let before = messages(&members[1]);
        let answers = get(&members[0], alone.clone().chain(waiting).collect()).await;
        assert!(answers.iter().all(|answer| answer.error.is_empty()), "{:?}", answers[0]);
        assert_eq!(messages(&members[1]) - before, 1, "all of them in one, {batching}");
        // Those that may wait have a message of their own, unless nobody may.
        get(&members[0], alone.zip(plain.clone()).flat_map(|(a, b)| [a, b]).collect()).await;
        assert_eq!(messages(&members[1]) - before, if batching { 3 } else { 2 }, "{batching}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_alone_waits_within_the_bound() {
    let asked = member(|settings| {
        settings.cluster.batch.waiting_max = 10;
        settings.cluster.forward_timeout = Duration::from_millis(300);
        settings.cluster.unreachable = Unreachable::Error;
    })
    .await;
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peers = [silent.local_addr().unwrap().to_string()];
    asked.node.set_peers(peers.iter().map(PeerInfo::new).collect()).await;
    let alone = |count| vec![pb::RateLimitReq { behavior: NO_BATCHING, ..item("k") }; count];
    let waiting = |count| vec![pb::RateLimitReq { max_wait: 9, algorithm: 1, ..item("k") }; count];
    let full = "10 checks already wait for this peer";
    for many in [alone(11), waiting(11)] {
        let refused = get(&asked, many).await;
        assert!(refused.iter().all(|answer| answer.error.contains(full)), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_bounded_wherever_it_is_asked_for() {
    let some = |entries: usize, bytes: usize| {
        let name = |number: usize| (format!("{number:04}"), "v".repeat(bytes / entries - 4));
        pb::RateLimitReq { metadata: (0..entries).map(name).collect(), ..item("k") }
    };
    for (semantics, bounded) in [(Semantics::Exact, true), (Semantics::Gubernator, false)] {
        let members = cluster(3, |settings| settings.rules.semantics = semantics).await;
        let alone = member(|settings| settings.rules.semantics = semantics).await;
        for asked in members.iter().chain([&alone]) {
            let items = vec![some(64, 16_384), some(65, 650), some(1, 16_385), item("k")];
            let answers = get(asked, items).await;
            let errors: Vec<_> = answers.iter().map(|answer| answer.error.as_str()).collect();
            let expected = ["", "metadata exceeds 64 entries", "metadata exceeds 16384 bytes", ""];
            assert_eq!(errors, if bounded { expected } else { [""; 4] });
        }
    }
}

/// A client's message may be as large as a message may be; on its way to the owner it grows.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_larger_than_a_peer_takes() {
    let members = cluster(2, |settings: &mut Settings| {
        settings.rules = Rules { semantics: Semantics::Gubernator, ..Rules::default() };
        settings.cluster.unreachable = Unreachable::Error;
    })
    .await;
    for behavior in [0, NO_BATCHING] {
        let sized = |number: usize, bytes: usize| pb::RateLimitReq {
            behavior,
            metadata: [("x".to_owned(), "y".repeat(bytes))].into(),
            ..item(&format!("{number}-large"))
        };
        let mut items: Vec<_> = (0..100).map(|number| sized(number, 5_000)).collect();
        let bytes: usize = items.iter().map(prost::Message::encoded_len).sum();
        items.push(sized(100, 1_048_576 - 600 - bytes));
        let answers = get(&members[0], items).await;
        assert!(answers.iter().all(|answer| answer.error.is_empty()), "{:?}", answers.last());
    }
    // One that is too large by itself is not sent.
    let owned = item(&key_of(&members, 1).await);
    let large =
        |bytes| pb::RateLimitReq { metadata: [("x".to_owned(), "y".repeat(bytes))].into(), ..owned.clone() };
    let around = ask(vec![large(1_000_000)]).encoded_len() - 1_000_000;
    let before = messages(&members[1]);
    let answer = get(&members[0], vec![large(1_048_576 - around)]).await.remove(0);
    let text = "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (1048583 vs. 1048576)";
    assert!(answer.error.ends_with(text), "{answer:?}");
    assert_eq!(messages(&members[1]), before);
}
