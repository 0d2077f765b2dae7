//! One question and one answer over TCP, each within a bound of time and of size.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::codec::message::{Message, Ping, Record};
use super::codec::stream::{Secrecy, StreamMessage, StreamReader, encode_error};

/// What is read at a time.
const CHUNK: usize = 16 * 1024;

/// Random bytes for one sealed message. Counting instead would need a place that survives a restart.
pub(super) fn nonce() -> [u8; 12] {
    let mut nonce = [0; 12];
    getrandom::fill(&mut nonce).expect("a system without random bytes runs no process that has hash maps");
    nonce
}

/// Reads one message; the error says what was wrong with it.
pub(super) async fn read(stream: &mut TcpStream, secrecy: &Secrecy) -> Result<StreamMessage, String> {
    let mut reader = StreamReader::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = stream.read(&mut chunk).await.map_err(|error| error.to_string())?;
        if length == 0 {
            return Err("the connection ended in the middle of a message".to_owned());
        }
        match reader.feed(&chunk[..length], secrecy) {
            Ok(None) => {}
            Ok(Some(message)) => return Ok(message),
            Err(fault) => return Err(fault.to_string()),
        }
    }
}

/// Writes one message, which is to be the last.
pub(super) async fn write(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    stream.write_all(message).await?;
    stream.shutdown().await
}

/// Reads the question on a connection that somebody opened. Who asked in a way that is not understood is told why.
pub(super) async fn question(
    stream: &mut TcpStream,
    secrecy: &Secrecy,
    within: Duration,
) -> Result<StreamMessage, String> {
    let asked = timeout(within, async {
        let asked = read(stream, secrecy).await;
        if let Err(why) = &asked {
            let answer = secrecy.seal_stream(&encode_error(why), nonce);
            // It may be gone already.
            let _ = write(stream, &answer).await;
        }
        asked
    });
    asked.await.unwrap_or_else(|_| Err(format!("no question came within {within:?}")))
}

/// Everything that this node knows, for everything that another knows.
pub(super) async fn exchange(
    to: SocketAddr,
    question: &[u8],
    secrecy: &Secrecy,
    within: Duration,
) -> Result<Vec<Record>, String> {
    let answer = timeout(within, async {
        let mut stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
        // The other one may wait for more after it, so the connection stays open both ways.
        stream.write_all(question).await.map_err(|error| error.to_string())?;
        read(&mut stream, secrecy).await
    });
    match answer.await {
        Ok(Ok(StreamMessage::State { records, .. })) => Ok(records),
        Ok(Ok(StreamMessage::Error(why))) => Err(format!("it refuses: {}", crate::address::quoted(&why))),
        Ok(Ok(_)) => Err("it answers something else".to_owned()),
        Ok(Err(why)) => Err(why),
        Err(_) => Err(format!("no answer within {within:?}")),
    }
}

/// Whether a node answers over TCP.
pub(super) async fn ping(to: SocketAddr, ping: Ping, secrecy: &Secrecy, within: Duration) -> bool {
    let seq = ping.seq;
    let question = secrecy.seal_stream(&Message::Ping(ping).encode(), nonce);
    let answer = timeout(within, async {
        let mut stream = TcpStream::connect(to).await.ok()?;
        stream.write_all(&question).await.ok()?;
        read(&mut stream, secrecy).await.ok()
    });
    matches!(answer.await, Ok(Some(StreamMessage::Ack { seq: answered })) if answered == seq)
}
