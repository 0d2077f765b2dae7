use flyball::Semantics::{self, Exact, Gubernator};
use flyball::pb;
use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};
use serde_json::Value;

use super::{ITEMS_KEPT, decode, decode_request};

fn refusal(body: impl AsRef<[u8]>, semantics: Semantics) -> String {
    let body = body.as_ref();
    match decode_request(body, semantics) {
        Err(error) => error.to_string(),
        Ok(request) => panic!("{} was accepted as {request:?}", String::from_utf8_lossy(body)),
    }
}

fn accepted(body: impl AsRef<[u8]>, semantics: Semantics) -> pb::GetRateLimitsReq {
    let body = body.as_ref();
    decode_request(body, semantics)
        .unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(body)))
}

/// The only item of a request with these members.
fn item(members: &str, semantics: Semantics) -> pb::RateLimitReq {
    let mut request = accepted(format!(r#"{{"requests":[{{{members}}}]}}"#), semantics);
    assert_eq!(request.requests.len(), 1);
    request.requests.remove(0)
}

fn item_refusal(members: &str, semantics: Semantics) -> String {
    refusal(format!(r#"{{"requests":[{{{members}}}]}}"#), semantics)
}

#[test]
fn errors_read_as_the_original_words_them() {
    for (body, text) in [
        (r#"{"requests":"#, "unexpected EOF"),
        (r#"""#, "unexpected EOF"),
        ("[", "unexpected EOF"),
        ("t", "unexpected EOF"),
        ("[]", "proto: syntax error (line 1:1): unexpected token ["),
        ("null", "proto: syntax error (line 1:1): unexpected token null"),
        (" \n -1.5e3", "proto: syntax error (line 1:1): unexpected token -1.5e3"),
        (r#"{"requests":{}}"#, "proto: syntax error (line 1:13): unexpected token {"),
        (r#"{"requests":"x"}"#, r#"proto: syntax error (line 1:13): unexpected token "x""#),
        (r#"{"requests":[{},null]}"#, "proto: syntax error (line 1:17): unexpected token null"),
        (r#"{"requests":[{"name":1}]}"#, "proto: (line 1:22): invalid value for string field name: 1"),
        (
            r#"{"requests":[{"unique_key":1.5}]}"#,
            "proto: (line 1:28): invalid value for string field uniqueKey: 1.5",
        ),
        (
            r#"{"requests":[{"hits":" 1"}]}"#,
            r#"proto: (line 1:22): invalid value for int64 field hits: " 1""#,
        ),
        (r#"{"requests":[{"hits":{}}]}"#, "proto: (line 1:22): invalid value for int64 field hits: {"),
        (
            r#"{"requests":[{"maxWait":1e400}]}"#,
            "proto: (line 1:25): invalid value for int64 field maxWait: 1e400",
        ),
        (
            r#"{"requests":[{"algorithm":2147483648}]}"#,
            "proto: (line 1:27): invalid value for enum field algorithm: 2147483648",
        ),
        (r#"{"requests":[],"requests":[]}"#, r#"proto: (line 1:16): duplicate field "requests""#),
        (
            r#"{"requests":[{"unique_key":"a","uniqueKey":"b"}]}"#,
            r#"proto: (line 1:32): duplicate field "uniqueKey""#,
        ),
        (r#"{"requests":[{"metadata":{"a":"1","a":2}}]}"#, r#"proto: (line 1:35): duplicate map key "a""#),
        (
            r#"{"requests":[{"metadata":{"a":null}}]}"#,
            "proto: (line 1:31): invalid value for string field value: null",
        ),
        (r#"{"requests":[{"metadata":[]}]}"#, "proto: syntax error (line 1:26): unexpected token ["),
        ("{\n\n\n\"requests\": 5}", "proto: syntax error (line 4:13): unexpected token 5"),
        (r#"{"zz":"é","requests":5}"#, "proto: syntax error (line 1:22): unexpected token 5"),
    ] {
        for semantics in [Exact, Gubernator] {
            assert_eq!(refusal(body, semantics), text, "{body}");
        }
    }
    assert_eq!(
        refusal(b"{\"requests\":[{\"name\":\"\xff\"}]}", Exact),
        "proto: syntax error (line 1:22): invalid UTF-8 in string"
    );
}

#[test]
fn errors_show_no_more_than_the_start_of_a_long_value() {
    let text = item_refusal(&format!(r#""hits":"{}é""#, "é".repeat(1_000_000)), Exact);
    assert!(text.len() < 400 && text.ends_with('…'), "{text}");
}

#[test]
fn a_body_is_its_first_value() {
    for body in ["", " \r\n\t", "{}", r#"{"requests":null}"#, "{}]]]", r#"{"requests":[]} {"requests":5}"#] {
        assert_eq!(accepted(body, Exact), pb::GetRateLimitsReq::default(), "{body}");
    }
    assert_eq!(accepted(b"{}\xff", Exact), pb::GetRateLimitsReq::default());
    for body in [b"\xff".as_slice(), b" \xff{}", b"{\xff}", "\u{feff}{}".as_bytes(), b"\x1f\x8b\x08\x00"] {
        refusal(body, Exact);
    }
}

#[test]
fn both_names_of_a_field_and_no_other() {
    let both = [
        r#""name":"n","unique_key":"k","created_at":0,"max_wait":7"#,
        r#""n\u0061me":"n","uniqueKey":"k","createdAt":"0","maxWait":7"#,
    ];
    let expected = pb::RateLimitReq {
        name: "n".into(),
        unique_key: "k".into(),
        created_at: Some(0),
        max_wait: 7,
        ..Default::default()
    };
    for members in both {
        assert_eq!(item(members, Gubernator), expected);
    }
    let others =
        r#""Name":"n","UNIQUE_KEY":1,"uniquekey":[],"Unique_Key":{},"max-wait":true,"retry_after":5,"":0"#;
    assert_eq!(item(others, Exact), pb::RateLimitReq::default());
}

#[test]
fn null_is_absent_but_counts_as_given() {
    let members =
        r#""name":null,"hits":null,"algorithm":null,"behavior":null,"metadata":null,"created_at":null"#;
    assert_eq!(item(members, Exact), pb::RateLimitReq::default());
    assert_eq!(
        item_refusal(r#""hits":null,"hits":1"#, Exact),
        r#"proto: (line 1:27): duplicate field "hits""#
    );
}

#[test]
fn unknown_fields_are_passed_over_at_any_depth() {
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(accepted(deep, Exact), pb::GetRateLimitsReq::default());
    let members = r#""zzz":1,"zzz":{"name":[1,2,{"a":null}]},"@type":"x","hits":3"#;
    assert_eq!(item(members, Exact), pb::RateLimitReq { hits: 3, ..Default::default() });
}

#[test]
fn strings_are_text_everywhere() {
    assert_eq!(item(r#""name":"\ud83d\udd11\n\/""#, Exact).name, "\u{1f511}\n/");
    for bad in [r"\ud800", r"\udc00\ud800", r"\ud800\u0041", r"\\\ud800", r"\udc00", r"\ud83d\ud83d\udd11"] {
        for members in [
            format!(r#""name":"{bad}""#),
            format!(r#""metadata":{{"{bad}":""}}"#),
            format!(r#""other":[{{"a":"{bad}"}}]"#),
            format!(r#""other":[{{"{bad}":1}}]"#),
            format!(r#""{bad}":1"#),
            format!(r#""hits":"{bad}""#),
        ] {
            let text = item_refusal(&members, Gubernator);
            assert!(text.contains("surrogate without its pair in"), "{text}");
        }
    }
    for fine in [r"\\ud800", r"\ud83d\udd11", r"\u0041\\", r#"\"\\\\\u00e9"#] {
        item(&format!(r#""other":["{fine}"]"#), Gubernator);
    }
    for bad in ["\n", "\t", "\u{0}", r"\x", r"\u12"] {
        item_refusal(&format!(r#""other":"{bad}""#), Exact);
    }
}

#[test]
fn quoted_numbers_end_where_the_original_stops_reading() {
    for (members, hits) in [(r#""hits":"1,000""#, 1), (r#""hits":"12]x""#, 12), (r#""hits":"1.0e1 2""#, 10)] {
        assert_eq!(item(members, Gubernator).hits, hits, "{members}");
        item_refusal(members, Exact);
    }
    for members in [r#""hits":"1,000 ""#, r#""hits":",1""#, r#""hits":"1_000""#, r#""hits":"1\u00a0""#] {
        item_refusal(members, Gubernator);
    }
}

#[test]
fn enums_are_names_or_numbers() {
    for semantics in [Exact, Gubernator] {
        for (value, number) in
            [("1", 1), ("1.0", 1), ("12", 12), ("-1", -1), (r#""LEAKY_BUCKET""#, 1), ("2147483647", i32::MAX)]
        {
            assert_eq!(item(&format!(r#""algorithm":{value}"#), semantics).algorithm, number, "{value}");
        }
        for (value, bits) in [(r#""BATCHING""#, 0), (r#""DRAIN_OVER_LIMIT""#, 32), ("42", 42), ("-64", -64)] {
            assert_eq!(item(&format!(r#""behavior":{value}"#), semantics).behavior, bits, "{value}");
        }
        for value in ["1.5", "true", "{}", "4294967296", "-2147483649"] {
            item_refusal(&format!(r#""algorithm":{value}"#), semantics);
            item_refusal(&format!(r#""behavior":{value}"#), semantics);
        }
    }
}

#[test]
fn unknown_enum_names_are_zero_to_the_original_and_wrong_to_us() {
    for value in [r#""leaky""#, r#""1""#, r#""""#] {
        assert_eq!(item(&format!(r#""algorithm":{value}"#), Gubernator).algorithm, 0);
        assert_eq!(item(&format!(r#""behavior":{value}"#), Gubernator).behavior, 0);
        item_refusal(&format!(r#""behavior":{value}"#), Exact);
    }
    assert_eq!(item(r#""behavior":"GLOBAL|RESET_REMAINING""#, Gubernator).behavior, 0);
    assert_eq!(
        item_refusal(r#""algorithm":"leaky""#, Exact),
        r#"proto: (line 1:27): invalid value for enum field algorithm: "leaky"; expected a number, TOKEN_BUCKET or LEAKY_BUCKET"#
    );
}

#[test]
fn exact_behaviors_may_be_joined_or_listed() {
    for (value, bits) in [
        (r#""GLOBAL|RESET_REMAINING""#, 10),
        (r#""GLOBAL | NO_BATCHING""#, 3),
        ("[]", 0),
        (r#"["GLOBAL","DRAIN_OVER_LIMIT"]"#, 34),
        (r#"["GLOBAL|NO_BATCHING",64,"BATCHING"]"#, 67),
    ] {
        assert_eq!(item(&format!(r#""behavior":{value}"#), Exact).behavior, bits, "{value}");
    }
    for value in [r#"["GLOBAL"]"#, "[1]", "[]"] {
        assert_eq!(
            item_refusal(&format!(r#""behavior":{value}"#), Gubernator),
            "proto: (line 1:26): invalid value for enum field behavior: ["
        );
    }
    for value in
        [r#""GLOBAL|""#, r#""GLOBAL,NO_BATCHING""#, "[null]", "[[1]]", r#"["global"]"#, "[1.5]", "[{}]"]
    {
        item_refusal(&format!(r#""behavior":{value}"#), Exact);
    }
    assert!(item_refusal(r#""behavior":["GLOBAL","nope"]"#, Exact).contains(r#"behavior: "nope"; expected"#));
}

#[test]
fn items_beyond_the_limit_are_checked_and_measured_but_not_kept() {
    let key = "k".repeat(100);
    let bodies = |count: usize, last: &str| {
        let items = vec![format!(r#"{{"unique_key":"{key}"}}"#); count].join(",");
        format!(r#"{{"requests":[{items},{last}]}}"#)
    };
    let decoded = decode(bodies(5_000, "{}").as_bytes(), Exact).unwrap();
    assert_eq!(decoded.request.requests.len(), ITEMS_KEPT);
    assert_eq!(decoded.dropped_len, (5_000 - ITEMS_KEPT) * (2 + 2 + key.len()) + 2);
    assert!(refusal(bodies(5_000, r#"{"hits":"x"}"#), Exact).contains("field hits"));
    let whole = bodies(5_000, "{}");
    assert_eq!(refusal(&whole[..whole.len() - 3], Exact), "unexpected EOF");
}

/// Bodies with what the Go libraries of v2.21.0 (protobuf 1.36.11 behind gateway 2.29.0) make of them: the
/// message in hexadecimal digits, or null for a refusal.
#[test]
fn recorded_bodies() {
    let mut count = 0;
    for line in include_str!("recorded.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let body = case["body"].as_str().unwrap();
        let ours = decode_request(body.as_bytes(), Gubernator).ok();
        let theirs = case["message"].as_str().map(|hex| {
            let bytes: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            pb::GetRateLimitsReq::decode(bytes.as_slice()).unwrap()
        });
        assert_eq!(ours, theirs, "{body}");
        count += 1;
    }
    assert!(count > 200, "only {count} cases");
}

fn requests() -> impl Strategy<Value = pb::GetRateLimitsReq> {
    let texts = (
        any::<String>(),
        any::<String>(),
        prop::collection::btree_map(any::<String>(), any::<String>(), 0..3),
    );
    let integers = (any::<i64>(), -3_i64..3, any::<i64>(), any::<i64>(), any::<Option<i64>>(), any::<i64>());
    let enums = (any::<i32>(), 0..70);
    let item = (texts, integers, enums).prop_map(|((name, unique_key, metadata), integers, enums)| {
        let (hits, limit, duration, burst, created_at, max_wait) = integers;
        let (algorithm, behavior) = enums;
        pb::RateLimitReq {
            name,
            unique_key,
            hits,
            limit,
            duration,
            algorithm: algorithm % 3,
            behavior,
            burst,
            metadata,
            created_at,
            max_wait,
        }
    });
    prop::collection::vec(item, 0..5).prop_map(|requests| pb::GetRateLimitsReq { requests })
}

fn pool() -> DescriptorPool {
    DescriptorPool::decode(flyball_proto::FILE_DESCRIPTOR_SET).unwrap()
}

/// The message as another library writes it.
fn written(request: &pb::GetRateLimitsReq, options: &SerializeOptions) -> String {
    let descriptor = pool().get_message_by_name("pb.gubernator.GetRateLimitsReq").unwrap();
    let message = DynamicMessage::decode(descriptor, request.encode_to_vec().as_slice()).unwrap();
    let mut out = Vec::new();
    message.serialize_with_options(&mut serde_json::Serializer::new(&mut out), options).unwrap();
    String::from_utf8(out).unwrap()
}

/// The message as another library reads it.
fn read(body: &str) -> Option<pb::GetRateLimitsReq> {
    let descriptor = pool().get_message_by_name("pb.gubernator.GetRateLimitsReq").unwrap();
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let message = DynamicMessage::deserialize_with_options(descriptor, &mut deserializer, &options).ok()?;
    Some(pb::GetRateLimitsReq::decode(message.encode_to_vec().as_slice()).unwrap())
}

/// Pieces of which requests are made, right and wrong.
fn fragments() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "null",
        "true",
        "1",
        "-",
        ".5",
        "e9",
        "\"hits\":",
        "\"name\":",
        "\"requests\":[",
        "\"metadata\":{",
        "\"behavior\":",
        "\"GLOBAL\"",
        "\"1.0\"",
        "\\ud800",
        "é",
        " ",
        "\n",
        "{}",
    ];
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn reads_what_the_reflective_mapping_writes(request in requests(), proto_names: bool, sparse: bool, text: bool) {
        let options = SerializeOptions::new()
            .use_proto_field_name(proto_names)
            .skip_default_fields(sparse)
            .stringify_64_bit_integers(text);
        let body = written(&request, &options);
        let decoded = decode(body.as_bytes(), Exact).unwrap();
        prop_assert_eq!(&decoded.request, &request);
        prop_assert_eq!(decoded.dropped_len, 0);
        prop_assert_eq!(accepted(body.as_bytes(), Gubernator), request);
    }

    #[test]
    fn reads_what_the_reflective_mapping_reads(request in requests(), keep in prop::collection::vec(any::<bool>(), 11)) {
        // The same members in another order, some of them unknown, over several lines.
        let mut renamed: Value = serde_json::from_str(&written(&request, &SerializeOptions::new())).unwrap();
        for item in renamed.get_mut("requests").and_then(Value::as_array_mut).into_iter().flatten() {
            let members = std::mem::take(item.as_object_mut().unwrap());
            *item = members
                .into_iter()
                .zip(&keep)
                .map(|((name, value), keep)| (if *keep { name } else { format!("x{name}") }, value))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        let body = serde_json::to_string_pretty(&renamed).unwrap();
        prop_assert_eq!(Some(accepted(&body, Exact)), read(&body));
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        let _ = decode_request(&bytes, Exact);
        let _ = decode_request(&bytes, Gubernator);
    }

    #[test]
    fn any_fragments_are_survived(text in fragments()) {
        let exact = decode_request(text.as_bytes(), Exact);
        let gubernator = decode_request(text.as_bytes(), Gubernator);
        // Each semantics accepts some things the other refuses, but what both accept is the same.
        if let (Ok(exact), Ok(gubernator)) = (exact, gubernator) {
            prop_assert_eq!(exact, gubernator);
        }
    }

    #[test]
    fn a_damaged_request_is_survived(
        request in requests(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let mut body = written(&request, &SerializeOptions::new()).into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        for semantics in [Exact, Gubernator] {
            let _ = decode_request(&body, semantics);
            if let Err(error) = decode_request(&body[..cut.index(body.len())], semantics) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
