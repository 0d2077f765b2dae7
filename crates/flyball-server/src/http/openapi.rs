//! The description of this port, for people and for generators of clients.
//!
//! Written by hand, because half of what is worth saying (which forms of a number are taken, what 429 means) is in no
//! type; held to the truth by tests that compare it with real answers.

/// An OpenAPI 3.1 document of every route.
pub const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
#[path = "openapi_tests.rs"]
mod tests;
