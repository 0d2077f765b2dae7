//! A client's call in a cluster: items that this node owns, copies that it keeps, and everything that belongs to others.
//!
//! Each item is routed once, by the view the call began with. Those of one peer are encoded into one group as they are
//! found; the groups leave first, so that the node does its own part while they are under way. Then the answers are
//! awaited and put into the places of their items.
//!
//! An item that certainly did not reach its owner is routed again if the view has changed meanwhile (its owner may have
//! left, or be this node), and once if the owner is back. Otherwise, and for one that may have been counted, there is the
//! [fallback](crate::fallback).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::BytesMut;
use flyball_core::cluster::{Failure, REROUTES_MAX, Replica, Route, route};
use flyball_core::{Behavior, Source, Timestamp};
use flyball_proto::answers::{Answers, OwnerId};
use flyball_proto::convert::{self, Judge};
use flyball_proto::pb;
use prost::encoding::message;
use tokio::sync::oneshot;

use crate::call::{Call, CallContext};
use crate::error::CallError;
use crate::judge::{DEADLINE_EVERY, Judged, refusal, too_late};
use crate::membership::Cluster;
use crate::metrics::counters::{ErrorKind, Tally};
use crate::peers::group::{ForwardError, Reply};
use crate::peers::peer::Peer;
use crate::service::Inner;
use crate::trace::ForwardSpan;

/// Items for one peer. Those that want to go alone share a message with each other, but with no other call's items.
struct Outgoing<'a> {
    peer: &'a Arc<Peer>,
    items: Vec<u32>,
    encoded: BytesMut,
    alone: bool,
    /// As the items, or none.
    spans: Vec<ForwardSpan>,
}

/// Items that were handed to a peer.
struct Sent<'a> {
    peer: &'a Arc<Peer>,
    items: Vec<u32>,
    spans: Vec<ForwardSpan>,
    answer: Result<oneshot::Receiver<Reply>, ForwardError>,
}

/// An item its owner did not get, and why.
struct Missed {
    index: u32,
    owner: String,
    text: String,
    failure: Failure,
}

/// What one pass over items found.
#[derive(Default)]
struct Routed<'a> {
    own: Vec<u32>,
    /// With the owner's index in the view.
    replicas: Vec<(u32, u32)>,
    groups: Vec<Outgoing<'a>>,
}

/// One call on its way.
struct Walk<'a> {
    context: &'a CallContext,
    now: Timestamp,
    tally: Tally,
    answers: Answers,
}

impl Inner {
    /// All items of a client's call, on a node that is not alone, or in which something has to be refused before the owner
    /// sees it.
    pub(crate) async fn items_of_many(
        &self,
        mut cluster: Arc<Cluster>,
        items: &mut [pb::RateLimitReq],
        context: &CallContext,
        call: &mut Call<'_>,
    ) -> Answers {
        let mut walk = Walk {
            context,
            now: self.clock.now(),
            tally: Tally::default(),
            answers: Answers::blank(items.len()),
        };
        let mut todo: Vec<u32> = (0..items.len() as u32).collect();
        for round in 0..=REROUTES_MAX {
            let missed = self.pass(&cluster, items, &todo, &mut walk, call).await;
            if missed.is_empty() {
                break;
            }
            let newer = self.cluster.load_full();
            let changed = round < REROUTES_MAX && newer.view.epoch() != cluster.view.epoch();
            // An owner that came back meanwhile is asked, not stood in for.
            let is_back = |missed: &Missed| {
                round == 0
                    && missed.failure == Failure::NotSent
                    && newer.at(&missed.owner).is_some_and(|peer| peer.is_up())
            };
            todo = Vec::new();
            for missed in missed {
                if missed.failure.is_without_trace() && (changed || is_back(&missed)) {
                    todo.push(missed.index);
                } else {
                    self.fall_back(&cluster, items, &missed, &mut walk);
                }
            }
            if todo.is_empty() {
                break;
            }
            cluster = newer;
        }
        if let Some(span) = &mut call.span {
            for answer in walk.answers.items().iter().filter(|answer| !answer.error.is_empty()) {
                span.item_failed(&answer.error);
            }
        }
        self.metrics.slot().add(&walk.tally);
        walk.answers
    }

    /// Routes these items and sees them through. What did not reach its owner comes back.
    async fn pass(
        &self,
        cluster: &Cluster,
        items: &mut [pb::RateLimitReq],
        todo: &[u32],
        walk: &mut Walk<'_>,
        call: &Call<'_>,
    ) -> Vec<Missed> {
        let Routed { own, replicas, groups } = self.route(cluster, items, todo, walk, call);
        let sent: Vec<Sent<'_>> = groups
            .into_iter()
            .map(|Outgoing { peer, items, encoded, alone, spans }| {
                let answer = peer.forward(encoded, items.len(), alone);
                Sent { peer, items, spans, answer }
            })
            .collect();
        self.answer_own(items, &own, walk, call);
        self.answer_replicas(cluster, items, &replicas, walk, call);
        let mut missed = Vec::new();
        for sent in sent {
            self.collect(sent, items, walk, &mut missed).await;
        }
        missed
    }

    /// Finds out what belongs where, and encodes what is for others.
    fn route<'c>(
        &self,
        cluster: &'c Cluster,
        items: &mut [pb::RateLimitReq],
        todo: &[u32],
        walk: &mut Walk<'_>,
        call: &Call<'_>,
    ) -> Routed<'c> {
        let mut routed = Routed::default();
        for (place, &index) in todo.iter().enumerate() {
            if place > 0 && place.is_multiple_of(DEADLINE_EVERY) && walk.context.is_late() {
                for &index in &todo[place..] {
                    walk.answers.put(index as usize, too_late(&mut walk.tally));
                }
                break;
            }
            let item = &mut items[index as usize];
            let request = convert::request(item);
            let metadata = convert::metadata_size(item);
            let screened = self.rules.screen(&request, Source::Client).and_then(|behavior| {
                self.rules.screen_metadata(metadata.0, metadata.1)?;
                Ok(behavior)
            });
            let behavior = match screened {
                Ok(behavior) => behavior,
                Err(error) => {
                    walk.tally.error(error.into());
                    let answer = convert::answer(&Err(error), request.key, Judge::Owner);
                    walk.answers.put(index as usize, answer);
                    continue;
                }
            };
            match route(&cluster.view, request.key, behavior) {
                Route::Own => routed.own.push(index),
                Route::Replica(owner) => routed.replicas.push((index, owner as u32)),
                Route::Forward(owner) => match cluster.peer(owner) {
                    Some(peer) => self.prepare(&mut routed.groups, peer, index, item, walk, call),
                    // Unreached: a peer that is not this node has an entry.
                    None => routed.own.push(index),
                },
                Route::Nobody => {
                    walk.tally.error(ErrorKind::GetPeer);
                    let text = format!(
                        "Error in GetPeer, looking up peer that owns rate limit '{}': Error in \
                         conf.LocalPicker.Get: unable to pick a peer; pool is empty",
                        request.key
                    );
                    walk.answers.put(index as usize, convert::item_error(text));
                }
            }
        }
        routed
    }

    /// Adds an item to its peer's group.
    fn prepare<'c>(
        &self,
        groups: &mut Vec<Outgoing<'c>>,
        peer: &'c Arc<Peer>,
        index: u32,
        item: &mut pb::RateLimitReq,
        walk: &mut Walk<'_>,
        call: &Call<'_>,
    ) {
        let settings = &self.shared.settings;
        let (created_at, clamped) = self.rules.date(item.created_at, Source::Client, walk.now);
        item.created_at = Some(created_at.ms());
        walk.tally.clamped += u64::from(clamped);
        walk.tally.forwarded += 1;
        if item.max_wait > 0 {
            item.behavior = Behavior(item.behavior).with(Behavior::NO_BATCHING).0;
        }
        let alone = !settings.batching || Behavior(item.behavior).has(Behavior::NO_BATCHING);
        let span = match (&self.tracing, &call.span) {
            (Some(tracing), Some(server)) => tracing.forward(server, item, alone),
            _ => None,
        };
        let bytes = message::encoded_len(1, item);
        let fits = |group: &Outgoing<'_>| {
            Arc::ptr_eq(group.peer, peer)
                && group.alone == alone
                && group.items.len() < settings.batch.items_max
                && group.encoded.len() + bytes <= settings.batch.bytes_max
        };
        let group = match groups.iter().rposition(fits) {
            Some(at) => &mut groups[at],
            None => {
                let (items, encoded, spans) = (Vec::new(), BytesMut::new(), Vec::new());
                groups.push(Outgoing { peer, items, encoded, alone, spans });
                groups.last_mut().expect("pushed just now")
            }
        };
        group.items.push(index);
        group.spans.extend(span);
        message::encode(1, item, &mut group.encoded);
    }

    fn answer_own(&self, items: &[pb::RateLimitReq], own: &[u32], walk: &mut Walk<'_>, call: &Call<'_>) {
        let item = |place: usize| &items[own[place] as usize];
        let source = Source::Client;
        let judged = Judged { source, now: walk.now, tally: &mut walk.tally, times: None };
        let answers = self.judge_all(own.len(), item, judged, walk.context, call);
        for (place, answer) in answers.iter().enumerate() {
            let answer = match answer {
                Some(answer) => convert::answer(answer, convert::request(item(place)).key, source),
                None => too_late(&mut walk.tally),
            };
            walk.answers.put(own[place] as usize, answer);
        }
    }

    fn answer_replicas(
        &self,
        cluster: &Cluster,
        items: &[pb::RateLimitReq],
        replicas: &[(u32, u32)],
        walk: &mut Walk<'_>,
        call: &Call<'_>,
    ) {
        if replicas.is_empty() {
            return;
        }
        let request = |place: usize| convert::request(&items[replicas[place].0 as usize]);
        let owner = |place: usize| cluster.view.local()[replicas[place].1 as usize].grpc_address.as_str();
        let mut answers = vec![None; replicas.len()];
        let _spans: Vec<_> = match &self.tracing {
            Some(tracing) => (0..replicas.len())
                .filter_map(|at| tracing.replica(call.span.as_ref(), &request(at)))
                .collect(),
            None => Vec::new(),
        };
        let mut due = false;
        {
            let mut hits = self.globals.hits();
            let mut replica =
                Replica { rules: &self.rules, hits: &mut hits, wall: walk.now, now: self.shared.now() };
            self.store.visit(
                replicas.len(),
                |place| request(place).key,
                |place, mut bucket| {
                    let replied = replica.apply(&mut bucket, &request(place), owner(place));
                    due |= replied.due;
                    walk.tally.clamped += u64::from(replied.clamped);
                    answers[place] = Some(replied.answer);
                    ControlFlow::Continue(())
                },
            );
        }
        if due {
            self.globals.wake.notify_one();
        }
        let refused =
            answers.iter().enumerate().filter_map(|(place, answer)| refusal(&request(place), answer));
        self.metrics.top_refused().refused(walk.now, refused);
        let mut owners: Vec<Option<OwnerId>> = vec![None; cluster.view.local().len()];
        for (&(index, owner), answer) in replicas.iter().zip(&answers) {
            let Some(answer) = answer else { continue };
            match answer {
                Ok(_) => walk.tally.replica += 1,
                Err(error) => walk.tally.error((*error).into()),
            }
            let key = convert::request(&items[index as usize]).key;
            let told = convert::answer(answer, key, Judge::Replica);
            match cluster.peer(owner as usize) {
                Some(peer) if !answer.is_err_and(|error| error.is_validation()) => {
                    let id = owners[owner as usize].get_or_insert_with(|| walk.answers.owner(peer.owner()));
                    walk.answers.put_of(index as usize, told, *id);
                }
                _ => walk.answers.put(index as usize, told),
            }
        }
    }

    /// Waits for the answers of one group and puts them into their places.
    async fn collect(
        &self,
        sent: Sent<'_>,
        items: &[pb::RateLimitReq],
        walk: &mut Walk<'_>,
        missed: &mut Vec<Missed>,
    ) {
        let Sent { peer, items: indices, spans, answer } = sent;
        let reply = match answer {
            Ok(receiver) => match walk.context.deadline {
                None => receiver.await,
                Some(deadline) => match tokio::time::timeout_at(deadline, receiver).await {
                    Ok(reply) => reply,
                    Err(_) => {
                        let text = CallError::DeadlineExceeded.to_string();
                        spans.into_iter().for_each(|span| span.failed(&text));
                        for index in indices {
                            walk.tally.error(ErrorKind::TimeoutForwarding);
                            let key = convert::request(&items[index as usize]).key;
                            let text = format!(
                                "caller gave up on rate limit '{key}': {}",
                                CallError::DeadlineExceeded
                            );
                            // The owner may have refused it: nothing that a late reader could take for a grant.
                            walk.answers.put(index as usize, self.fallback.refusal(text));
                        }
                        return;
                    }
                },
            },
            Err(error) => Ok(Err(Arc::new(error))),
        };
        // A task that was dropped with its runtime answers nobody.
        let reply = reply.unwrap_or_else(|_| {
            let text = "Error in getPeerRateLimitsBatch: the node is stopping".to_owned();
            Err(Arc::new(ForwardError { failure: Failure::Unanswered, text }))
        });
        match reply {
            Ok(answers) => {
                let owner = walk.answers.owner(peer.owner());
                for (index, answer) in indices.into_iter().zip(answers) {
                    walk.answers.put_of(index as usize, answer, owner);
                }
            }
            Err(error) => {
                spans.into_iter().for_each(|span| span.failed(&error.text));
                missed.extend(indices.into_iter().map(|index| Missed {
                    index,
                    owner: peer.address().to_owned(),
                    text: error.text.clone(),
                    failure: error.failure,
                }));
            }
        }
    }

    fn fall_back(&self, cluster: &Cluster, items: &[pb::RateLimitReq], missed: &Missed, walk: &mut Walk<'_>) {
        let request = convert::request(&items[missed.index as usize]);
        let error = format!("while fetching rate limit '{}' from peer: {}", request.key, missed.text);
        if let Some(peer) = cluster.at(&missed.owner) {
            peer.counts.fallbacks.fetch_add(1, Relaxed);
        }
        walk.tally.fallback += 1;
        let nodes = cluster.view.local().len();
        let answer = self.fallback.answer(nodes, &request, error, walk.now);
        walk.answers.put(missed.index as usize, answer);
    }
}
