//! What the gRPC port offers and refuses, and how long it keeps a connection.

use bytes::Bytes;
use flyball_server::daemon::Exit;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_reflection::pb::{v1, v1alpha};
use tower::{Service as _, ServiceExt as _};

use crate::{channel, config, health, http_get, open_stream, remaining, start, within};

#[tokio::test]
async fn reflection_lists_every_service_in_both_versions() {
    let daemon = start(config()).await;
    let channel = channel(&daemon).await;
    let expected = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "pb.gubernator.PeersV1",
        "pb.gubernator.V1",
    ];

    macro_rules! listed {
        ($version:ident) => {{
            use $version::server_reflection_request::MessageRequest;
            use $version::server_reflection_response::MessageResponse;
            let ask = |message| $version::ServerReflectionRequest {
                host: String::new(),
                message_request: Some(message),
            };
            let symbol = MessageRequest::FileContainingSymbol("pb.gubernator.V1".into());
            let asked = [ask(MessageRequest::ListServices(String::new())), ask(symbol)];
            let answers = $version::server_reflection_client::ServerReflectionClient::new(channel.clone())
                .server_reflection_info(tokio_stream::iter(asked))
                .await
                .unwrap()
                .into_inner()
                .map(|answer| answer.unwrap().message_response.unwrap())
                .collect::<Vec<_>>()
                .await;
            let [MessageResponse::ListServicesResponse(list), MessageResponse::FileDescriptorResponse(file)] =
                &answers[..]
            else {
                panic!("{answers:?}")
            };
            let file = prost_types::FileDescriptorProto::decode(&file.file_descriptor_proto[0][..]).unwrap();
            assert_eq!(file.package(), "pb.gubernator");
            let mut names: Vec<String> = list.service.iter().map(|service| service.name.clone()).collect();
            names.sort();
            names
        }};
    }
    assert_eq!(listed!(v1), expected);
    assert_eq!(listed!(v1alpha), expected);
    assert_eq!(within(daemon.stop()).await, Exit::Drained);
}

#[tokio::test]
async fn the_health_service_knows_our_services_only() {
    let daemon = start(config()).await;
    let channel = channel(&daemon).await;
    for service in ["", "pb.gubernator.V1", "pb.gubernator.PeersV1"] {
        assert_eq!(health(&channel, service).await, Ok(ServingStatus::Serving), "{service}");
    }
    assert_eq!(health(&channel, "other").await, Err(Code::NotFound));
}

/// Calls a method by its path with an empty message, and returns code and text of the refusal.
async fn refusal(channel: &Channel, path: &'static str) -> (Code, String) {
    let call = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(http_body_util::Full::new(Bytes::from_static(&[0; 5]))))
        .unwrap();
    let answer = channel.clone().ready().await.unwrap().call(call).await.unwrap();
    let status =
        tonic::Status::from_header_map(answer.headers()).expect("a refusal has its status in the headers");
    (status.code(), status.message().to_owned())
}

#[tokio::test]
async fn what_is_unknown_or_switched_off_is_refused_as_the_original_does() {
    const ADDITIONS: [(&str, &str); 4] = [
        ("/grpc.health.v1.Health/Check", "grpc.health.v1.Health"),
        ("/grpc.health.v1.Health/Watch", "grpc.health.v1.Health"),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "grpc.reflection.v1.ServerReflection"),
        (
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            "grpc.reflection.v1alpha.ServerReflection",
        ),
    ];
    let mut bare = config();
    bare.grpc.health = false;
    bare.grpc.reflection = false;
    let (bare, full) = (start(bare).await, start(config()).await);
    let (to_bare, to_full) = (channel(&bare).await, channel(&full).await);
    for (path, service) in ADDITIONS {
        assert_eq!(
            refusal(&to_bare, path).await,
            (Code::Unimplemented, format!("unknown service {service}"))
        );
    }
    for (path, text) in [
        ("/nobody.Knows/This", "unknown service nobody.Knows"),
        ("/pb.gubernator.V1/Nothing", "unknown method Nothing for service pb.gubernator.V1"),
        ("/pb.gubernator.PeersV1/Nothing", "unknown method Nothing for service pb.gubernator.PeersV1"),
        ("/nothing", "malformed method name: \"/nothing\""),
    ] {
        for channel in [&to_bare, &to_full] {
            assert_eq!(refusal(channel, path).await, (Code::Unimplemented, text.to_owned()));
        }
    }
    assert_eq!(
        refusal(&to_full, "/grpc.health.v1.Health/List").await,
        (Code::Unimplemented, "unknown method List for service grpc.health.v1.Health".to_owned())
    );
    assert_eq!(remaining(&to_bare, "bare").await, 9);

    let http = bare.http_address();
    assert_eq!(http_get(http, "/healthz").await.unwrap().0, 200, "HTTP routes have switches of their own");
    for daemon in [bare, full] {
        assert_eq!(within(daemon.stop()).await, Exit::Drained);
    }
}

#[tokio::test]
async fn what_is_not_http2_does_not_disturb_the_others() {
    let daemon = start(config()).await;
    let channel = channel(&daemon).await;
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"[..],
        &[0; 4096],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff",
    ] {
        let mut stream = TcpStream::connect(daemon.grpc_address()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // Closed, with or without a last word.
        let _ = within(stream.read_to_end(&mut answer)).await;
    }
    assert_eq!(remaining(&channel, "others").await, 9);
    assert_eq!(within(daemon.stop()).await, Exit::Drained);
}

/// The clock is the test's: it jumps whenever nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_end_is_cut() {
    let daemon = start(config()).await;
    for said in [
        &b""[..],
        b"P",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0",
    ] {
        let mut stream = TcpStream::connect(daemon.grpc_address()).await.unwrap();
        stream.write_all(said).await.unwrap();
        let closed =
            tokio::time::timeout(std::time::Duration::from_secs(60), stream.read(&mut [0; 64])).await;
        assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{said:?}: {closed:?}");
    }
}

#[tokio::test]
async fn old_connections_are_asked_to_go_and_then_closed() {
    let mut config = config();
    config.grpc.max_connection_age_seconds = 1;
    let daemon = start(config).await;
    let channel = channel(&daemon).await;
    let (_sender, mut answers) = open_stream(&channel).await;
    // The open call outlives the age but not the grace.
    assert!(within(answers.next()).await.is_none_or(|answer| answer.is_err()));
    // The client comes back by itself.
    assert_eq!(within(remaining(&channel, "back")).await, 9);
    drop(answers);
    assert_eq!(within(daemon.stop()).await, Exit::Drained);
}
