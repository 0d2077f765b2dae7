//! A small blocking HTTP/1.1 client that shares no code with the server and sends exactly the bytes it is
//! told to, wrong ones included.
//!
//! A client library would repair what these tests want to send broken, and would hide what these tests want
//! to see (which headers, which framing). Answers are read strictly: status line, headers, then a body by
//! `content-length`, by chunks, or up to the end of the connection.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long to wait for one answer. Generous: a test fails by it only when the server hangs.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest answer accepted, in bytes: far above anything the API sends.
const ANSWER_MAX: u64 = 64 << 20;

/// What to send.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// GET, POST, or any other word.
    pub method: String,
    /// Path with query, sent as it is.
    pub path: String,
    /// Body; with `Some` a JSON content type is added unless `headers` says otherwise.
    pub body: Option<Vec<u8>>,
    /// Headers that replace the usual ones of the same name; `None` leaves the usual one out.
    pub headers: Vec<(String, Option<String>)>,
    /// Send the body in two chunks rather than with a length.
    pub chunked: bool,
}

impl Request {
    /// A request without a body.
    pub fn get(path: &str) -> Self {
        Self { method: "GET".into(), path: path.into(), ..Self::default() }
    }

    /// A request with a JSON body.
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { method: "POST".into(), path: path.into(), body: Some(body.into()), ..Self::default() }
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    fn bytes(&self, host: SocketAddr) -> Vec<u8> {
        let mut fields: Vec<(String, String)> = vec![("Host".into(), host.to_string())];
        if self.body.is_some() {
            fields.push(("Content-Type".into(), "application/json".into()));
        }
        for (name, value) in &self.headers {
            fields.retain(|(have, _)| !have.eq_ignore_ascii_case(name));
            if let Some(value) = value {
                fields.push((name.clone(), value.clone()));
            }
        }
        let body = self.body.as_deref().unwrap_or_default();
        let has_length = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if self.chunked {
            fields.push(("Transfer-Encoding".into(), "chunked".into()));
        } else if !has_length
            && (self.body.is_some() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH"))
        {
            fields.push(("Content-Length".into(), body.len().to_string()));
        }
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in fields {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        if self.chunked {
            let (first, second) = body.split_at(body.len() / 2);
            for part in [first, second] {
                if !part.is_empty() {
                    bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                    bytes.extend_from_slice(part);
                    bytes.extend_from_slice(b"\r\n");
                }
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
        } else {
            bytes.extend_from_slice(body);
        }
        bytes
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, bad UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<serde_json::Value, String> {
        serde_json::from_slice(&self.body).map_err(|error| format!("no JSON ({error}): {}", self.text()))
    }
}

/// One keep-alive connection, opened when first needed and opened again when the server closed it.
pub struct Connection {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.address)
    }
}

impl Connection {
    /// A connection to `address`, not opened yet.
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Forgets the open connection, so that the next request starts a new one.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Sends `request` and reads the answer.
    pub fn send(&mut self, request: &Request) -> io::Result<Response> {
        self.send_bytes(&request.bytes(self.address), request.method == "HEAD")
    }

    /// Sends bytes as they are and reads one answer; `head` says that the answer has no body.
    pub fn send_bytes(&mut self, bytes: &[u8], head: bool) -> io::Result<Response> {
        loop {
            let reused = self.stream.is_some();
            let stream = match &mut self.stream {
                Some(stream) => stream,
                empty => empty.insert(open(self.address)?),
            };
            // A server that refuses early may close before everything is written; its answer is still there.
            let _ = stream.get_mut().write_all(bytes);
            match read_answer(stream, head) {
                Ok(Some((response, keep))) => {
                    if !keep {
                        self.stream = None;
                    }
                    return Ok(response);
                }
                // An idle connection may have been closed under us: once more on a new one.
                Ok(None) if reused => self.stream = None,
                Err(error) if reused && is_closed(&error) => self.stream = None,
                Ok(None) => {
                    self.stream = None;
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "connection closed without an answer",
                    ));
                }
                Err(error) => {
                    self.stream = None;
                    return Err(error);
                }
            }
        }
    }
}

/// Sends bytes on a connection of their own, says that no more will come, and reads the answer, if there is one.
pub fn send_and_close(address: SocketAddr, bytes: &[u8]) -> io::Result<Option<Response>> {
    let mut stream = open(address)?;
    // The server may have seen enough and closed.
    let _ = stream.get_mut().write_all(bytes);
    let _ = stream.get_mut().shutdown(std::net::Shutdown::Write);
    Ok(read_answer(&mut stream, false)?.map(|(response, _)| response))
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn open(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(BufReader::new(stream))
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// One line without its end; `None` at the end of the connection.
fn line(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut text = Vec::new();
    if stream.take(64 << 10).read_until(b'\n', &mut text)? == 0 {
        return Ok(None);
    }
    if !text.ends_with(b"\r\n") {
        return Err(bad(format!("a line that does not end in CR LF: {:?}", String::from_utf8_lossy(&text))));
    }
    text.truncate(text.len() - 2);
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

fn more(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    line(stream)?.ok_or_else(|| bad("connection closed inside an answer".into()))
}

fn exactly(stream: &mut BufReader<TcpStream>, count: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if count > ANSWER_MAX {
        return Err(bad(format!("an answer of {count} bytes")));
    }
    if stream.take(count).read_to_end(body)? as u64 == count {
        Ok(())
    } else {
        Err(bad("connection closed inside a body".into()))
    }
}

/// The answer and whether the connection can be used again; `None` when it was closed before the first byte.
fn read_answer(stream: &mut BufReader<TcpStream>, head: bool) -> io::Result<Option<(Response, bool)>> {
    let (status, headers) = loop {
        let Some(first) = line(stream)? else { return Ok(None) };
        let status = first
            .strip_prefix("HTTP/1.1 ")
            .or_else(|| first.strip_prefix("HTTP/1.0 "))
            .and_then(|rest| rest.get(..3))
            .and_then(|code| code.parse::<u16>().ok())
            .ok_or_else(|| bad(format!("no status line: {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let text = more(stream)?;
            if text.is_empty() {
                break;
            }
            let (name, value) = text.split_once(':').ok_or_else(|| bad(format!("no header: {text:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        // 1xx only announces the real answer.
        if status >= 200 {
            break (status, headers);
        }
    };
    let mut response = Response { status, headers, body: Vec::new() };
    let mut keep = !response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if head || matches!(status, 204 | 304) {
    } else if response.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        loop {
            let size = more(stream)?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| bad(format!("chunk size {size:?}")))?;
            if size == 0 {
                while !more(stream)?.is_empty() {}
                break;
            }
            exactly(stream, size, &mut response.body)?;
            if !more(stream)?.is_empty() {
                return Err(bad("bytes behind a chunk".into()));
            }
        }
    } else if let Some(length) = response.header("content-length") {
        let length = length.parse().map_err(|_| bad(format!("content-length {length:?}")))?;
        exactly(stream, length, &mut response.body)?;
    } else {
        stream.take(ANSWER_MAX).read_to_end(&mut response.body)?;
        keep = false;
    }
    Ok(Some((response, keep)))
}
