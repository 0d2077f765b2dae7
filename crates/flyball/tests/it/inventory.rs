//! What the original's own tests prove of a cluster, by its names, under its semantics.

use std::time::Duration;

use flyball::{CallContext, Rules, Semantics, Settings, pb};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::cluster::{GLOBAL, Member, NO_BATCHING, cluster, eventually, get, key_of, one, quick};
use crate::common::{ask, item};

fn original(settings: &mut Settings) {
    settings.rules = Rules { semantics: Semantics::Gubernator, ..Rules::default() };
    settings.cluster.unreachable = flyball::Unreachable::Error;
    settings.cluster.health.forgive = false;
    settings.cluster.health.memory = Duration::from_secs(300);
    quick(settings);
}

fn metric(member: &Member, name: &str) -> u64 {
    let page = member.node.metrics().render();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

fn calls(member: &Member, method: &str) -> u64 {
    metric(
        member,
        &format!(
            "gubernator_grpc_request_counts{{method=\"/pb.gubernator.PeersV1/{method}\",status=\"success\"}}"
        ),
    )
}

fn global(key: &str) -> pb::RateLimitReq {
    pb::RateLimitReq { behavior: GLOBAL, limit: 100, ..item(key) }
}

fn look(request: &pb::RateLimitReq) -> pb::RateLimitReq {
    pb::RateLimitReq { hits: 0, ..request.clone() }
}

async fn all_show(members: &[Member], request: &pb::RateLimitReq, remaining: i64) {
    for member in members {
        eventually("all nodes agree", || async { one(member, look(request)).await.remaining == remaining })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn global_rate_limits() {
    let members = cluster(3, original).await;
    let key = key_of(&members, 2).await;
    let request = pb::RateLimitReq { limit: 5, ..global(&key) };
    let mut reset = None;
    for expected in [4, 3, 2] {
        let answer = one(&members[0], request.clone()).await;
        assert_eq!((answer.status, answer.remaining), (0, expected));
        assert_eq!(answer.metadata["owner"], members[2].address);
        assert_eq!(*reset.get_or_insert(answer.reset_time), answer.reset_time);
    }
    all_show(&members, &request, 2).await;
    // Counted after what they say is in force.
    for member in &members[..2] {
        eventually("the call is counted", || async { calls(member, "UpdatePeerGlobals") >= 1 }).await;
    }
    one(&members[0], pb::RateLimitReq { hits: 2, ..request.clone() }).await;
    all_show(&members, &request, 0).await;
    for member in &members {
        eventually("over everywhere", || async { one(member, request.clone()).await.status == 1 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn global_with_load_balancing() {
    let members = cluster(2, original).await;
    let key = key_of(&members, 1).await;
    let request = pb::RateLimitReq { limit: 2, ..global(&key) };
    assert_eq!(one(&members[0], request.clone()).await.status, 0);
    assert_eq!(one(&members[1], request.clone()).await.status, 0);
    all_show(&members, &request, 0).await;
    for round in 0..10 {
        assert_eq!(
            one(&members[round % 2], request.clone()).await.status,
            1,
            "P18: depleted once, over everywhere"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn global_peer_over_limit_is_told() {
    let members = cluster(3, original).await;
    let key = key_of(&members, 2).await;
    let request = pb::RateLimitReq { limit: 2, ..global(&key) };
    one(&members[0], pb::RateLimitReq { hits: 2, ..request.clone() }).await;
    all_show(&members, &request, 0).await;
    assert_eq!(one(&members[0], request.clone()).await.status, 1);
    // The mark of a refusal travels: a later look at another copy shows it.
    eventually("a look says over", || async { one(&members[1], look(&request)).await.status == 1 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn global_more_than_available_drains() {
    let members = cluster(4, original).await;
    let key = key_of(&members, 3).await;
    let request = pb::RateLimitReq { algorithm: 1, duration: 3_600_000, ..global(&key) };
    for member in &members[..3] {
        assert_eq!(one(member, pb::RateLimitReq { hits: 50, ..request.clone() }).await.status, 0);
    }
    all_show(&members, &request, 0).await;
    for member in &members {
        assert_eq!(one(member, request.clone()).await.status, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn global_negative_hits() {
    let members = cluster(3, original).await;
    let key = key_of(&members, 2).await;
    let request = pb::RateLimitReq { limit: 2, ..global(&key) };
    for (member, hits, expected) in [(0, -1, 3), (1, -1, 4), (0, 4, 0)] {
        let answer = one(&members[member], pb::RateLimitReq { hits, ..request.clone() }).await;
        assert_eq!((answer.status, answer.remaining), (0, expected));
        all_show(&members, &request, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn global_reset_reaches_all() {
    let members = cluster(3, original).await;
    let key = key_of(&members, 2).await;
    let request = global(&key);
    one(&members[0], pb::RateLimitReq { hits: 50, ..request.clone() }).await;
    all_show(&members, &request, 50).await;
    one(&members[1], pb::RateLimitReq { behavior: GLOBAL | 8, ..request.clone() }).await;
    all_show(&members, &request, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn global_status_follows_admission() {
    let members = cluster(2, original).await;
    let key = key_of(&members, 1).await;
    let request = pb::RateLimitReq { limit: 2, ..global(&key) };
    one(&members[1], pb::RateLimitReq { hits: 2, ..request.clone() }).await;
    assert_eq!(one(&members[1], request.clone()).await.status, 1);
    eventually("the copy says over", || async { one(&members[0], look(&request)).await.status == 1 }).await;
    let raised = pb::RateLimitReq { limit: 5, ..request };
    assert_eq!(one(&members[1], raised.clone()).await.status, 0);
    eventually("and under again", || async {
        let answer = one(&members[0], look(&raised)).await;
        (answer.status, answer.remaining) == (0, 2)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn global_behavior_on_the_owner() {
    for hits in [1, 10] {
        let members = cluster(4, original).await;
        let key = key_of(&members, 2).await;
        let request = global(&key);
        // Looking for a key has forwarded looks.
        let before: Vec<_> = members.iter().map(|member| calls(member, "GetPeerRateLimits")).collect();
        get(&members[2], vec![request.clone(); hits]).await;
        all_show(&members, &request, 100 - hits as i64).await;
        for (index, member) in members.iter().enumerate() {
            let told = calls(member, "UpdatePeerGlobals");
            assert_eq!(told, u64::from(index != 2), "one broadcast to each other node");
            assert_eq!(calls(member, "GetPeerRateLimits"), before[index]);
        }
        eventually("one round", || async { metric(&members[2], "gubernator_broadcast_duration_count") == 1 })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn global_behavior_on_a_non_owner() {
    for hits in [1, 10] {
        let members = cluster(4, original).await;
        let key = key_of(&members, 2).await;
        let request = global(&key);
        let before: Vec<_> = members.iter().map(|member| calls(member, "GetPeerRateLimits")).collect();
        get(&members[0], vec![request.clone(); hits]).await;
        all_show(&members, &request, 100 - hits as i64).await;
        eventually("one send", || async {
            metric(&members[0], "gubernator_global_send_duration_count") == 1
        })
        .await;
        for (index, member) in members.iter().enumerate() {
            let batches = calls(member, "GetPeerRateLimits") - before[index];
            assert_eq!(batches, u64::from(index == 2), "one batch of hits");
            assert_eq!(calls(member, "UpdatePeerGlobals"), u64::from(index != 2));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stable_request_order() {
    let members = cluster(3, original).await;
    for count in [1, 2, 5, 10, 100, 1_000] {
        let items: Vec<_> = (0..count)
            .map(|number| pb::RateLimitReq { limit: 1_000 + number, ..item(&format!("{count}:{number}:x")) })
            .collect();
        let answers = get(&members[0], items).await;
        assert!(answers.iter().zip(0..).all(|(answer, number)| answer.limit == 1_000 + number), "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_through_every_peer() {
    let members = cluster(6, original).await;
    let key = key_of(&members, 0).await;
    let request = pb::RateLimitReq {
        algorithm: 1,
        limit: 10,
        duration: 60_000,
        burst: 1,
        max_wait: 300_000,
        ..item(&key)
    };
    assert_eq!(one(&members[0], request.clone()).await.retry_after, 0);
    for (member, place) in members.iter().zip(1_i64..) {
        let answer = one(member, request.clone()).await;
        let wait = place * 6_000;
        assert_eq!(answer.status, 3, "{answer:?}");
        assert!((wait - 1_000..=wait).contains(&answer.retry_after), "{} of {wait}", answer.retry_after);
    }
}

/// An address that takes connections and says nothing.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// A key of the peer at `address`, which does not answer.
async fn key_at(member: &Member, address: &str) -> String {
    for number in 0..1_000 {
        let key = format!("{number}-silent");
        let asked = pb::RateLimitReq { hits: 0, ..global(&key) };
        if one(member, asked).await.metadata.get("owner").is_some_and(|owner| owner == address) {
            return key;
        }
    }
    panic!("{address} owns nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_peer_is_recorded_once() {
    for behavior in [0, NO_BATCHING] {
        let members = cluster(1, original).await;
        let (_listener, address) = silent().await;
        let peers = [members[0].address.clone(), address.clone()].map(flyball::PeerInfo::new).to_vec();
        members[0].node.set_peers(peers).await;
        let key = key_at(&members[0], &address).await;
        let began = Instant::now();
        let answer = one(&members[0], pb::RateLimitReq { behavior, ..item(&key) }).await;
        assert!(began.elapsed() < Duration::from_secs(2), "the batch timeout is half a second");
        assert!(
            answer.error.ends_with("rpc error: code = DeadlineExceeded desc = context deadline exceeded"),
            "{answer:?}"
        );
        let health = members[0].node.health().unwrap_err().to_string();
        let text = format!(
            "error returned from local peer.GetLastErr: from host {address}: Error in client.GetPeerRateLimits: rpc \
             error: code = DeadlineExceeded desc = context deadline exceeded"
        );
        assert_eq!(health, text, "once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_deadline_is_no_fault_of_the_peer() {
    let members = cluster(1, original).await;
    let (_listener, address) = silent().await;
    let peers = [members[0].address.clone(), address.clone()].map(flyball::PeerInfo::new).to_vec();
    members[0].node.set_peers(peers).await;
    let key = key_at(&members[0], &address).await;
    let deadline = Some(Instant::now() + Duration::from_millis(50));
    let context = CallContext { deadline, ..CallContext::default() };
    let answer = members[0].node.get_rate_limits(ask(vec![item(&key)]), context).await.unwrap();
    assert_eq!(
        answer.responses[0].error,
        format!("caller gave up on rate limit 'n_{key}': context deadline exceeded")
    );
    assert_eq!(
        members[0].node.health().unwrap().status,
        "healthy",
        "nothing is remembered while the call goes on"
    );
    // One that has ended before it begins sends nothing.
    let context = CallContext { deadline: Some(Instant::now()), ..CallContext::default() };
    assert!(members[0].node.get_rate_limits(ask(vec![item(&key)]), context).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_leave_take_nothing_with_them() {
    let members = std::sync::Arc::new(cluster(2, original).await);
    let key = key_of(&members, 1).await;
    let wide = pb::RateLimitReq { limit: 1_000_000, ..item(&key) };
    let mut calls = Vec::new();
    for number in 0..300 {
        let (members, wide) = (std::sync::Arc::clone(&members), wide.clone());
        calls.push(tokio::spawn(async move {
            let call = one(&members[0], wide);
            // Every third leaves at once or soon.
            match number % 3 {
                0 => tokio::time::timeout(Duration::from_micros(number), call).await.ok(),
                _ => Some(call.await),
            }
        }));
    }
    let mut answered = 0;
    for call in calls {
        if let Some(answer) = call.await.unwrap() {
            assert_eq!(answer.error, "");
            answered += 1;
        }
    }
    assert!(answered >= 200);
    let taken = 1_000_000 - one(&members[0], look(&wide)).await.remaining;
    assert!((answered..=300).contains(&taken), "{taken} taken, {answered} answered");
    for member in members.iter() {
        assert_eq!(member.node.health().unwrap().status, "healthy");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_removed_under_load_ends_its_calls() {
    let members = std::sync::Arc::new(cluster(2, original).await);
    let key = key_of(&members, 1).await;
    let both: Vec<_> = members.iter().map(|member| flyball::PeerInfo::new(&member.address)).collect();
    for behavior in [0, NO_BATCHING, GLOBAL] {
        for _ in 0..20 {
            let request = pb::RateLimitReq { behavior, limit: 1_000_000, ..item(&key) };
            let calls: Vec<_> = (0..10)
                .map(|_| {
                    let (members, request) = (std::sync::Arc::clone(&members), request.clone());
                    tokio::spawn(async move { one(&members[0], request).await })
                })
                .collect();
            members[0].node.set_peers(both[..1].to_vec()).await;
            for call in calls {
                let answer = call.await.unwrap();
                assert!(
                    answer.error.is_empty() || answer.error.contains("the client connection is closing"),
                    "{answer:?}"
                );
            }
            members[0].node.set_peers(both.clone()).await;
        }
    }
}
