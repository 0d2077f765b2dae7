//! Nodes that call each other over TLS: whom they believe, and whom they let in.

use std::net::SocketAddr;

use flyball::pb::peers_v1_client::PeersV1Client;
use flyball::pb::{GetPeerRateLimitsReq, RateLimitResp};
use flyball_tests::certificates::{Certificates, Flaw};
use flyball_tests::in_process::InProcess;
use flyball_tests::secured::{Secured, item};
use flyball_tests::wait::poll;
use tonic::Code;

use super::certificates;

/// What is said to each of two nodes beside where the other is.
type Said<'a> = &'a [(&'a str, String)];

/// Two nodes on addresses of their own.
fn two(network: u8, said: [Said<'_>; 2]) -> [InProcess; 2] {
    let addresses = [1, 2].map(|last| SocketAddr::from(([127, 31, network, last], 1051)).to_string());
    let peers = addresses.join(",");
    std::array::from_fn(|place| {
        let mut env = vec![
            ("GUBER_GRPC_ADDRESS", addresses[place].as_str()),
            ("FLYBALL_PEERS", &peers),
            ("FLYBALL_CLUSTER_OWNER_UNREACHABLE", "error"),
        ];
        env.extend(said[place].iter().map(|(name, value)| (*name, value.as_str())));
        InProcess::with_env(&env).unwrap()
    })
}

fn with(
    certificates: &Certificates,
    file: &str,
    more: &[(&'static str, &str)],
) -> Vec<(&'static str, String)> {
    let mut said = vec![
        ("GUBER_TLS_CERT", certificates.text(&format!("{file}.pem"))),
        ("GUBER_TLS_KEY", certificates.text(&format!("{file}.key"))),
        ("GUBER_TLS_CA", certificates.text("ca.pem")),
    ];
    said.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    said
}

/// The answer to a check that the other node owns.
fn forwarded(nodes: &[InProcess; 2], client: &Secured, from: usize, word: &str) -> RateLimitResp {
    let node = &nodes[from];
    node.runtime().block_on(async {
        for number in 0..1_000 {
            let answer = client.check(node.grpc(), item(&format!("{number}-{word}"))).await.unwrap();
            if !answer.error.is_empty() || answer.metadata.contains_key("owner") {
                return answer;
            }
        }
        panic!("the other node owns nothing");
    })
}

/// The same once it goes well: a peer that was dialled before it was there is looked after.
fn forwarded_well(nodes: &[InProcess; 2], client: &Secured, from: usize) {
    let mut round = 0;
    let mut last = String::new();
    let well = poll(std::time::Duration::from_secs(15), || {
        round += 1;
        last = forwarded(nodes, client, from, &format!("well-{round}")).error;
        last.is_empty().then_some(())
    });
    assert!(well.is_some(), "from {from}: {last}");
}

/// And once the reason is told that is expected.
fn refused(nodes: &[InProcess; 2], client: &Secured, from: usize, expected: &str) {
    let mut round = 0;
    let mut last = String::new();
    let told = poll(std::time::Duration::from_secs(15), || {
        round += 1;
        last = forwarded(nodes, client, from, &format!("bad-{round}")).error;
        last.contains(expected).then_some(())
    });
    assert!(told.is_some(), "from {from}: expected {expected:?} in {last:?}");
}

#[test]
fn every_mode_forwards_between_nodes_that_fit() {
    let certificates = certificates();
    certificates.issue("pair", &["127.31.1.1", "127.31.1.2"], Flaw::None).unwrap();
    let client = Secured::new(&certificates).believing_everybody().showing(&certificates, "good");
    for mode in ["", "request-cert", "verify-cert", "require-any-cert", "require-and-verify"] {
        let said = with(&certificates, "pair", &[("GUBER_TLS_CLIENT_AUTH", mode)]);
        let nodes = two(1, [&said, &said]);
        forwarded_well(&nodes, &client, 0);
        forwarded_well(&nodes, &client, 1);
    }
}

#[test]
fn a_peer_with_a_certificate_that_is_no_good_is_not_called() {
    let certificates = certificates();
    certificates.issue("pair", &["127.31.2.1", "127.31.2.2"], Flaw::None).unwrap();
    certificates.issue("old", &["127.31.2.2"], Flaw::Expired).unwrap();
    certificates.issue("unknown", &["127.31.2.2"], Flaw::Stranger).unwrap();
    certificates.issue("misnamed", &["node.example"], Flaw::None).unwrap();
    let client = Secured::new(&certificates).believing_everybody();
    for (file, expected) in
        [("old", "expired"), ("unknown", "UnknownIssuer"), ("misnamed", "not valid for name")]
    {
        let nodes = two(2, [&with(&certificates, "pair", &[]), &with(&certificates, file, &[])]);
        refused(&nodes, &client, 0, expected);
        refused(&nodes, &client, 0, "authentication handshake failed");
        // The other way the certificates fit.
        forwarded_well(&nodes, &client, 1);
    }
}

#[test]
fn a_node_whose_client_certificate_is_no_good_is_not_let_in() {
    let certificates = certificates();
    certificates.issue("pair", &["127.31.3.1", "127.31.3.2"], Flaw::None).unwrap();
    let client = Secured::new(&certificates).believing_everybody().showing(&certificates, "good");
    let mode = ("GUBER_TLS_CLIENT_AUTH", "require-and-verify");
    for file in ["expired", "stranger-client"] {
        let bad = [
            mode,
            ("GUBER_TLS_CLIENT_AUTH_CERT", &*certificates.text(&format!("{file}.pem"))),
            ("GUBER_TLS_CLIENT_AUTH_KEY", &*certificates.text(&format!("{file}.key"))),
        ];
        let nodes = two(3, [&with(&certificates, "pair", &bad), &with(&certificates, "pair", &[mode])]);
        refused(&nodes, &client, 0, "authentication handshake failed");
        forwarded_well(&nodes, &client, 1);
    }
}

/// Field report P31: peers dial each other by address, certificates know a name.
#[test]
fn p31_a_server_name_takes_the_place_of_the_address() {
    let certificates = certificates();
    certificates.issue("named", &["gubernator"], Flaw::None).unwrap();
    let client = Secured::new(&certificates).expecting("gubernator").showing(&certificates, "good");
    for mode in ["require-any-cert", "require-and-verify"] {
        let more = [("GUBER_TLS_CLIENT_AUTH", mode), ("GUBER_TLS_CLIENT_AUTH_SERVER_NAME", "gubernator")];
        let said = with(&certificates, "named", &more);
        let nodes = two(4, [&said, &said]);
        forwarded_well(&nodes, &client, 0);
        forwarded_well(&nodes, &client, 1);
    }
}

#[test]
fn nodes_that_share_an_authority_verify_each_others_automatic_certificates() {
    let certificates = certificates();
    let said = [
        ("GUBER_TLS_AUTO", "true".to_owned()),
        ("GUBER_TLS_CA", certificates.text("ca.pem")),
        ("GUBER_TLS_CA_KEY", certificates.text("ca.key")),
        ("GUBER_TLS_CLIENT_AUTH", "require-and-verify".to_owned()),
    ];
    let nodes = two(5, [&said, &said]);
    let client = Secured::new(&certificates).showing(&certificates, "good");
    forwarded_well(&nodes, &client, 0);
    forwarded_well(&nodes, &client, 1);
}

/// W8: where clients are verified, the peers' service is for those with a certificate.
#[test]
fn the_peers_service_is_for_who_showed_a_certificate_that_was_verified() {
    let certificates = certificates();
    certificates.issue("pair", &["127.31.6.1", "127.31.6.2"], Flaw::None).unwrap();
    let ask = |node: &InProcess, client: &Secured| {
        node.runtime().block_on(async {
            let mut peers = PeersV1Client::new(client.channel(node.grpc()).await.unwrap());
            let request =
                GetPeerRateLimitsReq { requests: vec![item("w8")], ..GetPeerRateLimitsReq::default() };
            peers.get_peer_rate_limits(request).await.map(|_| ()).map_err(|status| status.code())
        })
    };
    let nobody = Secured::new(&certificates);
    let good = nobody.clone().showing(&certificates, "good");
    let mode = ("GUBER_TLS_CLIENT_AUTH", "verify-cert");
    let open = ("FLYBALL_CLUSTER_PEER_GUARD", "open");
    for (more, expected) in [
        (&[mode][..], [Err(Code::PermissionDenied), Ok(())]),
        (&[mode, open], [Ok(()), Ok(())]),
        // On loopback everybody is a neighbour, unless certificates tell them apart.
        (&[], [Ok(()), Ok(())]),
    ] {
        let said = with(&certificates, "pair", more);
        let nodes = two(6, [&said, &said]);
        assert_eq!([&nobody, &good].map(|client| ask(&nodes[0], client)), expected, "{more:?}");
    }
}

#[test]
fn a_plain_node_and_a_secured_one_do_not_understand_each_other() {
    let certificates = certificates();
    certificates.issue("pair", &["127.31.7.1", "127.31.7.2"], Flaw::None).unwrap();
    let client = Secured::new(&certificates);
    let nodes = two(7, [&with(&certificates, "pair", &[]), &[]]);
    refused(&nodes, &client, 0, "authentication handshake failed");
}
