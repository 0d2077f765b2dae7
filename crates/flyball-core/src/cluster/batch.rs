//! The checks that wait to travel to one peer together.
//!
//! The original makes every check wait for a window of 500 us, so that others can join it. Here the window is the
//! *longest* a check waits. When nothing is under way to the peer the first check leaves at once: an idle cluster
//! answers in one round trip. While a batch is under way the next ones gather, and leave when its answer is
//! back, when the window is over, or when a message is full, whichever comes first. So the batches grow with the
//! load and with the distance, and nobody has to tune them (the idea is Nagle's, RFC 896, with a bound on its
//! wait).
//!
//! What is gathered are *groups*: all checks of one call that go to this peer. A group stays together; one that
//! would not fit into a message is cut by the caller before.
//!
//! A group that must not wait for others, nor they for it, is not pushed: it [leaves alone](Batcher::alone), in a message
//! of its own, and only its items are counted here.
//!
//! Bounds: a message has at most so many items and bytes; all groups that are gathered or under way, those that went alone
//! among them, have at most `waiting_max` items, and what comes beyond is handed back at once.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use crate::time::Instant;

/// How batches are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// The longest a group waits for others. Default 500 us.
    pub window: Duration,
    /// The most items in a message. Default 1 000, which is also what any peer accepts.
    pub items_max: usize,
    /// The most bytes in a message, as the groups are measured. Default 1 MiB less some room for the frame.
    pub bytes_max: usize,
    /// The most items that wait or are under way. Default 200 000.
    pub waiting_max: usize,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            window: Duration::from_micros(500),
            items_max: 1_000,
            bytes_max: 1_024 * 1_024 - 4_096,
            waiting_max: 200_000,
        }
    }
}

/// How large a group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Checks.
    pub items: usize,
    /// Of the message they make.
    pub bytes: usize,
}

/// What to do after a group was pushed.
#[derive(Debug, PartialEq, Eq)]
pub enum Pushed<T> {
    /// Send these batches, in this order. The group may be in the last of them, or wait.
    Send([Option<Vec<T>>; 2], Option<Instant>),
    /// There is no room: here it is back.
    Full(T),
}

/// See [the module](self).
#[derive(Debug)]
pub struct Batcher<T> {
    settings: BatchSettings,
    gathered: Vec<T>,
    size: Size,
    /// When the gathered groups leave at the latest.
    deadline: Option<Instant>,
    /// Batches under way.
    under_way: usize,
    /// Items gathered or under way.
    waiting: usize,
}

impl<T> Batcher<T> {
    /// Nothing gathered, nothing under way.
    pub fn new(settings: BatchSettings) -> Self {
        let settings = BatchSettings { items_max: settings.items_max.max(1), ..settings };
        Self {
            settings,
            gathered: Vec::new(),
            size: Size::default(),
            deadline: None,
            under_way: 0,
            waiting: 0,
        }
    }

    /// A group wants to travel. With what is to be sent comes the moment at which
    /// [`handle_timeout`](Self::handle_timeout) is wanted, if this push is what made it necessary.
    pub fn push(&mut self, group: T, size: Size, now: Instant) -> Pushed<T> {
        if self.waiting.saturating_add(size.items) > self.settings.waiting_max {
            return Pushed::Full(group);
        }
        self.waiting += size.items;
        let fits = self.size.items + size.items <= self.settings.items_max
            && self.size.bytes + size.bytes <= self.settings.bytes_max;
        let full = if fits { None } else { self.take() };
        self.gathered.push(group);
        self.size.items += size.items;
        self.size.bytes += size.bytes;
        if self.under_way == 0 || self.size.items >= self.settings.items_max {
            return Pushed::Send([full, self.take()], None);
        }
        let armed = self.deadline.is_none().then(|| now.saturating_add(self.settings.window));
        self.deadline = self.deadline.or(armed);
        Pushed::Send([full, None], armed)
    }

    /// A batch of so many items is over, answered or not. What is gathered follows it.
    pub fn finished(&mut self, items: usize) -> Option<Vec<T>> {
        debug_assert!(self.under_way > 0 && self.waiting >= items, "a batch ends once");
        self.under_way = self.under_way.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(items);
        self.take()
    }

    /// So many items want to leave at once, in a message of their own. Whether there is room for them; if so,
    /// [`alone_finished`](Self::alone_finished) is due when they are answered or not.
    #[must_use]
    pub fn alone(&mut self, items: usize) -> bool {
        let waiting = self.waiting.saturating_add(items);
        let fits = waiting <= self.settings.waiting_max;
        if fits {
            self.waiting = waiting;
        }
        fits
    }

    /// So many items that left alone are over. What is gathered did not wait for them.
    pub fn alone_finished(&mut self, items: usize) {
        debug_assert!(self.waiting >= self.size.items + items, "what left alone ends once");
        self.waiting = self.waiting.saturating_sub(items);
    }

    /// Sends what is gathered if its window is over. A call that comes too early, or twice, does nothing.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Vec<T>> {
        if self.deadline.is_some_and(|deadline| deadline <= now) { self.take() } else { None }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// Items gathered or under way.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Items gathered.
    pub const fn gathered(&self) -> usize {
        self.size.items
    }

    /// Takes back what is gathered, for a peer that is no more.
    pub fn close(&mut self) -> Vec<T> {
        self.waiting -= self.size.items;
        (self.size, self.deadline) = (Size::default(), None);
        mem::take(&mut self.gathered)
    }

    fn take(&mut self) -> Option<Vec<T>> {
        if self.gathered.is_empty() {
            return None;
        }
        self.under_way += 1;
        (self.size, self.deadline) = (Size::default(), None);
        Some(mem::take(&mut self.gathered))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const ONE: Size = Size { items: 1, bytes: 10 };

    fn at(us: u64) -> Instant {
        Instant(us * 1_000)
    }

    fn batcher() -> Batcher<u32> {
        Batcher::new(BatchSettings {
            items_max: 3,
            bytes_max: 100,
            waiting_max: 8,
            ..BatchSettings::default()
        })
    }

    fn sent(batch: Vec<u32>) -> Pushed<u32> {
        Pushed::Send([None, Some(batch)], None)
    }

    #[test]
    fn the_first_leaves_at_once_and_the_next_gather() {
        let mut batcher = batcher();
        assert_eq!(batcher.push(1, ONE, at(0)), sent(vec![1]));
        assert_eq!(batcher.push(2, ONE, at(10)), Pushed::Send([None, None], Some(at(510))));
        assert_eq!(batcher.push(3, ONE, at(20)), Pushed::Send([None, None], None));
        assert_eq!(batcher.finished(1), Some(vec![2, 3]));
        assert_eq!(batcher.poll_timeout(), None);
        assert_eq!(batcher.finished(2), None);
        assert_eq!(batcher.waiting(), 0);
        assert_eq!(batcher.push(4, ONE, at(30)), sent(vec![4]));
    }

    #[test]
    fn the_window_ends_the_wait() {
        let mut batcher = batcher();
        batcher.push(1, ONE, at(0));
        batcher.push(2, ONE, at(10));
        assert_eq!(batcher.handle_timeout(at(509)), None);
        assert_eq!(batcher.handle_timeout(at(510)), Some(vec![2]));
        assert_eq!(batcher.handle_timeout(at(900)), None);
    }

    #[test]
    fn a_full_message_leaves() {
        let mut batcher = batcher();
        batcher.push(1, ONE, at(0));
        batcher.push(2, ONE, at(0));
        let two = Size { items: 2, bytes: 10 };
        assert_eq!(batcher.push(3, two, at(0)), sent(vec![2, 3]));
        // Too many items for one message, then too many bytes.
        batcher.push(4, two, at(0));
        let full = batcher.push(5, two, at(0));
        assert_eq!(full, Pushed::Send([Some(vec![4]), None], Some(at(500))));
        assert_eq!(batcher.gathered(), 2);
    }

    #[test]
    fn bytes_bound_a_message_too() {
        let mut batcher = batcher();
        batcher.push(1, ONE, at(0));
        let large = Size { items: 1, bytes: 60 };
        batcher.push(2, large, at(0));
        assert_eq!(batcher.push(3, large, at(1)), Pushed::Send([Some(vec![2]), None], Some(at(501))));
    }

    #[test]
    fn what_finds_no_room_comes_back() {
        let mut batcher = batcher();
        let three = Size { items: 3, bytes: 0 };
        for group in 0..2 {
            assert_eq!(batcher.push(group, three, at(0)), sent(vec![group]));
        }
        assert_eq!(batcher.push(2, three, at(0)), Pushed::Full(2));
        assert_eq!(batcher.waiting(), 6);
        batcher.finished(3);
        assert_eq!(batcher.push(2, three, at(0)), sent(vec![2]));
    }

    #[test]
    fn who_leaves_alone_is_counted_and_holds_nobody_up() {
        let mut batcher = batcher();
        assert!(batcher.alone(7));
        // Nothing is under way that a batch would have to wait for.
        assert_eq!(batcher.push(1, ONE, at(0)), sent(vec![1]));
        assert!(!batcher.alone(1), "eight wait already");
        assert_eq!(batcher.push(2, ONE, at(0)), Pushed::Full(2));
        batcher.alone_finished(7);
        assert_eq!(batcher.waiting(), 1);
        assert!(!batcher.alone(usize::MAX) && batcher.alone(7));
    }

    #[test]
    fn closing_hands_back_what_waits() {
        let mut batcher = batcher();
        batcher.push(1, ONE, at(0));
        batcher.push(2, ONE, at(0));
        assert_eq!(batcher.close(), [2]);
        assert_eq!((batcher.waiting(), batcher.poll_timeout()), (1, None));
        assert_eq!(batcher.finished(1), None);
    }
}
