//! GLOBAL checks: copies that answer, hits for their owners, news from owners.

use std::ops::ControlFlow;

use super::*;

impl Node {
    pub(super) fn apply_replica(&mut self, item: &Item, owner: usize, now: Now, out: &mut Vec<Effect>) {
        let owner = &self.view.local()[owner].grpc_address;
        let request = item.asked.request();
        let stats = self.hits.stats();
        let mut replica =
            Replica { rules: &self.settings.rules, hits: &mut self.hits, wall: now.wall, now: now.instant };
        let mut answer = None;
        self.store.visit(
            1,
            |_| request.key,
            |_, mut bucket| {
                answer = Some(replica.apply(&mut bucket, &request, owner).answer);
                ControlFlow::Continue(())
            },
        );
        if let Some(Ok(decision)) = answer {
            let told_anyway = [Behavior::DRAIN_OVER_LIMIT, Behavior::RESET_REMAINING];
            let granted = decision.status != Status::OverLimit;
            if request.hits != 0 && (granted || told_anyway.iter().any(|flag| request.behavior.has(*flag))) {
                out.push(Effect::Note(Note::Recorded(item.asked.key.clone(), request.hits)));
            }
            let given_up = stats.lost + stats.ended + stats.dropped;
            out.push(Effect::Note(Note::OnCopy(item.asked.clone(), decision, given_up)));
        }
        tell(item, Via::Replica, answer, out);
    }

    pub(super) fn news(
        &mut self,
        from: NodeId,
        lines: &[Line],
        stamp: Option<Stamp>,
        applied: Option<Stamp>,
        now: Now,
    ) {
        let owner = address(from);
        if let Some(stamp) = stamp {
            let seen = self.news_senders.begin(&owner, stamp);
            if seen == Seen::Before && !self.fault(Fault::StaleBroadcast) {
                return;
            }
            self.news_senders.applied(&owner, stamp);
            self.hits.spoke(&owner, stamp.session);
        }
        // What it says of an earlier run of this node is about other numbers.
        let applied = match (stamp, applied) {
            (Some(_), Some(applied)) if applied.session == self.session => Some(applied.sequence),
            (Some(_), _) => Some(0),
            (None, _) => None,
        };
        for line in lines {
            let key = line.dirty.key.as_key();
            let mine = self.view.owner(key) == Member::Own && !self.view.is_alone();
            if mine && !self.fault(Fault::OwnOverwritten) {
                continue;
            }
            let joined = key.to_string();
            // An original tells no more.
            let key = if stamp.is_some() { StoredKey::Pair(key) } else { StoredKey::Joined(&joined) };
            // Its token bucket without a window is what a reset left: none.
            let bucket = line.bucket.filter(|bucket| stamp.is_some() || bucket.expire_at != 0);
            let none = GlobalHits::new(self.settings.hits);
            let hits = if self.fault(Fault::NotSubtracted) { &none } else { &self.hits };
            take_news(&self.store, hits, ToldNews { owner: &owner, key, bucket, applied }, now.wall);
        }
        if let Some(applied) = applied {
            self.hits.confirmed(&owner, applied);
        }
    }

    pub(super) fn send_hits(&mut self, batch: HitsBatch, now: Now, out: &mut Vec<Effect>) {
        let HitsBatch { owner, sequence, items } = batch;
        let peer =
            node_at(&owner).filter(|peer| self.links.get(peer).is_some_and(|link| link.health.is_up()));
        let Some(peer) = peer else {
            self.hits_failed(&owner, sequence, Failure::NotSent, now, out);
            return;
        };
        let items = items.iter().map(|(key, sent)| Item {
            check: None,
            asked: Asked::from(sent.request(key)),
            hops: 0,
        });
        let number = if self.fault(Fault::Renumbered) {
            self.renumbered += 1;
            self.renumbered
        } else {
            sequence
        };
        let stamp = Stamp { session: self.session, sequence: number };
        self.call(peer, Body::Checks(items.collect(), Some(stamp)), Call::Hits { owner, sequence }, out);
    }

    pub(super) fn hits_failed(
        &mut self,
        owner: &str,
        sequence: u64,
        failure: Failure,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        if self.fault(Fault::LostHits) {
            self.hits.succeeded(owner, sequence, Some(0), now.instant);
        } else if self.hits.failed(owner, sequence, failure, now.instant) {
            self.rehome(now, out);
        }
    }

    pub(super) fn rehome(&mut self, now: Now, out: &mut Vec<Effect>) {
        let own: Vec<(OwnedKey, SentHits)> = self.hits.rehome(&self.view, now.instant);
        for parts in own.chunk_by(|a, b| a.0 == b.0) {
            let taken = has_taken(&self.store, parts[0].0.as_key(), now.wall);
            for (key, sent) in parts {
                let asked = Asked::from(sent.request(key));
                if taken {
                    if let Ok(admitted) = self.settings.rules.admit(&asked.request(), Source::Peer, now.wall)
                    {
                        self.broadcast.mark(&admitted.check, now.instant);
                    }
                    out.push(Effect::Note(Note::TakenOver(key.clone(), sent.hits)));
                } else {
                    self.apply(&Item { check: None, asked, hops: 0 }, Origin::Rehomed, now, out);
                }
            }
        }
    }

    pub(super) fn tell(&mut self, broadcast: Broadcast, now: Now, out: &mut Vec<Effect>) {
        let mut lines = Vec::new();
        for dirty in broadcast.keys {
            if self.view.owner(dirty.key.as_key()) != Member::Own {
                // Its owner now is another, and tells how it stands there.
                continue;
            }
            if self.fault(Fault::ResetInRead)
                && let Ok(admitted) = self.settings.rules.admit(&dirty.look(), Source::Peer, now.wall)
            {
                let _ = self.store.apply(&admitted.check, now.wall, &self.settings.rules, Role::Replica);
            }
            if let Some(news) = news_of(&self.store, &dirty, &self.settings.rules, now.wall) {
                lines.push(Line { dirty, bucket: news.bucket, status: news.status });
            }
        }
        for (peer, sequence) in broadcast.peers {
            if lines.is_empty() {
                self.broadcast.succeeded(&peer, sequence, now.instant);
                continue;
            }
            let up =
                node_at(&peer).filter(|peer| self.links.get(peer).is_some_and(|link| link.health.is_up()));
            let Some(to) = up else {
                self.broadcast.failed(&peer, sequence, now.instant);
                continue;
            };
            let stamp = Stamp { session: self.session, sequence };
            let applied = self.hit_senders.mark(&peer).map(|(stamp, _)| stamp);
            self.call(
                to,
                Body::News(lines.clone(), Some(stamp), applied),
                Call::News { peer, sequence },
                out,
            );
        }
    }
}
