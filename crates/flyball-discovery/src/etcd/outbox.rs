//! What there is to tell of etcd, so that news and troubles each are told once.
//!
//! A member that is away is none of our troubles as long as another answers, so a side (registering, following) is in
//! trouble when its attempts have failed at all members since one succeeded; and while its first round over the members
//! is not over nothing is told, since what fails next may be the same trouble.

use std::collections::BTreeMap;

use flyball_core::cluster::PeerInfo;

use crate::source::SourceError;

/// News and troubles that wait to be told.
#[derive(Debug)]
pub(super) struct Outbox {
    /// A set that has not been told.
    pub(super) news: Option<Vec<PeerInfo>>,
    /// What is wrong with some of the keys.
    pub(super) faults: String,
    pub(super) registering: Attempts,
    pub(super) following: Attempts,
    /// The set that was told last.
    told: Option<Vec<PeerInfo>>,
    /// The troubles that were told last; empty when they were over.
    told_troubles: String,
}

/// How the tries of one side went.
#[derive(Debug)]
pub(super) struct Attempts {
    /// How many members there are.
    members: usize,
    /// What each member said last to tries that failed, since one did not.
    errors: BTreeMap<usize, String>,
    /// Whether the first round since then is not over.
    may_succeed: bool,
}

impl Attempts {
    fn new(members: usize) -> Self {
        Self { members, errors: BTreeMap::new(), may_succeed: true }
    }

    /// One went well, or none is wanted any more.
    pub(super) fn succeeded(&mut self) {
        self.errors.clear();
        self.may_succeed = false;
    }

    /// One failed at this member.
    pub(super) fn failed(&mut self, member: usize, error: String) {
        self.errors.insert(member, error);
        self.may_succeed &= !self.have_all_failed();
    }

    /// What had been reached is lost, and a new round begins.
    pub(super) fn begins_anew(&mut self) {
        self.may_succeed = true;
    }

    fn have_all_failed(&self) -> bool {
        self.errors.len() >= self.members
    }

    /// What all members said; empty while one of them may still do.
    fn trouble(&self) -> String {
        match self.have_all_failed() {
            false => String::new(),
            true => self.errors.values().cloned().collect::<Vec<_>>().join(", "),
        }
    }
}

impl Outbox {
    pub(super) fn new(members: usize) -> Self {
        Self {
            news: None,
            faults: String::new(),
            registering: Attempts::new(members),
            following: Attempts::new(members),
            told: None,
            told_troubles: String::new(),
        }
    }

    /// What is to be told now, once.
    pub(super) fn take(&mut self) -> Option<Result<Vec<PeerInfo>, SourceError>> {
        if let Some(set) = self.news.take() {
            self.told = Some(set.clone());
            // Whoever hears of a set takes troubles to be over; if they are not they follow.
            self.told_troubles.clear();
            return Some(Ok(set));
        }
        let troubles = self.troubles();
        let settled = !self.registering.may_succeed && !self.following.may_succeed;
        if troubles == self.told_troubles || !(settled || troubles.is_empty()) {
            return None;
        }
        self.told_troubles = troubles;
        match (self.told_troubles.is_empty(), &self.told) {
            (false, _) => Some(Err(SourceError::paced(format!("etcd: {}", self.told_troubles)))),
            (true, Some(set)) => Some(Ok(set.clone())),
            (true, None) => None,
        }
    }

    fn troubles(&self) -> String {
        let (registering, following) = (self.registering.trouble(), self.following.trouble());
        let mut troubles = Vec::new();
        match (registering.is_empty(), following.is_empty()) {
            (true, true) => {}
            (false, false) if registering == following => troubles.push(following),
            (registered, followed) => {
                if !followed {
                    troubles.push(format!("cannot read the peers: {following}"));
                }
                if !registered {
                    troubles.push(format!("cannot register this node: {registering}"));
                }
            }
        }
        if !self.faults.is_empty() {
            troubles.push(format!("left out: {}", self.faults));
        }
        troubles.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(addresses: &[&str]) -> Vec<PeerInfo> {
        addresses.iter().copied().map(PeerInfo::new).collect()
    }

    /// Both sides have done what they should, and nothing is told yet.
    fn outbox(members: usize) -> Outbox {
        let mut outbox = Outbox::new(members);
        outbox.registering.succeeded();
        outbox.following.succeeded();
        outbox
    }

    fn said(answer: Option<Result<Vec<PeerInfo>, SourceError>>) -> String {
        match answer {
            None => "nothing".to_owned(),
            Some(Ok(set)) => format!("{} peers", set.len()),
            Some(Err(error)) => error.message,
        }
    }

    #[test]
    fn a_member_that_is_away_is_no_trouble_while_another_answers() {
        let mut outbox = outbox(2);
        outbox.following.failed(0, "a: refused".to_owned());
        assert_eq!(said(outbox.take()), "nothing");
        outbox.following.failed(1, "b: refused".to_owned());
        assert_eq!(said(outbox.take()), "etcd: cannot read the peers: a: refused, b: refused");
        // Told once, however often it is tried.
        outbox.following.failed(0, "a: refused".to_owned());
        assert_eq!(said(outbox.take()), "nothing");
        // Reading and registering fail for the same reason, which is said once.
        outbox.registering.failed(0, "a: refused".to_owned());
        outbox.registering.failed(1, "b: refused".to_owned());
        assert_eq!(said(outbox.take()), "etcd: a: refused, b: refused");
    }

    #[test]
    fn nothing_is_told_before_all_members_were_tried_by_both_sides() {
        let mut outbox = Outbox::new(2);
        for member in [0, 1] {
            outbox.registering.failed(member, "no leader".to_owned());
        }
        assert_eq!(said(outbox.take()), "nothing");
        outbox.following.failed(0, "no leader".to_owned());
        assert_eq!(said(outbox.take()), "nothing");
        outbox.following.failed(1, "no leader".to_owned());
        assert_eq!(said(outbox.take()), "etcd: no leader, no leader");
    }

    #[test]
    fn a_lease_that_is_lost_is_told_only_when_it_cannot_be_got_anew() {
        let mut outbox = outbox(1);
        outbox.faults = "key 'x' …".to_owned();
        outbox.registering.begins_anew();
        assert_eq!(said(outbox.take()), "nothing");
        outbox.registering.failed(0, "no space".to_owned());
        assert_eq!(said(outbox.take()), "etcd: cannot register this node: no space; left out: key 'x' …");
    }

    #[test]
    fn the_end_of_troubles_is_told_with_the_set_in_force_and_news_do_not_hide_troubles() {
        let mut outbox = outbox(1);
        outbox.news = Some(set(&["a:1"]));
        outbox.registering.failed(0, "a: no space".to_owned());
        assert_eq!(said(outbox.take()), "1 peers");
        assert_eq!(said(outbox.take()), "etcd: cannot register this node: a: no space");
        outbox.news = Some(set(&["a:1", "b:1"]));
        assert_eq!(said(outbox.take()), "2 peers");
        assert_eq!(said(outbox.take()), "etcd: cannot register this node: a: no space");
        outbox.registering.succeeded();
        assert_eq!(said(outbox.take()), "2 peers");
        assert_eq!(said(outbox.take()), "nothing");
        outbox.faults = "key 'x' …".to_owned();
        assert_eq!(said(outbox.take()), "etcd: left out: key 'x' …");
    }
}
