//! Messages that begin and do not end.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use flyball::Node;
use flyball::intake::{ARRIVES_WITHIN, INTAKE_BYTES_MAX};
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use prost::Message;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic::Code;

use crate::common::*;

const MIB: usize = 1_048_576;

/// A body of these pieces that goes on without end.
fn endless(pieces: Vec<Bytes>) -> BoxBody<Bytes, io::Error> {
    let pieces = tokio_stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(piece))));
    StreamBody::new(pieces.chain(tokio_stream::pending())).boxed()
}

/// All but the end of a message of a mebibyte.
fn nearly_all() -> Bytes {
    frame(&vec![0; MIB], false).slice(..MIB - 100)
}

async fn unfinished(node: Node, pieces: Vec<Bytes>, headers: &[(&str, &str)]) -> Reply {
    send(node.v1_service(), post(GET, headers, endless(pieces))).await
}

#[tokio::test(start_paused = true)]
async fn a_message_has_a_minute_whatever_its_callers_deadline() {
    for headers in [&[][..], &[("grpc-timeout", "1H")]] {
        let started = tokio::time::Instant::now();
        let reply = unfinished(node(), vec![nearly_all()], headers).await;
        let text = "request body did not arrive within 60 s; send it faster";
        assert_eq!(reply.error(), (Code::DeadlineExceeded, text));
        assert_eq!(started.elapsed(), ARRIVES_WITHIN);
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_messages_hold_no_more_than_the_intake() {
    let node = node();
    let fit = INTAKE_BYTES_MAX / MIB;
    let mut waiting = JoinSet::new();
    for _ in 0..fit {
        waiting.spawn(unfinished(node.clone(), vec![nearly_all()], &[]));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(waiting.try_join_next().is_none(), "all of them fit");

    let text = "this node already holds 67108864 bytes of unfinished requests; try again later";
    for _ in 0..3 {
        let reply = unfinished(node.clone(), vec![nearly_all()], &[]).await;
        assert_eq!(reply.error(), (Code::ResourceExhausted, text));
    }
    // A message that is complete at once is answered as ever.
    let answered = async || {
        let body = frame(&ask(vec![item("k")]).encode_to_vec(), false);
        send(node.v1_service(), post(GET, &[], Full::new(body))).await.code
    };
    assert_eq!(answered().await, Code::Ok);
    let page = node.metrics().render();
    assert!(page.contains("\nflyball_intake_refused_total 3\n"), "{page}");

    // Whoever leaves makes room, and everybody leaves in the end.
    waiting.abort_all();
    while waiting.join_next().await.is_some() {}
    for _ in 0..fit {
        waiting.spawn(unfinished(node.clone(), vec![nearly_all()], &[]));
    }
    while let Some(reply) = waiting.join_next().await {
        assert_eq!(reply.unwrap().code, Code::DeadlineExceeded);
    }
}

#[tokio::test(start_paused = true)]
async fn pieces_cost_something_however_small() {
    let node = node();
    let tiny = vec![Bytes::from_static(&[0]); MIB];
    let start = frame(&vec![0; MIB], false).slice(..5);
    let pieces = || [start.clone()].into_iter().chain(tiny.iter().cloned()).take(MIB).collect();
    let reply = unfinished(node, pieces(), &[]).await;
    assert_eq!(reply.code, Code::ResourceExhausted, "{}", reply.message);
}
