//! What each call asks: which keys, in which bytes.
//!
//! The generator shares its machine with the node it measures, so a call has to cost next to nothing. All
//! items of a run are equal but for the digits of their keys, and those have a fixed width. So a call's body is
//! encoded once, with the positions of the digits noted, and a call is a copy of it with the digits patched:
//! no encoder runs and no list of keys is kept, however many there are.
//!
//! Which keys call number *n* asks for depends on the seed and on *n* alone, not on who sends it when. Two runs
//! with one seed ask the same questions in the same order.

use bytes::{BufMut as _, Bytes, BytesMut};
use flyball_proto::pb;
use prost::Message as _;
use rand::distr::{Distribution as _, Uniform};
use rand::{RngCore as _, SeedableRng as _};
use rand_distr::Zipf;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::wire::Protocol;

/// How keys are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// One after the other, from the first again after the last.
    Sequential,
    /// At random, with this Zipf exponent: the key of rank *r* is asked for in proportion to `1 / r^skew`. 0
    /// makes all keys alike.
    Random {
        /// The exponent, not negative.
        skew: f64,
    },
}

/// The digits of the largest key, hence the shortest width.
pub(crate) fn digits(keys: u64) -> usize {
    keys.saturating_sub(1).checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// All questions of a run.
#[derive(Debug)]
pub(crate) struct Questions {
    protocol: Protocol,
    template: Template,
    picker: Picker,
    keys: u64,
    seed: u64,
}

impl Questions {
    /// Calls of `batch` items like `item` (its `unique_key` is replaced), over `keys` keys of `width` digits.
    ///
    /// # Errors
    /// A skew that is no number of 0 or more.
    pub(crate) fn new(
        protocol: Protocol,
        item: &pb::RateLimitReq,
        batch: usize,
        (keys, width): (u64, usize),
        order: Order,
        seed: u64,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            protocol,
            template: Template::new(protocol, item, batch, width.max(digits(keys))),
            picker: Picker::new(keys, order)?,
            keys,
            // Neighbouring seeds must not ask the same questions one call apart.
            seed: Xoshiro256PlusPlus::seed_from_u64(seed).next_u64(),
        })
    }

    /// The body of call number `call`.
    pub(crate) fn body(&self, call: u64) -> Bytes {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(call));
        let mut next = call.wrapping_mul(self.template.slots.len() as u64) % self.keys;
        self.template.fill(|| match &self.picker {
            Picker::Sequential => {
                let key = next;
                next = (next + 1) % self.keys;
                key
            }
            Picker::Uniform(uniform) => uniform.sample(&mut random),
            Picker::Zipf(zipf) => (zipf.sample(&mut random) as u64).clamp(1, self.keys) - 1,
        })
    }

    /// The body of a call that asks nothing.
    pub(crate) fn none(&self) -> Bytes {
        match self.protocol {
            Protocol::Grpc => Bytes::from_static(&[0; 5]),
            Protocol::Http => Bytes::from_static(b"{\"requests\":[]}"),
        }
    }

    /// Items in a call.
    pub(crate) fn batch(&self) -> usize {
        self.template.slots.len()
    }
}

#[derive(Debug)]
enum Picker {
    Sequential,
    Uniform(Uniform<u64>),
    Zipf(Zipf<f64>),
}

impl Picker {
    fn new(keys: u64, order: Order) -> anyhow::Result<Self> {
        Ok(match order {
            Order::Sequential => Self::Sequential,
            Order::Random { skew: 0.0 } => Self::Uniform(Uniform::new(0, keys)?),
            Order::Random { skew } => Self::Zipf(Zipf::new(keys as f64, skew)?),
        })
    }
}

/// An encoded call, and where the digits of its keys are.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    /// Offset of each key, in the order of the items.
    slots: Vec<usize>,
    width: usize,
}

impl Template {
    /// Finds the keys by encoding the call twice, with different digits: whatever differs is a key.
    fn new(protocol: Protocol, item: &pb::RateLimitReq, batch: usize, width: usize) -> Self {
        let encode = |digit: &str| {
            let item = pb::RateLimitReq { unique_key: digit.repeat(width), ..item.clone() };
            match protocol {
                Protocol::Grpc => frame(&pb::GetRateLimitsReq { requests: vec![item; batch] }),
                Protocol::Http => json(&item, batch),
            }
        };
        let (bytes, other) = (encode("0"), encode("1"));
        let mut slots = Vec::with_capacity(batch);
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == other[at] {
                at += 1;
            } else {
                slots.push(at);
                at += width;
            }
        }
        Self { bytes, slots, width }
    }

    /// A copy with these keys.
    fn fill(&self, mut key: impl FnMut() -> u64) -> Bytes {
        let mut body = BytesMut::from(self.bytes.as_slice());
        for &slot in &self.slots {
            let mut key = key();
            for digit in body[slot..slot + self.width].iter_mut().rev() {
                *digit = b'0' + (key % 10) as u8;
                key /= 10;
            }
        }
        body.freeze()
    }
}

/// A message in gRPC's frame: no compression, length, bytes.
fn frame(message: &pb::GetRateLimitsReq) -> Vec<u8> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(length + 5);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    bytes.extend(message.encode_to_vec());
    bytes
}

/// The same question as an HTTP client asks it: only what is not the default.
fn json(item: &pb::RateLimitReq, batch: usize) -> Vec<u8> {
    let mut fields = serde_json::json!({ "name": item.name, "unique_key": item.unique_key });
    for (name, value) in [
        ("hits", item.hits),
        ("limit", item.limit),
        ("duration", item.duration),
        ("algorithm", item.algorithm.into()),
        ("behavior", item.behavior.into()),
        ("burst", item.burst),
        ("max_wait", item.max_wait),
    ] {
        if value != 0 {
            fields[name] = value.into();
        }
    }
    serde_json::json!({ "requests": vec![fields; batch] }).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> pb::RateLimitReq {
        // A name full of the digits that stand in for keys, to fool a search.
        pb::RateLimitReq {
            name: "0000011111".to_owned(),
            hits: 1,
            limit: 100,
            duration: 111,
            ..Default::default()
        }
    }

    fn questions(protocol: Protocol, batch: usize, keys: u64, order: Order) -> Questions {
        Questions::new(protocol, &item(), batch, (keys, 8), order, 7).unwrap()
    }

    fn keys_of(body: &Bytes) -> Vec<u64> {
        let call = pb::GetRateLimitsReq::decode(&body[5..]).unwrap();
        call.requests.iter().map(|item| item.unique_key.parse().unwrap()).collect()
    }

    #[test]
    fn a_patched_body_is_what_the_encoder_would_have_written() {
        let questions = questions(Protocol::Grpc, 3, 1_000, Order::Sequential);
        let expected = ["00000003", "00000004", "00000005"]
            .map(|key| pb::RateLimitReq { unique_key: key.to_owned(), ..item() });
        assert_eq!(questions.body(1), frame(&pb::GetRateLimitsReq { requests: expected.to_vec() }));
    }

    #[test]
    fn json_bodies_ask_the_same() {
        let questions = questions(Protocol::Http, 2, 1_000, Order::Sequential);
        let body: serde_json::Value = serde_json::from_slice(&questions.body(0)).unwrap();
        let item = |key| {
            serde_json::json!({
                "name": "0000011111", "unique_key": key, "hits": 1, "limit": 100, "duration": 111
            })
        };
        assert_eq!(body, serde_json::json!({ "requests": [item("00000000"), item("00000001")] }));
    }

    #[test]
    fn a_sequence_visits_every_key_and_starts_again() {
        let questions = questions(Protocol::Grpc, 3, 5, Order::Sequential);
        let seen: Vec<u64> = (0..5).flat_map(|call| keys_of(&questions.body(call))).collect();
        assert_eq!(seen, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_seed_repeats_its_questions_and_another_asks_others() {
        let new = |seed| {
            let order = Order::Random { skew: 1.1 };
            Questions::new(Protocol::Grpc, &item(), 100, (1 << 20, 8), order, seed).unwrap()
        };
        assert_eq!(new(1).body(5), new(1).body(5));
        assert_ne!(new(1).body(5), new(1).body(6));
        assert_ne!(new(1).body(5), new(2).body(5));
        assert_ne!(new(1).body(6), new(2).body(5));
    }

    /// Shares of the keys over 200 000 draws.
    fn shares(keys: u64, skew: f64) -> Vec<f64> {
        let questions = questions(Protocol::Grpc, 1_000, keys, Order::Random { skew });
        let mut counts = vec![0_u32; usize::try_from(keys).unwrap()];
        for call in 0..200 {
            for key in keys_of(&questions.body(call)) {
                counts[usize::try_from(key).unwrap()] += 1;
            }
        }
        counts.into_iter().map(|count| f64::from(count) / 200_000.0).collect()
    }

    #[test]
    fn zipf_favours_keys_by_their_rank() {
        for skew in [0.5, 1.0, 1.5] {
            let weights: Vec<f64> = (1..=50).map(|rank| f64::from(rank).powf(-skew)).collect();
            let total: f64 = weights.iter().sum();
            for (rank, (share, weight)) in shares(50, skew).iter().zip(&weights).enumerate() {
                let expected = weight / total;
                // Six standard deviations of a count of 200 000 draws.
                let tolerance = 6.0 * (expected / 200_000.0).sqrt();
                assert!(
                    (share - expected).abs() < tolerance,
                    "skew {skew} rank {rank}: {share} not {expected}"
                );
            }
        }
    }

    #[test]
    fn no_skew_makes_all_keys_alike() {
        for share in shares(50, 0.0) {
            assert!((share - 0.02).abs() < 0.002, "{share}");
        }
    }

    #[test]
    fn one_key_is_enough() {
        for skew in [0.0, 1.0] {
            assert_eq!(keys_of(&questions(Protocol::Grpc, 2, 1, Order::Random { skew }).body(9)), [0, 0]);
        }
        assert_eq!((digits(1), digits(10), digits(11), digits(u64::MAX)), (1, 1, 2, 20));
    }
}
