//! Any bytes as the JSON body of a call: no panic, bounded memory, errors that can be shown. And what was
//! understood, written as plain JSON, is understood the same way again.
#![no_main]

use flyball::{ITEMS_MAX, Semantics, pb};
use flyball_server::http::json::decode_request;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|body: &[u8]| {
    for semantics in [Semantics::Exact, Semantics::Gubernator] {
        match decode_request(body, semantics) {
            Ok(call) => {
                // One more than allowed is kept, so that the call can be refused for it.
                assert!(call.requests.len() <= ITEMS_MAX + 1);
                let again = decode_request(json(&call).to_string().as_bytes(), semantics);
                assert_eq!(again.as_ref(), Ok(&call));
            }
            Err(error) => {
                let text = error.to_string();
                assert!(!text.is_empty() && text.len() < 2_000, "{} bytes of error: {text}", text.len());
            }
        }
    }
});

/// Numbers of 64 bits as text and enums by number: the forms that can say everything.
fn json(call: &pb::GetRateLimitsReq) -> Value {
    let items = call.requests.iter().map(|item| {
        json!({
            "name": item.name,
            "unique_key": item.unique_key,
            "hits": item.hits.to_string(),
            "limit": item.limit.to_string(),
            "duration": item.duration.to_string(),
            "algorithm": item.algorithm,
            "behavior": item.behavior,
            "burst": item.burst.to_string(),
            "metadata": item.metadata,
            "created_at": item.created_at.map(|at| at.to_string()),
            "max_wait": item.max_wait.to_string(),
        })
    });
    json!({ "requests": items.collect::<Vec<_>>() })
}
