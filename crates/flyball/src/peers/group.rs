//! What waits for a batch: groups of checks, encoded when they are gathered, and the way back for their answers.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use flyball_core::cluster::Failure;
use tokio::sync::oneshot;

use crate::pb;

/// All checks of one call that go to one peer, as the fields of a message that is put together later.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) items: usize,
    pub(crate) encoded: BytesMut,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// The answers to a group, in its order.
pub(crate) type Reply = Result<Vec<pb::RateLimitResp>, Arc<ForwardError>>;

/// Why a group has no answers.
#[derive(Debug)]
pub(crate) struct ForwardError {
    pub(crate) failure: Failure,
    /// What follows `while fetching rate limit '…' from peer: `.
    pub(crate) text: String,
}

/// The message of a batch: its groups one behind the other, as protobuf lets fields be joined.
pub(super) fn put_together(groups: &mut [Group]) -> Bytes {
    if let [only] = groups {
        return std::mem::take(&mut only.encoded).freeze();
    }
    let mut message = BytesMut::with_capacity(groups.iter().map(|group| group.encoded.len()).sum());
    for group in groups {
        message.extend_from_slice(&group.encoded);
    }
    message.freeze()
}

/// Gives each group its part of the answers.
pub(super) fn hand_out(mut groups: Vec<Group>, answers: Vec<pb::RateLimitResp>) {
    if groups.len() == 1 {
        if let Some(only) = groups.pop() {
            let _ = only.reply.send(Ok(answers));
        }
        return;
    }
    let mut answers = answers.into_iter();
    for group in groups {
        let _ = group.reply.send(Ok(answers.by_ref().take(group.items).collect()));
    }
}
