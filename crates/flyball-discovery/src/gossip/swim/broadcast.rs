//! News that is passed on with whatever packet leaves next.
//!
//! Each is sent a bounded number of times in all, the least sent first and among those the newest. Newer news of a
//! node takes the place of older, so there is never more than one for each member: that bounds the queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::gossip::codec::packet::{PART_OVERHEAD, PARTS_MAX};

/// News that does not fit is passed over, but not more often than this for one packet.
const PASSED_OVER_MAX: usize = 32;

/// Times sent, and the age, youngest first.
type Rank = (u32, Reverse<u64>);

/// The queue of news.
#[derive(Debug, Default)]
pub(crate) struct Broadcasts {
    queue: BTreeMap<Rank, News>,
    /// Where the news of a node is.
    by_node: BTreeMap<String, Rank>,
    /// Counts news.
    number: u64,
}

#[derive(Debug)]
struct News {
    node: String,
    encoded: Vec<u8>,
}

impl Broadcasts {
    /// News of a node; the older one is forgotten.
    pub(crate) fn push(&mut self, node: &str, encoded: Vec<u8>) {
        self.number += 1;
        let rank = (0, Reverse(self.number));
        if let Some(older) = self.by_node.insert(node.to_owned(), rank) {
            self.queue.remove(&older);
        }
        self.queue.insert(rank, News { node: node.to_owned(), encoded });
    }

    /// Adds to `parts` what fits into `room` bytes, and counts it as sent; with the last of `sends` it is done.
    pub(crate) fn take(&mut self, parts: &mut Vec<Vec<u8>>, mut room: usize, sends: u32) {
        let mut sent = Vec::new();
        let mut passed_over = 0;
        for (rank, news) in &self.queue {
            let size = news.encoded.len() + PART_OVERHEAD;
            if size > room {
                passed_over += 1;
                if passed_over > PASSED_OVER_MAX {
                    break;
                }
                continue;
            }
            if parts.len() + sent.len() >= PARTS_MAX {
                break;
            }
            room -= size;
            sent.push(*rank);
        }
        for rank in sent {
            let Some(news) = self.queue.remove(&rank) else { continue };
            parts.push(news.encoded.clone());
            let rank = (rank.0 + 1, rank.1);
            if rank.0 >= sends {
                self.by_node.remove(&news.node);
            } else {
                self.by_node.insert(news.node.clone(), rank);
                self.queue.insert(rank, news);
            }
        }
    }

    /// Whether there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut Broadcasts, room: usize, sends: u32) -> Vec<u8> {
        let mut parts = Vec::new();
        queue.take(&mut parts, room, sends);
        parts.into_iter().map(|part| part[0]).collect()
    }

    #[test]
    fn the_least_sent_and_newest_goes_first_and_each_a_bounded_number_of_times() {
        let mut queue = Broadcasts::default();
        for (node, byte) in [("a", 1), ("b", 2), ("c", 3)] {
            queue.push(node, vec![byte; 8]);
        }
        assert_eq!(taken(&mut queue, 20, 2), [3, 2]);
        assert_eq!(taken(&mut queue, 20, 2), [1, 3]);
        queue.push("d", vec![4; 8]);
        assert_eq!(taken(&mut queue, 100, 2), [4, 2, 1]);
        assert_eq!(taken(&mut queue, 100, 2), [4]);
        assert!(queue.is_empty() && queue.by_node.is_empty());
    }

    #[test]
    fn newer_news_takes_the_place_of_older() {
        let mut queue = Broadcasts::default();
        queue.push("a", vec![1; 8]);
        assert_eq!(taken(&mut queue, 100, 9), [1]);
        queue.push("a", vec![2; 8]);
        assert_eq!(taken(&mut queue, 100, 9), [2]);
        assert_eq!((queue.queue.len(), queue.by_node.len()), (1, 1));
    }

    #[test]
    fn what_does_not_fit_is_passed_over() {
        let mut queue = Broadcasts::default();
        queue.push("small", vec![1; 8]);
        queue.push("large", vec![2; 100]);
        assert_eq!(taken(&mut queue, 50, 9), [1]);
        assert_eq!(taken(&mut queue, 9, 9), [0; 0]);
    }
}
