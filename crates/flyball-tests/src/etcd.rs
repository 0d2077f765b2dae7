//! A real etcd of one member, by which originals find each other.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use crate::binary::clean;
use crate::http::{Connection, Request};
use crate::process::Process;
use crate::tools::Tool;
use crate::wait::poll;

/// It takes some hundred milliseconds.
const HEALTHY: Duration = Duration::from_secs(20);
/// As the original calls its keys by default.
const PREFIX: &str = "/gubernator-peers";

/// Starts one that listens for clients at this address and keeps its data in this folder; healthy when it is returned.
pub fn start(client: SocketAddr, folder: &Path) -> anyhow::Result<Process> {
    let peer = SocketAddr::new(client.ip(), 2380);
    let mut command = clean(&Tool::Etcd.path());
    command.arg("--data-dir").arg(folder.join("etcd")).args(["--name", "test", "--log-level", "warn"]);
    for (flag, address) in [
        ("--listen-client-urls", client),
        ("--advertise-client-urls", client),
        ("--listen-peer-urls", peer),
        ("--initial-advertise-peer-urls", peer),
    ] {
        command.args([flag, &format!("http://{address}")]);
    }
    command.args(["--initial-cluster", &format!("test=http://{peer}")]);
    let process = Process::start(command, folder.join("etcd.log"))?;
    let mut connection = Connection::new(client);
    let healthy = poll(HEALTHY, || {
        let answer = connection.send(&Request::get("/health")).ok()?;
        (answer.status == 200).then_some(())
    });
    ensure!(healthy.is_some(), "etcd is not healthy:\n{}", process.log());
    Ok(process)
}

/// Writes a node into etcd as an original writes itself, without a lease.
pub fn register(endpoint: SocketAddr, address: &str) -> anyhow::Result<()> {
    let info = json!({ "data-center": "", "http-address": "", "grpc-address": address });
    let put = json!({
        "key": base64(format!("{PREFIX}{address}").as_bytes()),
        "value": base64(info.to_string().as_bytes()),
    });
    let answer = Connection::new(endpoint).send(&Request::post("/v3/kv/put", put.to_string()))?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}

/// As etcd's JSON wants bytes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(*group.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = char::from(DIGITS[bits >> (18 - 6 * at) & 63]);
            text.push(if at <= group.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_base64() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
