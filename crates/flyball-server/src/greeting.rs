//! What a client of HTTP/2 says first, and how long it may take to say it.
//!
//! The protocol's server waits for it without a bound: a client that connects and says nothing, or half of it, would keep
//! its connection for as long as it likes. So it is read here first, whole, and given to the protocol to be read again.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use crate::rewound::Rewound;

/// A client speaks first in HTTP/2; one that doesn't is a port scan or lost its network.
pub(crate) const GREETED_WITHIN: Duration = Duration::from_secs(20);
/// What every HTTP/2 client says first, before its SETTINGS.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length, type, flags and stream of a frame.
const FRAME_HEAD: usize = 9;
/// A first frame longer than any client may send is left to the protocol to refuse.
const FIRST_FRAME_MAX: usize = 16 << 10;

/// The stream of a client that has said its preface and first frame, or something else altogether, which the protocol
/// refuses; nothing of it is lost. `None` when the client went, or took longer than [`GREETED_WITHIN`].
pub(crate) async fn greeted<S: AsyncRead + Unpin>(mut stream: S) -> Option<Rewound<S>> {
    let first = timeout(GREETED_WITHIN, first_frame(&mut stream)).await.ok()?.ok()?;
    Some(Rewound::new(first, stream))
}

/// Reads the client's preface and first frame, or as much as tells that this is something else. At most
/// [`FIRST_FRAME_MAX`] and a little; what was read is to be served again.
async fn first_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    // Room for what clients really send: a preface, a few settings, often a WINDOW_UPDATE.
    let mut bytes = Vec::with_capacity(128);
    loop {
        if bytes.iter().zip(PREFACE).any(|(got, expected)| got != expected) {
            return Ok(bytes);
        }
        let wanted = match bytes.get(PREFACE.len()..) {
            Some([a, b, c, ..]) => {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if length > FIRST_FRAME_MAX || bytes.len() >= PREFACE.len() + FRAME_HEAD + length {
                    return Ok(bytes);
                }
                PREFACE.len() + FRAME_HEAD + length
            }
            _ => PREFACE.len() + FRAME_HEAD,
        };
        bytes.reserve(wanted.saturating_sub(bytes.len()));
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn the_first_frame_is_read_whole_and_strangers_at_once() {
        let mut settings = PREFACE.to_vec();
        settings.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]);
        let (huge, other) = ([PREFACE, &[0xff; FRAME_HEAD]].concat(), b"GET / HTTP/1.1".to_vec());
        for (bytes, complete) in [(&settings, settings.len()), (&huge, PREFACE.len() + 3), (&other, 1)] {
            for (end, sent) in (1..=bytes.len()).map(|end| (end, &bytes[..end])) {
                let got = first_frame(&mut &*sent).await;
                match end >= complete {
                    true => assert_eq!(got.unwrap(), sent),
                    false => assert_eq!(got.unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{end}"),
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_finish_its_greeting_is_not_waited_for() {
        for said in [&b""[..], PREFACE, &PREFACE[..5]] {
            let (mut client, server) = tokio::io::duplex(1_024);
            client.write_all(said).await.unwrap();
            let began = Instant::now();
            assert!(greeted(server).await.is_none());
            assert_eq!(began.elapsed().as_secs(), GREETED_WITHIN.as_secs());
        }
    }
}
