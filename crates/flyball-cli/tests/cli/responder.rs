//! A server that says what a test wants.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

/// Answers one connection after the other, each a GET of `path`, with these bytes, then is gone.
pub(crate) fn responder(path: &'static str, answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            assert!(request.starts_with(format!("GET {path} HTTP/1.1\r\n").as_bytes()));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

/// An answer of a status with a JSON body.
pub(crate) fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
