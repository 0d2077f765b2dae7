//! The JSON form of the API: one request in, four kinds of body out.
//!
//! The rules are those of the gRPC gateway in front of Gubernator, which are the rules of protobuf's JSON mapping
//! as its Go library reads them. They are stricter than common JSON libraries in some places (a field given twice
//! is an error) and laxer in others (`"10.0"` is a whole number, what follows the first value is not looked at), so
//! the mapping is spelled out here over serde_json's tokens instead of derived.

mod decode;
mod encode;
mod number;

pub(crate) use decode::{Decoded, decode};
pub use decode::{JsonError, decode_request};
pub(crate) use encode::{error_body, health_body, rate_limits_body};
