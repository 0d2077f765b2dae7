//! What people and programs write: nothing makes a parser panic, and what it accepts reads back as the same.

use flyball_discovery::{DnsName, FixedList, canonical_address};
use proptest::prelude::*;

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9_-]{0,20}(\\.[a-z0-9-]{1,10}){0,3}\\.?",
        any::<[u8; 4]>()
            .prop_filter("a wildcard", |ip| *ip != [0; 4])
            .prop_map(|ip| std::net::Ipv4Addr::from(ip).to_string()),
        any::<u128>()
            .prop_filter("a wildcard", |ip| *ip != 0)
            .prop_map(|ip| format!("[{}]", std::net::Ipv6Addr::from(ip))),
    ]
}

fn address() -> impl Strategy<Value = String> {
    (host(), 1..=u16::MAX).prop_map(|(host, port)| format!("{host}:{port}"))
}

proptest! {
    #[test]
    fn any_text_is_judged_without_a_panic(text in "\\PC{0,60}", bytes in any::<Vec<u8>>()) {
        let _ = FixedList::parse(&text, 1051, "");
        let _ = FixedList::parse(&String::from_utf8_lossy(&bytes), 1051, "");
        let _ = DnsName::parse(&text);
        let _ = canonical_address(&text);
    }

    #[test]
    fn nearly_addresses_are_judged_without_a_panic(text in "[\\[\\]:.0-9a-f%,# \n-]{0,40}") {
        if let Ok(list) = FixedList::parse(&text, 1051, "") {
            // What was accepted is written in a form that is accepted, as the same.
            for peer in list.peers() {
                let again = FixedList::parse(&peer.grpc_address, 7, "").unwrap();
                prop_assert_eq!(again.peers(), std::slice::from_ref(peer));
            }
        }
        let canonical = canonical_address(&text);
        prop_assert_eq!(canonical_address(&canonical), canonical);
    }

    #[test]
    fn a_list_reads_back_as_itself(addresses in proptest::collection::vec(address(), 1..20)) {
        let list = FixedList::parse(&addresses.join(" , "), 1051, "dc").unwrap();
        let mut expected = addresses;
        expected.sort();
        expected.dedup();
        let found: Vec<_> = list.peers().iter().map(|peer| peer.grpc_address.clone()).collect();
        prop_assert_eq!(&found, &expected);
        let again = FixedList::parse(&found.join(","), 7, "dc").unwrap();
        prop_assert_eq!(again.peers(), list.peers());
        let in_it = list.peers().iter().all(|peer| peer.data_center == "dc");
        prop_assert!(in_it);
    }
}
