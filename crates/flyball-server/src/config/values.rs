//! The kinds of values a setting may have: how each is read, what to tell somebody who wrote it wrongly, and
//! how it is shown. Showing and reading are inverse, so the effective configuration can be pasted back.

use std::fmt;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::duration;

/// A kind of value.
pub(super) trait Value: Sized {
    /// Its name in the reference page.
    const KIND: &'static str;

    /// Reads a text that is not empty. The error says what was expected, to stand after `expected`, or is a
    /// sentence of its own.
    fn parse(text: &str) -> Result<Self, String>;

    /// The text that [`Value::parse`] reads as this value; empty when there is none.
    fn show(&self) -> String;

    /// Whether it is a number that is zero, which the original cannot tell from "not set".
    fn is_zero(&self) -> bool {
        false
    }
}

impl Value for bool {
    const KIND: &'static str = "bool";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    const KIND: &'static str = "integer";

    fn parse(text: &str) -> Result<Self, String> {
        whole_number(text, 0, i64::from(i32::MAX)).map(|number| number as Self)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn is_zero(&self) -> bool {
        *self == 0
    }
}

/// A decimal number without a fraction, within bounds.
pub(super) fn whole_number(text: &str, least: i64, most: i64) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {least} to {most}")),
    }
}

impl Value for Duration {
    const KIND: &'static str = "duration";

    fn parse(text: &str) -> Result<Self, String> {
        duration::parse(text).map_err(|bad| match bad {
            duration::Bad::Syntax => {
                "expected a duration: numbers with units, such as 500us, 100ms or 1m30s".to_owned()
            }
            duration::Bad::Negative => "expected a duration that is not negative".to_owned(),
        })
    }

    fn show(&self) -> String {
        duration::show(*self)
    }

    fn is_zero(&self) -> bool {
        Self::is_zero(self)
    }
}

impl Value for String {
    const KIND: &'static str = "text";

    fn parse(text: &str) -> Result<Self, String> {
        match text.chars().any(char::is_control) {
            true => Err("expected text without control characters".to_owned()),
            false => Ok(text.to_owned()),
        }
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }

    fn is_zero(&self) -> bool {
        self.as_ref().is_some_and(T::is_zero)
    }
}

/// A number of bytes: `1048576`, `256MiB`, `1GB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Suffixes, with powers of 1024 first so that [`Value::show`] prefers them.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl Value for ByteSize {
    const KIND: &'static str = "size";

    fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected a size of at least one byte, such as 256MiB, 1GiB or 1048576".to_owned();
        let (number, suffix) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let suffix = suffix.trim_start();
        let scale = match suffix {
            "" => 1,
            _ => SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix)).ok_or_else(expected)?.1,
        };
        match number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)) {
            Some(bytes) if bytes > 0 && usize::try_from(bytes).is_ok() => Ok(Self(bytes)),
            _ => Err(expected()),
        }
    }

    fn show(&self) -> String {
        match SIZES.iter().find(|(_, scale)| self.0.is_multiple_of(*scale) && self.0 > 0) {
            Some((name, scale)) => format!("{}{name}", self.0 / scale),
            None => self.0.to_string(),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

/// A host and a port, as written: peers compare these texts, so nothing is resolved or tidied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name or an address, without brackets; empty for every interface.
    pub host: String,
    /// The port; 0 lets the system choose.
    pub port: u16,
}

impl HostPort {
    /// Whether the host stands for every interface of the machine, which no peer can dial.
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "" | "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0")
    }

    /// The same host with another port, for a listener that was given port 0.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        Self { host: self.host.clone(), port }
    }

    /// An address of this very machine to dial: loopback in place of "every interface".
    #[must_use]
    pub fn dialable(&self) -> Self {
        let host = match self.host.as_str() {
            "" | "0.0.0.0" => "127.0.0.1",
            "::" | "0:0:0:0:0:0:0:0" => "::1",
            host => host,
        };
        Self { host: host.to_owned(), port: self.port }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Value for HostPort {
    const KIND: &'static str = "host:port";

    fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected host:port, such as 127.0.0.1:1051, [::1]:1051 or :1051".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let address = rest.strip_suffix(']').ok_or_else(expected)?;
                // A zone (`fe80::1%eth0`) is the system's to judge.
                let plain = address.split('%').next().unwrap_or(address);
                plain.parse::<std::net::Ipv6Addr>().map_err(|_| expected())?;
                address
            }
            None => host,
        };
        let bracketed = text.starts_with('[');
        let valid = |c: char| {
            c.is_alphanumeric() || matches!(c, '.' | '-' | '_') || (bracketed && matches!(c, ':' | '%'))
        };
        // `parse` would also take a sign.
        if !host.chars().all(valid) || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(expected());
        }
        let port = port.parse().map_err(|_| expected())?;
        Ok(Self { host: host.to_owned(), port })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A time zone: the name that was given, and the zone once the cross-check has found it.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// An IANA name such as `Europe/Berlin`.
    pub name: String,
    /// Its rules.
    pub zone: TimeZone,
}

impl Default for Zone {
    fn default() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }
}

impl Value for Zone {
    const KIND: &'static str = "time zone";

    /// Only the name: finding the zone needs the zone database, which is the caller's.
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { name: String::parse(text)?, zone: TimeZone::UTC })
    }

    fn show(&self) -> String {
        self.name.clone()
    }
}

/// An enumeration whose words are exactly those listed.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $crate::config::values::Value for $name {
            const KIND: &'static str = $crate::config::values::words!($($word),+);

            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::config::values::one_of(&[$($word),+])),
                }
            }

            fn show(&self) -> String {
                match self { $(Self::$variant => $word.to_owned(),)+ }
            }
        }
    };
}
macro_rules! words {
    ($first:literal $(, $more:literal)*) => { concat!("`", $first, "`" $(, ", `", $more, "`")*) };
}
pub(super) use {choice, words};

/// `expected a, b or c`.
pub(super) fn one_of(words: &[&str]) -> String {
    match words {
        [head @ .., last] if !head.is_empty() => format!("expected {} or {last}", head.join(", ")),
        _ => format!("expected {}", words.join("")),
    }
}

/// The elements of a comma separated list, trimmed, without empty ones.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}
