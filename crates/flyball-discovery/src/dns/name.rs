//! Names that are looked up.

use std::fmt;
use std::net::IpAddr;

/// Longest name in bytes, without its last dot.
const NAME_MAX: usize = 253;

/// A name whose records are peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsName {
    /// With the dot at its end: no search list is ever applied.
    absolute: String,
    /// Bytes of `absolute` before the data center's name: the service's labels.
    service: usize,
}

impl DnsName {
    /// A name such as `flyball.example.com`, whose A and AAAA records are nodes, or
    /// `_grpc._tcp.flyball.example.com`, whose SRV records name nodes and their ports.
    ///
    /// # Errors
    /// It is no name; the text says what is wrong, to stand after the name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let absolute = absolute(text);
        let relative = &absolute[..absolute.len().saturating_sub(1)];
        if relative.parse::<IpAddr>().is_ok() {
            return Err(
                "is an address, not a name; expected a DNS name, or addresses as a fixed list".to_owned()
            );
        }
        let label = |label: &str| {
            let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.bytes().all(fine)
        };
        if relative.len() > NAME_MAX || !relative.split('.').all(label) {
            return Err("is no DNS name; expected one such as flyball.example.com".to_owned());
        }
        let labels = relative.split('.').take_while(|label| label.starts_with('_'));
        let service = labels.map(|label| label.len() + 1).sum();
        if service == absolute.len() {
            return Err("names a service but no domain; expected _grpc._tcp.flyball.example.com".to_owned());
        }
        Ok(Self { absolute, service })
    }

    /// Whether its SRV records are asked for; else A and AAAA are.
    pub fn is_service(&self) -> bool {
        self.service > 0
    }

    /// The name with the dot at its end.
    pub fn absolute(&self) -> &str {
        &self.absolute
    }

    /// The data center of the nodes under it: the absolute name, without the labels of a service.
    pub fn data_center(&self) -> &str {
        &self.absolute[self.service..]
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.absolute)
    }
}

/// A name with a dot at its end; an empty one stays empty. Data centers are called so where peers come from DNS.
pub fn absolute(name: &str) -> String {
    match name {
        "" => String::new(),
        name if name.ends_with('.') => name.to_owned(),
        name => format!("{name}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_absolute_and_know_their_data_center() {
        for (text, name, service, data_center) in [
            ("Dc1.example", "Dc1.example.", false, "Dc1.example."),
            (" dc1.example. ", "dc1.example.", false, "dc1.example."),
            ("_grpc._tcp.dc1.example", "_grpc._tcp.dc1.example.", true, "dc1.example."),
            ("pods", "pods.", false, "pods."),
        ] {
            let parsed = DnsName::parse(text).unwrap();
            let found = (parsed.absolute(), parsed.is_service(), parsed.data_center());
            assert_eq!(found, (name, service, data_center));
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("{}.example", "a".repeat(64));
        let many = "a.".repeat(128);
        for text in
            ["", ".", "a..b", "a b", "a:1051", "10.0.0.1", "::1", "_grpc._tcp", "http://a", "ä", &long, &many]
        {
            assert!(DnsName::parse(text).is_err(), "{text}");
        }
    }
}
