//! Bodies as protobuf's JSON mapping writes them for the gateway: proto names, every field present, 64-bit integers
//! as strings, enums by name, no blank and no line end.
//!
//! Written by hand into one buffer: the messages are few, their shape never changes, and a batch answer is the
//! hottest thing this server produces. Only the escaping of strings is left to serde_json, whose rule is the same
//! as the original's: `"`, `\` and control characters below U+0020, nothing else.

use std::io::Write;

use bytes::Bytes;
use flyball::pb;
use tonic::Code;

/// A guess at the bytes of one answer without error and metadata; growing past it costs a copy, nothing else.
const ANSWER_BYTES: usize = 160;

/// The body of a good answer to `/v1/GetRateLimits`.
pub(crate) fn rate_limits_body(response: &pb::GetRateLimitsResp) -> Bytes {
    let mut out = Vec::with_capacity(20 + ANSWER_BYTES * response.responses.len());
    out.extend_from_slice(br#"{"responses":["#);
    for (index, answer) in response.responses.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        rate_limit(&mut out, answer);
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// The body of a good answer to `/v1/HealthCheck`.
pub(crate) fn health_body(response: &pb::HealthCheckResp) -> Bytes {
    let mut out = Vec::with_capacity(160 + 80 * (response.local_peers.len() + response.region_peers.len()));
    out.extend_from_slice(br#"{"status":"#);
    string(&mut out, &response.status);
    out.extend_from_slice(br#","message":"#);
    string(&mut out, &response.message);
    out.extend_from_slice(br#","peer_count":"#);
    integer(&mut out, i64::from(response.peer_count));
    out.extend_from_slice(br#","advertise_address":"#);
    string(&mut out, &response.advertise_address);
    out.extend_from_slice(br#","local_peers":["#);
    peers(&mut out, &response.local_peers);
    out.extend_from_slice(br#"],"region_peers":["#);
    peers(&mut out, &response.region_peers);
    out.extend_from_slice(b"]}");
    out.into()
}

/// The body of every refused call.
pub(crate) fn error_body(code: Code, message: &str) -> Bytes {
    let mut out = Vec::with_capacity(48 + message.len());
    out.extend_from_slice(br#"{"code":"#);
    integer(&mut out, code as i64);
    out.extend_from_slice(br#","message":"#);
    string(&mut out, message);
    out.extend_from_slice(br#","details":[]}"#);
    out.into()
}

fn rate_limit(out: &mut Vec<u8>, answer: &pb::RateLimitResp) {
    out.extend_from_slice(br#"{"status":"#);
    match pb::Status::try_from(answer.status) {
        Ok(status) => string(out, status.as_str_name()),
        Err(_) => integer(out, i64::from(answer.status)),
    }
    out.extend_from_slice(br#","limit":""#);
    integer(out, answer.limit);
    out.extend_from_slice(br#"","remaining":""#);
    integer(out, answer.remaining);
    out.extend_from_slice(br#"","reset_time":""#);
    integer(out, answer.reset_time);
    out.extend_from_slice(br#"","error":"#);
    string(out, &answer.error);
    out.extend_from_slice(br#","metadata":{"#);
    // A BTreeMap: already sorted.
    for (index, (key, value)) in answer.metadata.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        string(out, key);
        out.push(b':');
        string(out, value);
    }
    out.extend_from_slice(br#"},"retry_after":""#);
    integer(out, answer.retry_after);
    out.extend_from_slice(br#""}"#);
}

fn peers(out: &mut Vec<u8>, peers: &[pb::PeerHealthResp]) {
    for (index, peer) in peers.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"grpc_address":"#);
        string(out, &peer.grpc_address);
        out.extend_from_slice(br#","data_center":"#);
        string(out, &peer.data_center);
        out.push(b'}');
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string always has a JSON form, and a Vec takes every write");
}

fn integer(out: &mut Vec<u8>, number: i64) {
    write!(out, "{number}").expect("a Vec takes every write");
}

#[cfg(test)]
mod tests {
    use flyball::pb;
    use proptest::prelude::*;
    use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};

    use super::*;

    fn answer() -> pb::RateLimitResp {
        pb::RateLimitResp { limit: 10, remaining: 9, reset_time: 1_796_062_823_245, ..Default::default() }
    }

    #[test]
    fn golden_answers() {
        let scheduled = pb::RateLimitResp {
            status: pb::Status::Scheduled.into(),
            remaining: 0,
            reset_time: 1_796_062_829_252,
            retry_after: 6_000,
            ..answer()
        };
        assert_eq!(
            rate_limits_body(&pb::GetRateLimitsResp { responses: vec![answer()] }),
            r#"{"responses":[{"status":"UNDER_LIMIT","limit":"10","remaining":"9","reset_time":"1796062823245","error":"","metadata":{},"retry_after":"0"}]}"#
        );
        assert_eq!(
            rate_limits_body(&pb::GetRateLimitsResp { responses: vec![scheduled] }),
            r#"{"responses":[{"status":"SCHEDULED","limit":"10","remaining":"0","reset_time":"1796062829252","error":"","metadata":{},"retry_after":"6000"}]}"#
        );
        assert_eq!(rate_limits_body(&pb::GetRateLimitsResp::default()), r#"{"responses":[]}"#);
    }

    #[test]
    fn golden_health() {
        let address = String::from("127.0.0.1:31001");
        let health = pb::HealthCheckResp {
            status: "healthy".into(),
            peer_count: 1,
            advertise_address: address.clone(),
            local_peers: vec![pb::PeerHealthResp { grpc_address: address, ..Default::default() }],
            ..Default::default()
        };
        assert_eq!(
            health_body(&health),
            r#"{"status":"healthy","message":"","peer_count":1,"advertise_address":"127.0.0.1:31001","local_peers":[{"grpc_address":"127.0.0.1:31001","data_center":""}],"region_peers":[]}"#
        );
    }

    #[test]
    fn strings_are_escaped_minimally() {
        let text = "\0\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/<>&'`\u{7f}\u{85}\u{2028}\u{fffd}é\u{1f511}";
        assert_eq!(
            error_body(Code::InvalidArgument, text),
            "{\"code\":3,\"message\":\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\\\"\\\\/<>&'`\u{7f}\u{85}\u{2028}\u{fffd}é\u{1f511}\",\"details\":[]}"
        );
    }

    /// The same message through the reflective JSON mapping of another library.
    fn by_reflection(name: &str, message: &impl prost::Message) -> serde_json::Value {
        let pool = DescriptorPool::decode(flyball_proto::FILE_DESCRIPTOR_SET).unwrap();
        let descriptor = pool.get_message_by_name(name).unwrap();
        let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).unwrap();
        let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(false);
        dynamic.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
    }

    fn answers() -> impl Strategy<Value = pb::RateLimitResp> {
        let integers = (-1..6, any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>());
        let texts = (any::<String>(), prop::collection::btree_map(any::<String>(), any::<String>(), 0..4));
        (integers, texts).prop_map(
            |((status, limit, remaining, reset_time, retry_after), (error, metadata))| pb::RateLimitResp {
                status,
                limit,
                remaining,
                reset_time,
                error,
                metadata,
                retry_after,
            },
        )
    }

    proptest! {
        #[test]
        fn answers_equal_the_reflective_mapping(responses in prop::collection::vec(answers(), 0..4)) {
            let message = pb::GetRateLimitsResp { responses };
            let ours: serde_json::Value = serde_json::from_slice(&rate_limits_body(&message)).unwrap();
            prop_assert_eq!(ours, by_reflection("pb.gubernator.GetRateLimitsResp", &message));
        }

        #[test]
        fn health_equals_the_reflective_mapping(
            status: String,
            message: String,
            advertise_address: String,
            peer_count: i32,
            peers in prop::collection::vec(any::<(String, String)>(), 0..4),
        ) {
            let peers: Vec<_> = peers
                .into_iter()
                .map(|(grpc_address, data_center)| pb::PeerHealthResp { grpc_address, data_center })
                .collect();
            let health = pb::HealthCheckResp {
                status, message, peer_count, advertise_address, local_peers: peers.clone(), region_peers: peers,
            };
            let ours: serde_json::Value = serde_json::from_slice(&health_body(&health)).unwrap();
            prop_assert_eq!(ours, by_reflection("pb.gubernator.HealthCheckResp", &health));
        }
    }
}
