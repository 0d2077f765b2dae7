//! What others say: of others, and of this node.

use flyball_core::time::Instant;
use rand::Rng;

use super::member::Member;
use super::suspicion::Suspicion;
use super::{Event, MEMBERS_MAX, Swim};
use crate::gossip::codec::message::{Alive, Claim, Message, Record, State, Versions};
use crate::gossip::meta;

impl Swim {
    /// Somebody is there.
    pub(super) fn alive(&mut self, alive: Alive, now: Instant) {
        if !alive.versions.are_valid() {
            return;
        }
        if alive.node == self.me.name {
            return self.alive_me(&alive);
        }
        let before = match self.members.get(&alive.node) {
            None if self.members.len() >= MEMBERS_MAX => return self.event(Event::Full { node: alive.node }),
            None => None,
            // Only who has left may come back from elsewhere. Of the dead one cannot know that they are.
            Some(known) if known.address != alive.address && known.state != State::Left => {
                let (known, claimed) = (known.address, alive.address);
                return self.event(Event::Conflict { node: alive.node, known, claimed });
            }
            Some(known) if known.address == alive.address && alive.incarnation <= known.incarnation => {
                return self.complete(alive);
            }
            Some(known) => Some(known.clone()),
        };
        let news = Message::Alive(alive.clone()).encode();
        let Alive { incarnation, node, address, meta, versions } = alive;
        self.news.push(&node, news);
        self.suspicions.remove(&node);
        let was_there = before.as_ref().is_some_and(Member::is_there);
        let says_the_same = before.as_ref().is_some_and(|before| before.meta == meta);
        let since =
            before.as_ref().filter(|before| before.state == State::Alive).map_or(now, |before| before.since);
        let is_new = before.is_none();
        let mut peer = before.and_then(|before| before.peer);
        if !(was_there && says_the_same) {
            match meta::read(&meta) {
                Ok(read) => peer = Some(read),
                // One that was there stays the peer it was; one that comes is none until it says which (D12).
                Err(why) => {
                    peer = peer.filter(|_| was_there);
                    self.event(Event::BadMeta { node: node.clone(), why });
                }
            }
            self.changed = true;
            self.event(match was_there {
                true => Event::Updated { node: node.clone() },
                false => Event::Joined { node: node.clone(), address },
            });
        }
        let member = Member { address, meta, versions, incarnation, state: State::Alive, since, peer };
        self.members.insert(node.clone(), member);
        if is_new {
            let place = self.rng.random_range(0..=self.order.len());
            self.order.insert(place, node);
        }
    }

    /// No news of a member; but who of us said nothing of itself may have said more to others. The original's first
    /// announcement goes round without its metadata, and the same incarnation with them: whoever hears the empty one first
    /// would have to wait until the node itself hears of it and speaks up, which with lost packets can take minutes.
    fn complete(&mut self, alive: Alive) {
        let Some(member) = self.members.get_mut(&alive.node) else { return };
        if member.peer.is_some() || !member.is_there() || alive.incarnation != member.incarnation {
            return;
        }
        let Ok(peer) = meta::read(&alive.meta) else { return };
        member.peer = Some(peer);
        member.meta.clone_from(&alive.meta);
        self.changed = true;
        self.event(Event::Updated { node: alive.node.clone() });
        self.news.push(&alive.node.clone(), Message::Alive(alive).encode());
    }

    /// Somebody says that this node is there, and how. Who says it wrong, or of a later life than this, is told.
    fn alive_me(&mut self, alive: &Alive) {
        if self.farewell.is_some() {
            return;
        }
        if alive.address != self.me.address {
            let (known, claimed) = (self.me.address, alive.address);
            return self.event(Event::Conflict { node: alive.node.clone(), known, claimed });
        }
        let is_mine = alive.meta == self.me.meta && alive.versions == Versions::OURS;
        if alive.incarnation > self.incarnation || (alive.incarnation == self.incarnation && !is_mine) {
            self.refute(alive.incarnation);
        }
    }

    /// Somebody got no answer from somebody.
    pub(super) fn suspect(&mut self, claim: &Claim, now: Instant) {
        if claim.node == self.me.name {
            return self.accused(claim);
        }
        let size = self.size();
        let Some(member) = self.members.get_mut(&claim.node) else { return };
        if claim.incarnation < member.incarnation {
            return;
        }
        match member.state {
            State::Suspect => {
                let suspicion = self.suspicions.get_mut(&claim.node);
                if suspicion.is_some_and(|suspicion| suspicion.confirm(&claim.from)) {
                    self.news.push(&claim.node, Message::Suspect(claim.clone()).encode());
                }
            }
            State::Alive => {
                member.incarnation = claim.incarnation;
                member.state = State::Suspect;
                member.since = now;
                let least = self.timing.suspicion(size);
                let most = least * self.timing.suspicion_max_mult;
                let wanted = self.timing.confirmations(size);
                let suspicion = Suspicion::new(now, least, most, wanted, &claim.from);
                self.suspicions.insert(claim.node.clone(), suspicion);
                self.news.push(&claim.node, Message::Suspect(claim.clone()).encode());
                self.event(Event::Suspected { node: claim.node.clone(), by: claim.from.clone() });
            }
            State::Dead | State::Left => {}
        }
    }

    /// Somebody is gone.
    pub(super) fn dead(&mut self, claim: &Claim, now: Instant) {
        if claim.node == self.me.name {
            return self.accused(claim);
        }
        let Some(member) = self.members.get_mut(&claim.node) else { return };
        if claim.incarnation < member.incarnation || !member.is_there() {
            return;
        }
        let left = claim.from == claim.node;
        member.incarnation = claim.incarnation;
        member.state = if left { State::Left } else { State::Dead };
        member.since = now;
        self.suspicions.remove(&claim.node);
        self.news.push(&claim.node, Message::Dead(claim.clone()).encode());
        self.changed = true;
        let node = claim.node.clone();
        self.event(if left { Event::Left { node } } else { Event::Died { node } });
    }

    /// This node is said not to be there. Unless it is about to go, it says otherwise.
    fn accused(&mut self, claim: &Claim) {
        if self.farewell.is_none() && claim.incarnation >= self.incarnation {
            self.refute(claim.incarnation);
        }
    }

    /// Says of itself what is true, in an incarnation above that of whoever was wrong.
    fn refute(&mut self, wrong: u32) {
        self.incarnation = wrong.max(self.incarnation).saturating_add(1);
        self.worsen(1);
        self.tell_of_me();
        self.event(Event::Refuted);
    }

    /// Whose time to defend itself is over.
    pub(super) fn end_suspicions(&mut self, now: Instant) {
        let over = self.suspicions.iter().filter(|(_, suspicion)| suspicion.deadline() <= now);
        let over: Vec<_> = over.map(|(node, _)| node.clone()).collect();
        for node in over {
            self.suspicions.remove(&node);
            let Some(member) = self.members.get(&node) else { continue };
            let claim = Claim { incarnation: member.incarnation, node, from: self.me.name.clone() };
            self.dead(&claim, now);
        }
    }

    /// Everything that another node knows.
    ///
    /// # Errors
    /// Somebody speaks a version that somebody else does not: then nothing counts.
    pub(crate) fn handle_state(&mut self, records: Vec<Record>, now: Instant) -> Result<(), String> {
        self.wake(now);
        self.versions_agree(&records)?;
        for record in records {
            let Record { name, address, meta, incarnation, state, versions } = record;
            match state {
                State::Alive => {
                    self.alive(Alive { incarnation, node: name, address, meta, versions }, now);
                }
                State::Left => {
                    self.dead(&Claim { incarnation, from: name.clone(), node: name }, now);
                }
                // The dead are only suspected: they get the time to say that they are not.
                State::Dead | State::Suspect => {
                    let from = self.me.name.clone();
                    self.suspect(&Claim { incarnation, node: name, from }, now);
                }
            }
        }
        Ok(())
    }

    /// Whether everybody's current version is one that all understand.
    fn versions_agree(&self, records: &[Record]) -> Result<(), String> {
        let theirs = records.iter().filter(|record| record.state == State::Alive);
        let theirs = theirs.map(|record| (record.name.as_str(), record.versions));
        let ours = self.members.iter().filter(|(_, member)| member.state == State::Alive);
        let ours = ours.map(|(name, member)| (name.as_str(), member.versions));
        let all: Vec<_> = theirs.chain(ours).chain([(self.me.name.as_str(), Versions::OURS)]).collect();
        // Those of the protocol and those of its users.
        for at in [0, 3] {
            let least = all.iter().map(|(_, versions)| versions.0[at]).max().unwrap_or_default();
            let most = all.iter().map(|(_, versions)| versions.0[at + 1]).min().unwrap_or_default();
            let odd = all.iter().find(|(_, versions)| !(least..=most).contains(&versions.0[at + 2]));
            if let Some((node, versions)) = odd {
                let current = versions.0[at + 2];
                return Err(format!(
                    "node {} speaks version {current} of the protocol, and others {least} to {most}",
                    crate::address::quoted(node)
                ));
            }
        }
        Ok(())
    }
}
