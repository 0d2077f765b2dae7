//! Reads the JSON form of `GetRateLimitsReq`.
//!
//! serde_json knows JSON; the gateway's rules about what a field may hold are ours. So each object and array is
//! walked with its members still unparsed ([`RawValue`]: borrowed text, known to be JSON), and each value is read
//! by the rule of the field it belongs to. Numbers keep their digits, errors can show the text they are about and
//! where it stands, and an unknown field is passed over without recursion, however deep it goes. The price is
//! that a byte inside an item is scanned three times, which is still far cheaper than building a tree.
//!
//! - The body is the *first* JSON value; what follows is not looked at. An empty body is `{}`.
//! - A bad value anywhere refuses the whole call.
//! - Only [`ITEMS_KEPT`] items are kept: one more than a call may have, so that whoever counts them still sees that
//!   there are too many. Later ones are checked and measured, then dropped. So memory follows the size of the
//!   body, never the number of items in it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use flyball::{ITEMS_MAX, Semantics, pb};
use prost::Message as _;
use serde::Deserializer as _;
use serde::de::{self, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use super::number::whole;

/// One more than the items of the largest call.
const ITEMS_KEPT: usize = ITEMS_MAX + 1;

/// The most characters of a value that an error shows.
const SHOWN_MAX: usize = 100;

/// Why a body is not a request; the text is meant for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

/// A request, and how much of it was dropped.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The request, with at most [`ITEMS_KEPT`] items.
    pub(crate) request: pb::GetRateLimitsReq,
    /// Bytes that the items beyond those would add to it as protobuf.
    pub(crate) dropped_len: usize,
}

/// Reads a request as `/v1/GetRateLimits` does. Never panics, whatever the bytes.
///
/// # Errors
/// When the body is not JSON, or not of the form of the request.
pub fn decode_request(body: &[u8], semantics: Semantics) -> Result<pb::GetRateLimitsReq, JsonError> {
    decode(body, semantics).map(|decoded| decoded.request)
}

/// As [`decode_request`], with the size of what was dropped.
pub(crate) fn decode(body: &[u8], semantics: Semantics) -> Result<Decoded, JsonError> {
    let (text, cut_short) = match str::from_utf8(body) {
        Ok(text) => (text, false),
        // What follows the first value may be anything, so bad bytes matter only if the value reaches them.
        Err(error) => (str::from_utf8(&body[..error.valid_up_to()]).unwrap_or_default(), true),
    };
    let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
    if text.is_empty() && !cut_short {
        return Ok(Decoded { request: pb::GetRateLimitsReq::default(), dropped_len: 0 });
    }
    Reader { text, cut_short, semantics }.request()
}

/// The value being read. Every other piece of text here is a part of `text`, which is how positions are found.
#[derive(Clone, Copy)]
struct Reader<'a> {
    text: &'a str,
    /// `text` ends where the body stops being UTF-8.
    cut_short: bool,
    semantics: Semantics,
}

impl<'a> Reader<'a> {
    fn request(self) -> Result<Decoded, JsonError> {
        if !self.text.starts_with('{') {
            let mut deserializer = Deserializer::from_str(self.text);
            let value: &RawValue =
                de::Deserialize::deserialize(&mut deserializer).map_err(|e| self.syntax(&e))?;
            return Err(self.unexpected(value));
        }
        let mut request = pb::GetRateLimitsReq::default();
        let mut dropped_len = 0;
        let mut seen = false;
        self.members(self.text, |key, value| {
            if self.string_text(key)? != "requests" {
                return self.pass_over(value);
            }
            if std::mem::replace(&mut seen, true) {
                return Err(self.duplicate("field", key));
            }
            if is_null(value) {
                return Ok(());
            }
            if !value.get().starts_with('[') {
                return Err(self.unexpected(value));
            }
            self.elements(value, |element| {
                let item = self.item(element)?;
                if request.requests.len() < ITEMS_KEPT {
                    request.requests.push(item);
                } else {
                    let len = item.encoded_len();
                    dropped_len += 1 + prost::length_delimiter_len(len) + len;
                }
                Ok(())
            })
        })?;
        Ok(Decoded { request, dropped_len })
    }

    fn item(self, object: &'a RawValue) -> Result<pb::RateLimitReq, JsonError> {
        if !object.get().starts_with('{') {
            return Err(self.unexpected(object));
        }
        let mut item = pb::RateLimitReq::default();
        let mut seen = 0_u16;
        self.members(object.get(), |key, value| {
            // Either name means the field; errors use the second.
            let (number, field) = match &*self.string_text(key)? {
                "name" => (1, "name"),
                "unique_key" | "uniqueKey" => (2, "uniqueKey"),
                "hits" => (3, "hits"),
                "limit" => (4, "limit"),
                "duration" => (5, "duration"),
                "algorithm" => (6, "algorithm"),
                "behavior" => (7, "behavior"),
                "burst" => (8, "burst"),
                "metadata" => (9, "metadata"),
                "created_at" | "createdAt" => (10, "createdAt"),
                "max_wait" | "maxWait" => (11, "maxWait"),
                _ => return self.pass_over(value),
            };
            if seen & (1 << number) != 0 {
                return Err(self.duplicate("field", key));
            }
            seen |= 1 << number;
            if is_null(value) {
                return Ok(());
            }
            match number {
                1 => item.name = self.string(value, field)?,
                2 => item.unique_key = self.string(value, field)?,
                3 => item.hits = self.int64(value, field)?,
                4 => item.limit = self.int64(value, field)?,
                5 => item.duration = self.int64(value, field)?,
                6 => item.algorithm = self.algorithm(value, field)?,
                7 => item.behavior = self.behavior(value, field)?,
                8 => item.burst = self.int64(value, field)?,
                9 => item.metadata = self.metadata(value)?,
                10 => item.created_at = Some(self.int64(value, field)?),
                _ => item.max_wait = self.int64(value, field)?,
            }
            Ok(())
        })?;
        Ok(item)
    }

    fn string(self, value: &'a RawValue, field: &str) -> Result<String, JsonError> {
        if !value.get().starts_with('"') {
            return Err(self.invalid("string", field, value, ""));
        }
        self.string_text(value).map(Cow::into_owned)
    }

    fn int64(self, value: &'a RawValue, field: &str) -> Result<i64, JsonError> {
        let number = if value.get().starts_with('"') {
            let text = self.string_text(value)?;
            whole(self.number_in(&text))
        } else {
            whole(value.get())
        };
        number.ok_or_else(|| self.invalid("int64", field, value, ""))
    }

    /// The part of a quoted number that counts. The original stops reading where a number could end, so that
    /// `"1,000"` is one; exact semantics refuse it.
    fn number_in(self, text: &str) -> &str {
        match self.semantics {
            Semantics::Gubernator if text.trim().len() == text.len() => {
                let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_');
                text.split(|c| !goes_on(c)).next().unwrap_or_default()
            }
            _ => text,
        }
    }

    fn algorithm(self, value: &'a RawValue, field: &str) -> Result<i32, JsonError> {
        if !value.get().starts_with('"') {
            return self.enum_number(value, field);
        }
        let name = self.string_text(value)?;
        match pb::Algorithm::from_str_name(&name) {
            Some(algorithm) => Ok(algorithm.into()),
            None => self.unknown_name(value, field, "a number, TOKEN_BUCKET or LEAKY_BUCKET"),
        }
    }

    /// One name or number; with exact semantics also names joined by `|` and lists of names and numbers
    /// (corrections "Both" 5).
    fn behavior(self, value: &'a RawValue, field: &str) -> Result<i32, JsonError> {
        const EXPECTED: &str = "a number, names of behaviors joined by |, or a list of them";
        let exact = self.semantics == Semantics::Exact;
        if value.get().starts_with('"') {
            let names = self.string_text(value)?;
            let bits = if exact {
                names
                    .split('|')
                    .map(|name| pb::Behavior::from_str_name(name.trim()))
                    .try_fold(0, |bits, behavior| behavior.map(|behavior| bits | behavior as i32))
            } else {
                pb::Behavior::from_str_name(&names).map(i32::from)
            };
            return bits.map_or_else(|| self.unknown_name(value, field, EXPECTED), Ok);
        }
        if exact && value.get().starts_with('[') {
            let mut bits = 0;
            self.elements(value, |element| {
                if element.get().starts_with('[') {
                    return Err(self.invalid("enum", field, element, EXPECTED));
                }
                bits |= self.behavior(element, field)?;
                Ok(())
            })?;
            return Ok(bits);
        }
        self.enum_number(value, field)
    }

    fn enum_number(self, value: &'a RawValue, field: &str) -> Result<i32, JsonError> {
        let number = whole(value.get()).and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| self.invalid("enum", field, value, ""))
    }

    /// W2: the original takes an unknown name as not set; exact semantics say what is wrong.
    fn unknown_name(self, value: &'a RawValue, field: &str, expected: &str) -> Result<i32, JsonError> {
        match self.semantics {
            Semantics::Gubernator => Ok(0),
            Semantics::Exact => Err(self.invalid("enum", field, value, expected)),
        }
    }

    fn metadata(self, object: &'a RawValue) -> Result<BTreeMap<String, String>, JsonError> {
        if !object.get().starts_with('{') {
            return Err(self.unexpected(object));
        }
        let mut metadata = BTreeMap::new();
        self.members(object.get(), |key, value| {
            let name = self.string_text(key)?.into_owned();
            // Before the value is judged: a key given twice is what went wrong, whatever it holds.
            if metadata.contains_key(&name) {
                return Err(self.duplicate("map key", key));
            }
            metadata.insert(name, self.string(value, "value")?);
            Ok(())
        })?;
        Ok(metadata)
    }

    /// A string's content: borrowed, unless it has escapes.
    fn string_text(self, string: &'a RawValue) -> Result<Cow<'a, str>, JsonError> {
        let quoted = string.get();
        match quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(content) if !content.contains('\\') => Ok(Cow::Borrowed(content)),
            _ => serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| self.lone_surrogate(string)),
        }
    }

    /// Nothing of an unknown field counts, but its strings have to be text.
    fn pass_over(self, value: &'a RawValue) -> Result<(), JsonError> {
        if surrogates_paired(value.get()) { Ok(()) } else { Err(self.lone_surrogate(value)) }
    }

    fn members(
        self,
        object: &'a str,
        mut on_member: impl FnMut(&'a RawValue, &'a RawValue) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        let mut refused = None;
        let walk = Walk(|key, value| on_member(key, value).map_err(|error| refused = Some(error)));
        let outcome = Deserializer::from_str(object).deserialize_map(walk);
        refused.map_or_else(|| outcome.map_err(|error| self.syntax(&error)), Err)
    }

    fn elements(
        self,
        array: &'a RawValue,
        mut on_element: impl FnMut(&'a RawValue) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        let mut refused = None;
        let walk = Walk(|_, element| on_element(element).map_err(|error| refused = Some(error)));
        let outcome = Deserializer::from_str(array.get()).deserialize_seq(walk);
        refused.map_or_else(|| outcome.map_err(|error| self.syntax(&error)), Err)
    }

    fn syntax(self, error: &serde_json::Error) -> JsonError {
        match (error.is_eof(), self.cut_short) {
            (true, false) => JsonError("unexpected EOF".into()),
            (true, true) => {
                let string = self.text.rfind('"').unwrap_or(self.text.len());
                JsonError(format!(
                    "proto: syntax error ({}): invalid UTF-8 in string",
                    self.position(&self.text[string..])
                ))
            }
            (false, _) => JsonError(format!("invalid JSON: {error}")),
        }
    }

    fn unexpected(self, value: &'a RawValue) -> JsonError {
        let text = value.get();
        JsonError(format!("proto: syntax error ({}): unexpected token {}", self.position(text), Shown(text)))
    }

    fn invalid(self, kind: &str, field: &str, value: &'a RawValue, expected: &str) -> JsonError {
        let text = value.get();
        let position = self.position(text);
        let separator = if expected.is_empty() { "" } else { "; expected " };
        JsonError(format!(
            "proto: ({position}): invalid value for {kind} field {field}: {}{separator}{expected}",
            Shown(text)
        ))
    }

    fn duplicate(self, what: &str, key: &'a RawValue) -> JsonError {
        JsonError(format!("proto: ({}): duplicate {what} {}", self.position(key.get()), Shown(key.get())))
    }

    fn lone_surrogate(self, value: &'a RawValue) -> JsonError {
        let text = value.get();
        let position = self.position(text);
        JsonError(format!("proto: syntax error ({position}): surrogate without its pair in {}", Shown(text)))
    }

    /// `line 1:13` of a part of the text, both counted from one, columns in characters.
    fn position(self, part: &str) -> String {
        let offset = part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let before = self.text.get(..offset).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}:{column}")
    }
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// Whether every `\u` escape of a surrogate in this JSON text has its other half.
fn surrogates_paired(json: &str) -> bool {
    let mut rest = json;
    // A backslash occurs only inside strings, and always with the character it escapes.
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        match escaped_unit(rest) {
            None => rest = rest.get(2..).unwrap_or_default(),
            Some(0xd800..0xdc00) if matches!(rest.get(6..).and_then(escaped_unit), Some(0xdc00..0xe000)) => {
                rest = &rest[12..];
            }
            Some(0xd800..0xe000) => return false,
            Some(_) => rest = &rest[6..],
        }
    }
    true
}

/// The UTF-16 unit of the `\u` escape that `text` starts with.
fn escaped_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// A value as errors show it: of an object or array only that it is one, of long text only the start.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0.starts_with(['{', '[']) { &self.0[..1] } else { self.0 };
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None => f.write_str(text),
        }
    }
}

/// Hands the members of an object, or the elements of an array (with themselves as key), to a function until it
/// refuses one. Why it did is for the function to remember: serde's errors would add words to it.
struct Walk<F>(F);

impl<'de, F> Visitor<'de> for Walk<F>
where
    F: FnMut(&'de RawValue, &'de RawValue) -> Result<(), ()>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: de::MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry()? {
            (self.0)(key, value).map_err(|()| de::Error::custom("refused"))?;
        }
        Ok(())
    }

    fn visit_seq<A: de::SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element()? {
            (self.0)(element, element).map_err(|()| de::Error::custom("refused"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
