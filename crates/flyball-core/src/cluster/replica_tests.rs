use core::ops::ControlFlow;

use super::*;
use crate::algorithm::TokenBucket;
use crate::cluster::GlobalSettings;
use crate::store::StoreSettings;

const KEY: Key<'static> = Key { name: "n", unique_key: "k" };

struct Node {
    store: Store,
    hits: GlobalHits,
    rules: Rules,
}

impl Node {
    fn new() -> Self {
        let store = Store::new(&StoreSettings { shards: 1, ..StoreSettings::default() });
        Self { store, hits: GlobalHits::new(GlobalSettings::default()), rules: Rules::default() }
    }

    /// A client's check of a limit of 10 in a second.
    fn ask(&mut self, hits: i64, ms: i64) -> Decision {
        let request = Request {
            key: KEY,
            hits,
            limit: 10,
            duration: 1_000,
            algorithm: 0,
            behavior: Behavior::GLOBAL,
            burst: 0,
            created_at: None,
            max_wait: 0,
        };
        let (wall, now) = (Timestamp(ms), Instant(ms as u64 * 1_000_000));
        let mut replica = Replica { rules: &self.rules, hits: &mut self.hits, wall, now };
        let mut answer = None;
        self.store.visit(
            1,
            |_| KEY,
            |_, mut bucket| {
                answer = Some(replica.apply(&mut bucket, &request, "a:1").answer);
                ControlFlow::Continue(())
            },
        );
        answer.unwrap().unwrap()
    }

    /// The owner tells of a window.
    fn take(&self, remaining: i64, began: i64, ms: i64) {
        let token = TokenBucket {
            limit: 10,
            remaining,
            duration: 1_000,
            created_at: began,
            calendar: false,
            over_limit: false,
        };
        let bucket = Some(Bucket { expire_at: began + 1_000, state: State::Token(token) });
        let told = Told { owner: "a:1", key: StoredKey::Pair(KEY), bucket, applied: Some(0) };
        take_news(&self.store, &self.hits, told, Timestamp(ms));
    }
}

#[test]
fn a_copy_shows_what_the_owner_said_less_what_it_did_not_know() {
    let mut node = Node::new();
    assert_eq!(node.ask(3, 0).remaining, 7);
    node.take(9, 0, 100);
    assert_eq!(node.ask(0, 100).remaining, 6);
}

#[test]
fn hits_of_the_window_before_are_not_taken_from_the_next() {
    let mut node = Node::new();
    node.ask(3, 0);
    node.take(9, 1_001, 1_050);
    assert_eq!(node.ask(0, 1_060).remaining, 9);
}

#[test]
fn a_window_that_is_over_here_does_not_replace_the_next() {
    let mut node = Node::new();
    // This node's clock is ahead of the owner's.
    node.ask(10, 5_000);
    node.take(0, 3_900, 5_100);
    let decision = node.ask(1, 5_200);
    assert_eq!((decision.status, decision.remaining), (Status::OverLimit, 0), "its window opened once");
}

#[test]
fn what_is_told_ends_with_the_window_it_was_granted_in() {
    let mut node = Node::new();
    node.ask(1, 0);
    node.ask(1, 900);
    let batch = node.hits.due(Instant(1_000_000_000), Timestamp(1_000), false).unwrap();
    assert_eq!((batch.items[0].1.hits, batch.items[0].1.ends_at.ms()), (2, 1_000));
}

#[test]
fn hits_end_with_the_window_the_owner_told_of_not_with_the_copys_own() {
    let mut node = Node::new();
    node.ask(1, 100);
    node.take(9, 50, 150);
    node.ask(1, 200);
    let batch = node.hits.due(Instant(1_000_000_000), Timestamp(1_000), false).unwrap();
    assert_eq!((batch.items[0].1.hits, batch.items[0].1.ends_at.ms()), (2, 1_050));
}

/// An original tells the joined text; the copy of the pair, which was asked a moment before, must not hide that.
#[test]
fn news_of_a_joined_text_win_over_a_copy_that_was_just_asked() {
    let leaky = |balance, at| Bucket {
        expire_at: 60_000,
        state: State::Leaky(crate::algorithm::LeakyBucket {
            limit: 10,
            duration: 600_000,
            burst: 10,
            balance,
            updated_at: at,
            rate: 60_000.0,
            booked_ms: 0.0,
        }),
    };
    for asked in [199, 200, 205] {
        let node = Node::new();
        node.store.insert(StoredKey::Pair(KEY), leaky(7.0, asked), Timestamp(asked));
        let told = Told {
            owner: "a:1",
            key: StoredKey::Joined("n_k"),
            bucket: Some(leaky(3.0, 200)),
            applied: None,
        };
        take_news(&node.store, &node.hits, told, Timestamp(200));
        let copy = node.store.get(StoredKey::Pair(KEY), Timestamp(205));
        assert_eq!(copy, Some(leaky(3.0, 200)), "asked at {asked}");
    }
}
