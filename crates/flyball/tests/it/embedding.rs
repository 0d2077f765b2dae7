//! A node in somebody else's program: its handle, its background task, its end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use flyball::{
    Behavior, CallContext, CheckError, Clock, Key, Node, Request, Semantics, Source, Status, Timestamp,
};

use crate::common::{NOW, ask, clock, item, node, settings};

fn request(key: &str) -> Request<'_> {
    Request {
        key: Key { name: "n", unique_key: key },
        hits: 4,
        limit: 10,
        duration: 60_000,
        algorithm: 0,
        behavior: Behavior::default(),
        burst: 0,
        created_at: None,
        max_wait: 0,
    }
}

#[tokio::test]
async fn checks_without_the_wire() {
    let node = node();
    assert_eq!(node.check(&request("a")).unwrap().remaining, 6);
    assert_eq!(node.check(&request("")).unwrap_err(), CheckError::EmptyUniqueKey);
    let answers = node.check_many(&[request("a"), request("a"), request("b")]);
    let seen: Vec<_> =
        answers.iter().map(|answer| answer.map(|made| (made.status, made.remaining))).collect();
    let expected = [Ok((Status::UnderLimit, 2)), Ok((Status::OverLimit, 2)), Ok((Status::UnderLimit, 6))];
    assert_eq!(seen, expected);
}

#[test]
fn a_node_works_outside_a_runtime() {
    let node = Node::builder().settings(settings(Semantics::Exact)).clock(clock()).build();
    assert_eq!(node.check(&request("a")).unwrap().remaining, 6);
}

#[tokio::test]
async fn a_window_ends_by_the_nodes_clock() {
    let clock = clock();
    let node = Node::builder().clock(clock.clone()).build();
    assert_eq!(node.check(&request("a")).unwrap().remaining, 6);
    clock.advance(60_001);
    let fresh = node.check(&request("a")).unwrap();
    assert_eq!((fresh.remaining, fresh.reset_time), (6, NOW.ms() + 120_001));
}

#[tokio::test]
async fn two_nodes_share_nothing() {
    let (first, second) = (node(), node());
    for _ in 0..3 {
        let _ = first.check(&request("a"));
    }
    assert_eq!(second.check(&request("a")).unwrap().remaining, 6);
    assert!(first.metrics().render().contains("\ngubernator_over_limit_counter 1\n"));
    assert!(second.metrics().render().contains("\ngubernator_over_limit_counter 0\n"));
    first.close().await;
    assert!(second.is_ready() && !first.is_ready());
}

/// Counts how often it is read.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, Ordering::SeqCst);
        NOW
    }
}

#[tokio::test(start_paused = true)]
async fn the_sweep_runs_while_the_node_lives_and_ends_with_its_last_handle() {
    let clock = Arc::new(Counting::default());
    let node = Node::builder().clock(clock.clone()).build();
    // The node remembers when it was built.
    let before = clock.0.load(Ordering::SeqCst);
    let handle = node.clone();
    drop(node);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let sweeps = clock.0.load(Ordering::SeqCst);
    assert_eq!(sweeps - before, 5);
    drop(handle);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Nobody else holds the clock any more: node and task are gone.
    assert_eq!(Arc::strong_count(&clock), 1);
    assert_eq!(clock.0.load(Ordering::SeqCst), sweeps);
}

#[tokio::test(start_paused = true)]
async fn a_closed_node_sweeps_no_more_but_answers() {
    let clock = Arc::new(Counting::default());
    let node = Node::builder().clock(clock.clone()).build();
    node.close().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(clock.0.load(Ordering::SeqCst) <= 1);
    assert!(node.check(&request("a")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn expired_buckets_leave_memory() {
    let clock = clock();
    let node = Node::builder().clock(clock.clone()).build();
    for index in 0..100 {
        let _ = node.check(&request(&index.to_string()));
    }
    assert!(node.metrics().render().contains("\nflyball_store_resident 100\n"));
    clock.advance(60_000 + 5_500 + 1_000);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let page = node.metrics().render();
    assert!(page.contains("\nflyball_store_resident 0\n"), "{page}");
    assert!(page.contains("\nflyball_expired_total 100\n"));
}

/// Many windows end together when they follow the calendar: then the sweep has much to do, and must not do it
/// while everything else waits.
#[tokio::test(start_paused = true)]
async fn others_have_their_turn_while_many_buckets_leave() {
    const KEYS: u64 = 100_000;
    let clock = clock();
    let node = Node::builder().clock(clock.clone()).build();
    for index in 0..KEYS {
        let _ = node.check(&request(&index.to_string()));
    }
    let resident = || {
        let page = node.metrics().scrape();
        let line = page.lines().find_map(|line| line.strip_prefix("flyball_store_resident "));
        line.unwrap().parse::<u64>().unwrap()
    };
    // A quarter of a second later the dead count no more …
    clock.advance(60_000 + 1_000);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let page = node.metrics().scrape();
    assert!(page.contains("\ngubernator_cache_size 0\n"), "{page}");
    // … and when they may be freed, a scrape frees none of them, and the sweep a few at a time.
    clock.advance(5_500 + 1_000);
    assert_eq!(resident(), KEYS);
    let mut seen = vec![KEYS];
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
        let now = resident();
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        if now == 0 {
            break;
        }
        if now == KEYS {
            tokio::time::advance(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(seen.last(), Some(&0));
    let largest = seen.windows(2).map(|pair| pair[0] - pair[1]).max();
    assert!(largest <= Some(10_000), "{seen:?}");
}

/// A clock that takes a second of tokio's paused time to read.
#[derive(Debug)]
struct Slow;

impl Clock for Slow {
    fn now(&self) -> Timestamp {
        // The first poll moves the time; what it then waits for does not matter.
        let _ =
            pin!(tokio::time::advance(Duration::from_secs(1))).poll(&mut Context::from_waker(Waker::noop()));
        NOW
    }
}

#[tokio::test(start_paused = true)]
async fn items_that_a_late_caller_cannot_see_are_not_applied() {
    let node = Node::builder().clock(Arc::new(Slow)).build();
    let deadline = tokio::time::Instant::now() + Duration::from_millis(500);
    let context = CallContext { deadline: Some(deadline), ..CallContext::default() };
    let mut items = vec![item("k"); 200];
    items.iter_mut().for_each(|item| item.limit = 1_000);
    let answer = node.get_rate_limits(ask(items), context).await.unwrap();
    assert_eq!(answer.responses.len(), 200);
    assert_eq!(answer.responses[63].remaining, 936);
    for response in &answer.responses[64..] {
        assert_eq!(response.error, "Error while iterating request items: context deadline exceeded");
        assert_eq!(response.limit, 0);
    }
    let mut look = item("k");
    (look.hits, look.limit) = (0, 1_000);
    let answer = node.get_rate_limits(ask(vec![look]), CallContext::default()).await.unwrap();
    assert_eq!(answer.responses[0].remaining, 936);
    let page = node.metrics().render();
    assert!(page.contains("gubernator_check_error_counter{error=\"Timeout\"} 136\n"), "{page}");
}

#[tokio::test]
async fn sources_differ_in_what_they_may_leave_out() {
    // The rules a node shows are the ones it judges by.
    let node = node();
    let nameless = Request { key: Key { name: "", unique_key: "a" }, ..request("a") };
    assert!(node.rules().admit(&nameless, Source::Client, NOW).is_err());
    assert!(node.rules().admit(&nameless, Source::Peer, NOW).is_ok());
    assert_eq!(node.check(&nameless).unwrap_err(), CheckError::EmptyName);
}

#[tokio::test]
async fn the_overview_names_who_is_refused() {
    let node = node();
    let _ = node.check_many(&[request("many"), request("few"), request("many"), request("many")]);
    let _ = node.check(&request("many"));
    let overview = node.overview();
    let keys = overview.top_refused.iter().map(|key| (key.unique_key.as_str(), key.hits));
    assert_eq!(keys.collect::<Vec<_>>(), [("many", 8)]);
    assert_eq!((overview.checks.decided, overview.checks.refused), (5, 2));
    assert_eq!((overview.peers.len(), overview.peers[0].is_self, overview.peers[0].share), (1, true, 1.0));
    assert_eq!(overview.top_missed, 0);
}
