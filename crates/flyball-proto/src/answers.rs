//! The answers of a call in a cluster, and who owns their keys.
//!
//! Every answer for a key of another node names the owner in its metadata. As a map in each message that is three
//! allocations an answer, for one of a few texts. Here the texts stand beside the messages, once per owner and already
//! encoded; an answer has a number. The bytes on the wire are those of
//! [`GetRateLimitsResp`](pb::GetRateLimitsResp) with the entries in the maps.

use std::sync::Arc;

use bytes::{Buf, BufMut};
use prost::encoding::{
    DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, message, string,
};
use prost::{DecodeError, Message};

use crate::pb;

/// Metadata entry of an answer that came from the key's owner: its address.
pub const OWNER: &str = "owner";

/// `GetRateLimitsResp.responses`.
const RESPONSES: u32 = 1;
/// `RateLimitResp.metadata`.
const METADATA: u32 = 6;

/// An owner as answers name it.
#[derive(Debug)]
pub struct Owner {
    address: Box<str>,
    /// The entry of the map with its tag and its length.
    encoded: Box<[u8]>,
}

impl Owner {
    /// By its address.
    pub fn new(address: &str) -> Self {
        let (key, value) = (OWNER.to_owned(), address.to_owned());
        let mut entry = Vec::new();
        string::encode(1, &key, &mut entry);
        string::encode(2, &value, &mut entry);
        let mut encoded = Vec::new();
        encode_key(METADATA, WireType::LengthDelimited, &mut encoded);
        encode_varint(entry.len() as u64, &mut encoded);
        encoded.extend(entry);
        Self { address: address.into(), encoded: encoded.into() }
    }
}

/// A place in the list of owners, plus one; 0 is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerId(u32);

/// Answers in the order of their items.
#[derive(Debug, Default)]
pub struct Answers {
    items: Vec<pb::RateLimitResp>,
    owners: Vec<Arc<Owner>>,
    /// Of each item; shorter than the items as long as nobody further back has an owner.
    of: Vec<OwnerId>,
}

impl From<Vec<pb::RateLimitResp>> for Answers {
    /// Answers of a node that owns all the keys: nobody is named.
    fn from(items: Vec<pb::RateLimitResp>) -> Self {
        Self { items, ..Self::default() }
    }
}

impl Answers {
    /// So many answers to be filled in.
    pub fn blank(count: usize) -> Self {
        Self::from(vec![pb::RateLimitResp::default(); count])
    }

    /// The answers without their owners.
    pub fn items(&self) -> &[pb::RateLimitResp] {
        &self.items
    }

    /// Notes an owner, for [`put_of`](Self::put_of). Once for each is enough, more often is right too.
    pub fn owner(&mut self, owner: &Arc<Owner>) -> OwnerId {
        self.owners.push(Arc::clone(owner));
        OwnerId(self.owners.len() as u32)
    }

    /// Puts an answer into its place. There is one.
    pub fn put(&mut self, index: usize, answer: pb::RateLimitResp) {
        self.items[index] = answer;
        if let Some(owner) = self.of.get_mut(index) {
            *owner = OwnerId::default();
        }
    }

    /// Puts the answer for a key of this owner into its place.
    pub fn put_of(&mut self, index: usize, answer: pb::RateLimitResp, owner: OwnerId) {
        self.items[index] = answer;
        if self.of.len() <= index {
            self.of.resize(self.items.len(), OwnerId::default());
        }
        self.of[index] = owner;
    }

    /// The plain message, with each owner in its answer's metadata.
    pub fn into_message(mut self) -> pb::GetRateLimitsResp {
        let owners = std::mem::take(&mut self.owners);
        for (item, of) in self.items.iter_mut().zip(&self.of) {
            if let Some(owner) = owner(&owners, *of) {
                item.metadata.insert(OWNER.to_owned(), owner.address.to_string());
            }
        }
        pb::GetRateLimitsResp { responses: self.items }
    }

    /// Each answer, with what is encoded behind it.
    fn parts(&self) -> impl Iterator<Item = (&pb::RateLimitResp, &[u8])> {
        self.items.iter().enumerate().map(|(index, item)| {
            let of = self.of.get(index).copied().unwrap_or_default();
            (item, owner(&self.owners, of).map_or(&[][..], |owner| &owner.encoded))
        })
    }
}

fn owner(owners: &[Arc<Owner>], id: OwnerId) -> Option<&Owner> {
    Some(owners.get((id.0 as usize).checked_sub(1)?)?)
}

impl Message for Answers {
    fn encode_raw(&self, out: &mut impl BufMut) {
        for (item, owner) in self.parts() {
            encode_key(RESPONSES, WireType::LengthDelimited, out);
            encode_varint((item.encoded_len() + owner.len()) as u64, out);
            item.encode_raw(out);
            // Last, so that it counts where the map has the entry already.
            out.put_slice(owner);
        }
    }

    fn encoded_len(&self) -> usize {
        let lengths = self.parts().map(|(item, owner)| {
            let length = item.encoded_len() + owner.len();
            // A tag below 16 is one byte.
            1 + encoded_len_varint(length as u64) + length
        });
        lengths.sum()
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            RESPONSES => message::merge_repeated(wire_type, &mut self.items, buf, context),
            _ => prost::encoding::skip_field(wire_type, tag, buf, context),
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn answer() -> impl Strategy<Value = pb::RateLimitResp> {
        let key = prop_oneof![Just("owner".to_owned()), Just("retry_after_ms".to_owned()), "[a-z]{0,3}"];
        let metadata = prop_oneof![3 => Just(Default::default()), 1 => btree_map(key, "[a-z]{0,300}", 0..3)];
        (0..4, any::<i64>(), any::<i64>(), "[a-z]{0,200}", metadata).prop_map(
            |(status, limit, remaining, error, metadata)| pb::RateLimitResp {
                status,
                limit,
                remaining,
                error,
                metadata,
                ..Default::default()
            },
        )
    }

    proptest! {
        #[test]
        fn bytes_are_those_of_the_plain_message(
            items in vec((answer(), option::of(0_usize..4)), 0..20),
            again in vec((0_usize..20, answer(), option::of(0_usize..4)), 0..5),
        ) {
            let owners: Vec<_> = ["", "10.0.0.1:1051", "[::1]:1051", &"x".repeat(300)]
                .into_iter().map(|address| Arc::new(Owner::new(address))).collect();
            let mut answers = Answers::blank(items.len());
            let mut expected = vec![pb::RateLimitResp::default(); items.len()];
            let ids: Vec<_> = owners.iter().map(|owner| answers.owner(owner)).collect();
            let count = items.len();
            let first = items.into_iter().enumerate().map(|(index, (answer, owner))| (index, answer, owner));
            for (index, answer, owner) in first.chain(again).filter(|(index, ..)| *index < count) {
                expected[index] = answer.clone();
                match owner {
                    None => answers.put(index, answer),
                    Some(owner) => {
                        let address = owners[owner].address.to_string();
                        expected[index].metadata.insert(OWNER.to_owned(), address);
                        answers.put_of(index, answer, ids[owner]);
                    }
                }
            }
            let expected = pb::GetRateLimitsResp { responses: expected };
            let bytes = answers.encode_to_vec();
            prop_assert_eq!(bytes.len(), answers.encoded_len());
            prop_assert_eq!(&pb::GetRateLimitsResp::decode(&*bytes).unwrap(), &expected);
            prop_assert_eq!(&Answers::decode(&*bytes).unwrap().into_message(), &expected);
            prop_assert_eq!(answers.into_message(), expected);
        }
    }
}
