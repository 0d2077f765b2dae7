//! The services on a real connection, asked by the generated clients.

use flyball::pb;
use flyball::pb::peers_v1_client::PeersV1Client;
use flyball::pb::v1_client::V1Client;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request};

use crate::common::{ask, item, node};

async fn serve(node: &flyball::Node) -> (Channel, tokio_util::sync::DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let server = Server::builder()
        .add_routes(flyball::grpc::routes(node))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.clone().cancelled_owned());
    tokio::spawn(server);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    (channel, stop.drop_guard())
}

#[tokio::test]
async fn both_services_share_a_port() {
    let node = node();
    let (channel, _server) = serve(&node).await;
    let mut clients = V1Client::new(channel.clone()).send_compressed(CompressionEncoding::Gzip);
    let mut peers = PeersV1Client::new(channel);
    let answer = clients.get_rate_limits(ask(vec![item("k"); 1_000])).await.unwrap().into_inner();
    assert_eq!(answer.responses.len(), 1_000);
    assert_eq!(answer.responses[0].remaining, 9);
    let request = pb::GetPeerRateLimitsReq { requests: vec![item("k")], ..Default::default() };
    let answer = peers.get_peer_rate_limits(request).await.unwrap().into_inner();
    assert_eq!(answer.rate_limits[0].status(), pb::Status::OverLimit);
    assert_eq!(clients.health_check(pb::HealthCheckReq {}).await.unwrap().into_inner().peer_count, 1);
    clients.live_check(pb::LiveCheckReq {}).await.unwrap();
}

#[tokio::test]
async fn refusals_cross_the_network_whole() {
    let node = node();
    let (channel, _server) = serve(&node).await;
    let mut client = V1Client::new(channel);
    let status = client.get_rate_limits(ask(vec![item("k"); 1_001])).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    let mut large = item("k");
    large.unique_key = "k".repeat(3 << 20);
    let status = client.get_rate_limits(ask(vec![large])).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("grpc: received message larger than max (31457"), "{status}");
    let mut request = Request::new(ask(vec![item("k")]));
    request.metadata_mut().insert("grpc-timeout", "0n".parse().unwrap());
    let status = client.get_rate_limits(request).await.unwrap_err();
    // tonic's client watches the timeout too, and says "cancelled" when it is the first to see it.
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
    // The connection is as good as before.
    let answer = client.get_rate_limits(ask(vec![item("k")])).await.unwrap().into_inner();
    assert_eq!(answer.responses[0].remaining, 9);
}
