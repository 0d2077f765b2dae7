use bytes::Bytes;
use flyball::Node;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::DOCUMENT;
use crate::http::{AdminAccess, HttpOptions, HttpService};

/// Everything is served.
fn options() -> HttpOptions {
    HttpOptions { admin: AdminAccess::Everybody, ..HttpOptions::default() }
}

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

/// Follows a reference within the document.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref") {
        Some(reference) => document.pointer(reference.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

/// Whether a value is what a schema says. Knows the words of JSON Schema that the document uses and no others.
fn fits(document: &Value, schema: &Value, value: &Value) -> bool {
    schema.as_object().unwrap().iter().all(|(word, says)| match word.as_str() {
        "description" => true,
        "$ref" => fits(document, resolved(document, schema), value),
        "type" => match says {
            Value::Array(types) => types.iter().any(|name| is_a(name, value)),
            name => is_a(name, value),
        },
        "const" => value == says,
        "enum" => says.as_array().unwrap().contains(value),
        "anyOf" => says.as_array().unwrap().iter().any(|schema| fits(document, schema, value)),
        "minimum" => value.as_i64() >= says.as_i64(),
        "maximum" => value.as_i64() <= says.as_i64(),
        "pattern" => value.as_str().is_none_or(|text| matches(says.as_str().unwrap(), text)),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= says.as_u64().unwrap()),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(document, says, item))),
        "required" => value.as_object().is_none_or(|members| {
            says.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|members| {
            members
                .iter()
                .all(|(name, value)| says.get(name).is_none_or(|schema| fits(document, schema, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|members| {
            let mut others =
                members.iter().filter(|(name, _)| schema["properties"].get(name.as_str()).is_none());
            match says {
                Value::Bool(allowed) => *allowed || others.next().is_none(),
                says => others.all(|(_, value)| fits(document, says, value)),
            }
        }),
        word => panic!("the schemas use '{word}', which this test cannot judge"),
    })
}

fn is_a(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        name => panic!("no type '{name}'"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^(0|-?[1-9][0-9]*)$" => text.parse::<i64>().is_ok_and(|number| number.to_string() == text),
        "^-?[0-9]" => text.strip_prefix('-').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit()),
        pattern => panic!("the schemas use the pattern {pattern}, which this test cannot judge"),
    }
}

/// Asks a node, and checks that the answer is one the document foresees.
async fn ask(service: &HttpService, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let document = document();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = service.answer(request.body(Full::from(body.to_owned())).unwrap()).await;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let status = head.status.as_u16();

    // A wrong method has no operation of its own: what the path's only operation says about 501 holds.
    let operation = document["paths"][path].as_object().unwrap().values().next().unwrap();
    let foreseen = resolved(&document, &operation["responses"][status.to_string()]);
    let content_type = head.headers["content-type"].to_str().unwrap();
    let content = &foreseen["content"][content_type];
    assert!(content.is_object(), "{method} {path}: {status} {content_type} is not in the document");
    let value = if content_type == "application/json" {
        serde_json::from_slice(&body).unwrap()
    } else {
        Value::from(String::from_utf8(body.into()).unwrap())
    };
    assert!(fits(&document, &content["schema"], &value), "{method} {path}: {value} is not as described");
    status
}

#[tokio::test]
async fn real_answers_are_as_described() {
    let node = Node::builder().build();
    let service = HttpService::new(node.clone(), options());
    let check = r#"{"requests":[{"name":"n","unique_key":"k","hits":1,"limit":1,"duration":60000},{}]}"#;
    let many = format!(r#"{{"requests":[{}{{}}]}}"#, "{},".repeat(1_000));
    let large = format!(r#"{{"requests":[{{"name":"{}"}}]}}"#, "n".repeat(1_100_000));
    let late = [("Grpc-Timeout", "-1S")];
    let malformed = [("Grpc-Timeout", "soon")];
    for (method, path, headers, body, status) in [
        ("POST", "/v1/GetRateLimits", [].as_slice(), check, 200),
        ("POST", "/v1/GetRateLimits", &[], "{", 400),
        ("POST", "/v1/GetRateLimits", &[], &many, 400),
        ("POST", "/v1/GetRateLimits", &[], &large, 429),
        ("POST", "/v1/GetRateLimits", &late, check, 504),
        ("POST", "/v1/GetRateLimits", &malformed, check, 400),
        ("GET", "/v1/GetRateLimits", &[], "", 501),
        ("GET", "/v1/HealthCheck", &[], "", 200),
        ("GET", "/v1/HealthCheck", &malformed, "", 400),
        ("GET", "/v1/HealthCheck", &late, "", 504),
        ("PUT", "/v1/HealthCheck", &[], "", 501),
        ("GET", "/v1/LiveCheck", &[], "", 200),
        ("GET", "/v1/LiveCheck", &malformed, "", 400),
        ("GET", "/v1/LiveCheck", &late, "", 504),
        ("PUT", "/v1/LiveCheck", &[], "", 501),
        ("GET", "/metrics", &[], "", 200),
        ("POST", "/metrics", &[], "", 200),
    ] {
        assert_eq!(ask(&service, method, path, headers, body).await, status, "{method} {path} {headers:?}");
    }
    for path in ["/healthz", "/livez", "/readyz", "/openapi.json"] {
        assert_eq!(ask(&service, "GET", path, &[], "").await, 200);
        assert_eq!(ask(&service, "POST", path, &[], "").await, 501);
    }
    for path in ["", "overview", "peers", "top", "global", "store"] {
        let path = if path.is_empty() { "/".to_owned() } else { format!("/v1/admin/{path}") };
        assert_eq!(ask(&service, "GET", &path, &[], "").await, 200);
        assert_eq!(ask(&service, "POST", &path, &[], "").await, 501);
        let admin = AdminAccess::ThisMachine("".into());
        let strict = HttpService::new(node.clone(), HttpOptions { admin, ..HttpOptions::default() });
        assert_eq!(ask(&strict, "GET", &path, &[], "").await, 403);
        let off = HttpService::new(node.clone(), HttpOptions::default());
        assert_eq!(ask(&off, "GET", &path, &[], "").await, 404);
    }
    node.close().await;
    for path in ["/v1/HealthCheck", "/v1/LiveCheck", "/readyz"] {
        assert_eq!(ask(&service, "GET", path, &[], "").await, 503);
    }
}

#[tokio::test]
async fn every_path_in_it_is_served() {
    let service = HttpService::new(Node::builder().build(), options());
    for (path, item) in document()["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let request = Request::builder().method(&*method.to_uppercase()).uri(path);
            let answer = service.answer(request.body(Full::<Bytes>::default()).unwrap()).await;
            assert_eq!(answer.status(), 200, "{method} {path}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::String(reference) if name == "$ref" => found.push(reference.clone()),
                        value => references(value, found),
                    }
                }
            }
            Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in &found {
        assert!(
            document.pointer(reference.strip_prefix('#').unwrap()).is_some(),
            "{reference} leads nowhere"
        );
    }
    for (kind, components) in document["components"].as_object().unwrap() {
        for name in components.as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(found.contains(&reference), "{reference} is not used");
        }
    }
}

#[test]
fn requests_are_described_as_they_are_read() {
    let document = document();
    let schema = &document["components"]["schemas"]["GetRateLimitsReq"];
    for (body, good) in [
        (json!({}), true),
        (json!({"requests": null}), true),
        (
            json!({"requests": [{"hits": "1", "limit": 1.0, "algorithm": "LEAKY_BUCKET", "behavior": ["GLOBAL", 8]}]}),
            true,
        ),
        (json!({"requests": [{"name": null, "metadata": {"a": "b"}, "other": [[]]}]}), true),
        (json!([]), false),
        (json!({"requests": {}}), false),
        (json!({"requests": [null]}), false),
        (json!({"requests": [{"name": 1}]}), false),
        (json!({"requests": [{"hits": true}]}), false),
        (json!({"requests": [{"hits": ""}]}), false),
        (json!({"requests": [{"algorithm": "leaky"}]}), false),
        (json!({"requests": [{"behavior": [null]}]}), false),
        (json!({"requests": [{"metadata": {"a": 1}}]}), false),
    ] {
        assert_eq!(fits(&document, schema, &body), good, "{body}");
        let read = crate::http::json::decode_request(body.to_string().as_bytes(), flyball::Semantics::Exact);
        assert_eq!(read.is_ok(), good, "{body}");
    }
}
