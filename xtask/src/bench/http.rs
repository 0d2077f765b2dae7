//! A call over HTTP/1.1, for asking a server whether it answers at all: a connection per call, no pooling.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const TIMEOUT: Duration = Duration::from_secs(5);

/// The body of a good answer. With a body to send it is a POST of JSON, else a GET.
pub fn call(server: SocketAddr, path: &str, body: Option<&str>) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = match body {
        Some(body) => format!(
            "POST {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
        // HTTP/1.0, so that no answer comes in chunks.
        None => format!("GET {path} HTTP/1.0\r\nhost: {server}\r\n\r\n"),
    };
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of headers")?;
    if head.split(' ').nth(1) != Some("200") {
        bail!("{} for {path}: {body}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}
