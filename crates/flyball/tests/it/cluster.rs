//! Several nodes on real connections of one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball::{
    CallContext, ClusterSettings, Node, NodeBuilder, PeerInfo, Rules, Semantics, Settings, Unreachable, pb,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Server;

use crate::common::{ask, item};

pub(crate) const GLOBAL: i32 = 2;
pub(crate) const NO_BATCHING: i32 = 1;
const RESET: i32 = 8;

pub(crate) struct Member {
    pub(crate) node: Node,
    pub(crate) address: String,
    server: Option<DropGuard>,
}

pub(crate) async fn member(settings: impl FnOnce(&mut Settings)) -> Member {
    member_with(settings, |builder| builder).await
}

pub(crate) async fn member_with(
    settings: impl FnOnce(&mut Settings),
    parts: impl FnOnce(NodeBuilder) -> NodeBuilder,
) -> Member {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut given = Settings { advertise_address: address.clone(), ..Settings::default() };
    settings(&mut given);
    let node = parts(Node::builder().settings(given)).build();
    let stop = CancellationToken::new();
    let server = Server::builder()
        .add_routes(flyball::grpc::routes(&node))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
    tokio::spawn(server);
    Member { node, address, server: Some(stop.drop_guard()) }
}

pub(crate) async fn cluster(count: usize, settings: impl Fn(&mut Settings)) -> Vec<Member> {
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(member(&settings).await);
    }
    introduce(&members).await;
    members
}

pub(crate) async fn introduce(members: &[Member]) {
    let peers: Vec<_> = members.iter().map(|member| PeerInfo::new(&member.address)).collect();
    for member in members {
        member.node.set_peers(peers.clone()).await;
    }
}

pub(crate) fn quick(settings: &mut Settings) {
    settings.cluster.global.sync_wait = Duration::from_millis(20);
}

pub(crate) async fn get(member: &Member, items: Vec<pb::RateLimitReq>) -> Vec<pb::RateLimitResp> {
    member.node.get_rate_limits(ask(items), CallContext::default()).await.unwrap().responses
}

pub(crate) async fn one(member: &Member, item: pb::RateLimitReq) -> pb::RateLimitResp {
    get(member, vec![item]).await.remove(0)
}

/// A key that this member owns: by trying, as a client would find out.
pub(crate) async fn key_of(members: &[Member], owner: usize) -> String {
    for number in 0..1_000 {
        let key = format!("{number}-key");
        let asked = pb::RateLimitReq { hits: 0, ..item(&key) };
        let answer = one(&members[owner], asked).await;
        if !answer.metadata.contains_key("owner") {
            return key;
        }
    }
    panic!("member {owner} owns nothing");
}

/// Waits until `holds`, since messages need their time, and fails when it takes too long.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within five seconds: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bucket_whoever_is_asked() {
    let members = cluster(3, |_| {}).await;
    let key = key_of(&members, 1).await;
    for (place, behavior) in [0, NO_BATCHING, 0, NO_BATCHING, 0, 0].into_iter().enumerate() {
        let asked = place % 3;
        let answer = one(&members[asked], pb::RateLimitReq { behavior, ..item(&key) }).await;
        assert_eq!((answer.error.as_str(), answer.remaining), ("", 9 - place as i64));
        let owner = answer.metadata.get("owner").map(String::as_str);
        assert_eq!(owner, (asked != 1).then_some(members[1].address.as_str()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_all_owners_keeps_its_order() {
    let members = cluster(3, |_| {}).await;
    let items: Vec<_> = (0..1_000)
        .map(|number| pb::RateLimitReq { limit: number + 1, ..item(&format!("{number}-x")) })
        .collect();
    let answers = get(&members[0], items).await;
    let mut owners = BTreeMap::new();
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!((answer.limit, answer.remaining), (number as i64 + 1, number as i64), "{answer:?}");
        *owners.entry(answer.metadata.get("owner").cloned()).or_insert(0) += 1;
    }
    assert_eq!(owners.len(), 3, "each node has a part: {owners:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_of_a_thousand_through_a_stranger() {
    let members = cluster(2, |_| {}).await;
    let mut owned = Vec::new();
    let mut number = 0;
    while owned.len() < 1_000 {
        let items: Vec<_> = (number..number + 1_000)
            .map(|n| pb::RateLimitReq { hits: 0, ..item(&format!("{n}-y")) })
            .collect();
        let answers = get(&members[0], items.clone()).await;
        let foreign =
            items.into_iter().zip(answers).filter(|(_, answer)| answer.metadata.contains_key("owner"));
        owned.extend(foreign.map(|(item, _)| pb::RateLimitReq { hits: 1, limit: 1_000, ..item }));
        number += 1_000;
    }
    owned.truncate(1_000);
    let members = Arc::new(members);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (members, owned) = (Arc::clone(&members), owned.clone());
            tokio::spawn(async move { get(&members[0], owned).await })
        })
        .collect();
    for call in calls {
        for answer in call.await.unwrap() {
            assert_eq!(answer.error, "");
        }
    }
    let looks = owned.into_iter().map(|item| pb::RateLimitReq { hits: 0, ..item }).collect();
    for answer in get(&members[0], looks).await {
        assert_eq!(answer.remaining, 950, "each hit was counted once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn global_hits_reach_everybody() {
    for (algorithm, burst) in [(0, 0), (1, 0), (1, 20), (1, 4)] {
        let members = cluster(3, quick).await;
        let key = key_of(&members, 2).await;
        let global =
            pb::RateLimitReq { behavior: GLOBAL, algorithm, burst, duration: 3_600_000, ..item(&key) };
        let first = one(&members[0], pb::RateLimitReq { hits: 3, ..global.clone() }).await;
        let full = if burst == 0 { 10 } else { burst };
        assert_eq!((first.remaining, &first.metadata["owner"]), (full - 3, &members[2].address));
        for member in &members {
            eventually("all nodes know of the hits", || async {
                let look = pb::RateLimitReq { hits: 0, ..global.clone() };
                one(member, look).await.remaining == full - 3
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_global_reset_reaches_everybody_and_later_hits_count() {
    let members = cluster(3, quick).await;
    let key = key_of(&members, 2).await;
    let global = pb::RateLimitReq { behavior: GLOBAL, ..item(&key) };
    let look = pb::RateLimitReq { hits: 0, ..global.clone() };
    one(&members[0], pb::RateLimitReq { hits: 7, ..global.clone() }).await;
    for member in &members {
        eventually("seven are known", || async { one(member, look.clone()).await.remaining == 3 }).await;
    }
    one(&members[0], pb::RateLimitReq { behavior: GLOBAL | RESET, ..global.clone() }).await;
    one(&members[0], pb::RateLimitReq { hits: 2, ..global.clone() }).await;
    for member in &members {
        eventually("reset, then two", || async { one(member, look.clone()).await.remaining == 8 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_copy_refuses_takes_nothing_from_the_owner() {
    let members = cluster(2, quick).await;
    let key = key_of(&members, 1).await;
    let global = pb::RateLimitReq { behavior: GLOBAL, ..item(&key) };
    let look = pb::RateLimitReq { hits: 0, ..global.clone() };
    one(&members[0], pb::RateLimitReq { hits: 5, ..global.clone() }).await;
    eventually("five are known", || async { one(&members[1], look.clone()).await.remaining == 5 }).await;
    let refused = one(&members[0], pb::RateLimitReq { hits: 7, ..global.clone() }).await;
    assert_eq!((refused.status, refused.remaining), (1, 5));
    one(&members[0], pb::RateLimitReq { hits: 1, ..global.clone() }).await;
    eventually("one more", || async { one(&members[1], look.clone()).await.remaining == 4 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_owner_is_stood_in_for_and_comes_back() {
    let mut members = cluster(3, |_| {}).await;
    let key = key_of(&members, 2).await;
    let healthy = key_of(&members, 1).await;
    drop(members[2].server.take());
    // The share of ten over three nodes is four.
    let mut granted = 0;
    for _ in 0..20 {
        let answer = one(&members[0], item(&key)).await;
        assert_eq!((answer.error.as_str(), answer.limit), ("", 10));
        granted += i64::from(answer.status == 0);
    }
    assert!((4..=10).contains(&granted), "{granted}");
    let answer = one(&members[0], item(&key)).await;
    assert_eq!(answer.metadata["degraded"], "owner-unreachable");
    let health = members[0].node.health().unwrap_err().to_string();
    assert!(health.contains("error returned from local peer.GetLastErr: from host 127.0.0.1:"), "{health}");
    // Others are not hurt.
    let both = get(&members[0], vec![item(&key), item(&healthy)]).await;
    assert_eq!((both[1].error.as_str(), both[1].remaining), ("", 9));
    // A place in a queue is promised by nobody else.
    let waiting = pb::RateLimitReq { algorithm: 1, max_wait: 1_000, ..item(&key) };
    let answer = one(&members[0], waiting).await;
    assert!(
        answer.error.starts_with(&format!(
            "while fetching rate limit 'n_{key}' from peer: Error in getPeerRateLimitSingle: "
        )),
        "{answer:?}"
    );
    assert_eq!(answer.status, 1, "nobody takes an error for a grant");

    let listener = TcpListener::bind(&members[2].address).await.unwrap();
    let stop = CancellationToken::new();
    let server = Server::builder()
        .add_routes(flyball::grpc::routes(&members[2].node))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
    tokio::spawn(server);
    members[2].server = Some(stop.drop_guard());
    eventually("the owner answers again", || async {
        let look = pb::RateLimitReq { hits: 0, ..item(&key) };
        !one(&members[0], look).await.metadata.contains_key("degraded")
    })
    .await;
    assert_eq!(members[0].node.health().unwrap().status, "healthy");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_original_policy_is_an_error() {
    let mut members = cluster(2, |settings| {
        settings.rules = Rules { semantics: Semantics::Gubernator, ..Rules::default() };
        settings.cluster = ClusterSettings { unreachable: Unreachable::Error, ..ClusterSettings::default() };
    })
    .await;
    let key = key_of(&members, 1).await;
    drop(members[1].server.take());
    tokio::task::yield_now().await;
    eventually("the port is closed", || async {
        let answer = one(&members[0], item(&key)).await;
        let address = &members[1].address;
        answer.error
            == format!(
                "while fetching rate limit 'n_{key}' from peer: Error in getPeerRateLimitsBatch: Request error: \
                 Error in client.GetPeerRateLimits: rpc error: code = Unavailable desc = connection error: desc = \
                 \"transport: Error while dialing: dial tcp {address}: connect: connection refused\""
            )
            && answer.status == 0
            && answer.metadata.is_empty()
    })
    .await;
}

/// What a late caller can still read is no grant, and a caller's hurry is nothing against the peer.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_gives_up_is_granted_nothing() {
    for (semantics, status) in [(Semantics::Exact, 1), (Semantics::Gubernator, 0)] {
        let member = member(|settings| settings.rules = Rules { semantics, ..Rules::default() }).await;
        // Takes connections and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peers = [member.address.clone(), silent.local_addr().unwrap().to_string()];
        member.node.set_peers(peers.iter().map(PeerInfo::new).collect()).await;
        let context = || CallContext {
            deadline: Some(tokio::time::Instant::now() + Duration::from_millis(20)),
            ..CallContext::default()
        };
        for _ in 0..5 {
            let items = (0..20).map(|number| item(&format!("{number}-key"))).collect();
            let answers = member.node.get_rate_limits(ask(items), context()).await.unwrap().responses;
            let late: Vec<_> = answers.iter().filter(|answer| !answer.error.is_empty()).collect();
            assert!(!late.is_empty());
            for answer in late {
                assert!(answer.error.starts_with("caller gave up on rate limit 'n_"), "{answer:?}");
                assert_eq!(answer.status, status, "{answer:?}");
            }
        }
        assert!(member.node.health().is_ok(), "{:?}", member.node.health());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_node_delivers_what_it_owes() {
    let slow = |settings: &mut Settings| {
        settings.cluster.global.sync_wait = Duration::from_secs(3_600);
    };
    let members = cluster(2, slow).await;
    let key = key_of(&members, 1).await;
    let global = pb::RateLimitReq { behavior: GLOBAL, hits: 4, ..item(&key) };
    let look = pb::RateLimitReq { hits: 0, ..global.clone() };
    one(&members[0], global).await;
    assert_eq!(one(&members[1], look.clone()).await.remaining, 10);
    members[0].node.close().await;
    assert_eq!(one(&members[1], look).await.remaining, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_peers_again_change_nothing() {
    let members = cluster(3, |_| {}).await;
    let key = key_of(&members, 1).await;
    one(&members[0], item(&key)).await;
    for _ in 0..1_000 {
        introduce(&members).await;
    }
    assert_eq!(one(&members[0], item(&key)).await.remaining, 8);
    assert_eq!(members[0].node.health().unwrap().peer_count, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_among_the_peers_says_so() {
    let members = cluster(2, |_| {}).await;
    members[0].node.set_peers(vec![PeerInfo::new(&members[1].address)]).await;
    let error = members[0].node.health().unwrap_err().to_string();
    assert_eq!(error, "this instance is not found in the peer list");
    assert_eq!(one(&members[0], item("k-any")).await.metadata["owner"], members[1].address);
    members[0].node.set_peers(Vec::new()).await;
    let answer = one(&members[0], item("k-any")).await;
    assert_eq!(
        answer.error,
        "Error in GetPeer, looking up peer that owns rate limit 'n_k-any': Error in conf.LocalPicker.Get: unable \
         to pick a peer; pool is empty"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn item_errors_say_where_they_were_found() {
    let members = cluster(2, quick).await;
    let key = key_of(&members, 1).await;
    let bad = pb::RateLimitReq { algorithm: 7, ..item(&key) };
    let cause = "during workerPool.GetRateLimit: Invalid rate limit algorithm '7'";
    for (asked, behavior, expected, owner) in [
        (1, 0, format!("Error while apply rate limit for 'n_{key}': {cause}"), false),
        (0, 0, format!("Error in getLocalRateLimit: {cause}"), true),
        (0, GLOBAL, format!("Error in getGlobalRateLimit: during in getLocalRateLimit: {cause}"), true),
    ] {
        let answer = one(&members[asked], pb::RateLimitReq { behavior, ..bad.clone() }).await;
        assert_eq!(answer.error, expected);
        assert_eq!(answer.metadata.contains_key("owner"), owner);
    }
    let waiting = pb::RateLimitReq { max_wait: -1, ..item(&key) };
    let answer = one(&members[0], waiting).await;
    assert_eq!(answer.error, "field 'max_wait' cannot be negative");
    assert!(answer.metadata.is_empty());
}
