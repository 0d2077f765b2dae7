//! Protobuf bytes of a call, all the way to a decision and back, twice with a step of time between: nothing
//! panics, and what exact semantics promise of every answer holds.
//!
//! Input: a byte of flags (1 gubernator semantics, 2 sent by a peer, 4 forced GLOBAL), the step of time in
//! milliseconds (eight bytes, little endian), then the message.
#![no_main]

use flyball_core::store::{Role, Store, StoreSettings};
use flyball_core::{Answer, Check, Rules, Semantics, Source, Timestamp};
use flyball_proto::{convert, pb};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

const START: Timestamp = Timestamp(1_800_000_000_000);

fuzz_target!(|data: &[u8]| {
    let Some((head, message)) = data.split_first_chunk::<9>() else { return };
    let [flags, step @ ..] = *head;
    let Ok(call) = pb::GetRateLimitsReq::decode(message) else { return };
    let semantics = if flags & 1 == 0 { Semantics::Exact } else { Semantics::Gubernator };
    let source = if flags & 2 == 0 { Source::Client } else { Source::Peer };
    let rules = Rules { semantics, force_global: flags & 4 != 0, ..Rules::default() };
    let store = Store::new(&StoreSettings { shards: 2, semantics, ..StoreSettings::default() });
    for now in [START, START.saturating_add(i64::from_le_bytes(step))] {
        let mut responses = Vec::new();
        for item in &call.requests {
            let request = convert::request(item);
            let answer: Answer = rules.admit(&request, source, now).and_then(|admitted| {
                let answer = store.apply(&admitted.check, now, &rules, Role::Owner);
                if semantics == Semantics::Exact {
                    promised(&answer, &admitted.check);
                }
                answer
            });
            responses.push(convert::answer(&answer, request.key, source));
        }
        store.sweep(now);
        let told = pb::GetRateLimitsResp { responses };
        let read = pb::GetRateLimitsResp::decode(told.encode_to_vec().as_slice());
        assert_eq!(read.as_ref(), Ok(&told), "an answer that cannot be read");
    }
    assert!(store.stats(START).entries <= call.requests.len() as u64);
});

fn promised(answer: &Answer, check: &Check<'_>) {
    let Ok(decision) = answer else { return };
    let most = check.limit.max(check.burst);
    assert!(
        (0..=most).contains(&decision.remaining),
        "remaining outside 0..={most}: {decision:?} for {check:?}"
    );
    assert_eq!(decision.limit, check.limit);
    assert!(decision.retry_after >= 0, "{decision:?}");
    assert!(decision.plain_retry_after.is_none_or(|wait| wait >= 0), "{decision:?}");
    if check.max_wait == 0 {
        assert_eq!(decision.retry_after, 0, "the field belongs to max_wait: {decision:?}");
    }
}
