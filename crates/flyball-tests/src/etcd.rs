//! etcd as child processes: one member or three, each on an address of its own, with its data in a folder that a test
//! may throw away. Asked and changed over its JSON gateway, as an operator would with its command line.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::clean;
use crate::http::{Connection, Request};
use crate::process::Process;
use crate::signal;
use crate::tools::Tool;
use crate::wait::poll;

/// Members that are not healthy by then hang.
const READY: Duration = Duration::from_secs(20);

/// As the original calls its keys by default.
const PREFIX: &str = "/gubernator-peers";

/// Members of one etcd, numbered from 0. Dropping it kills them.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    tool: Tool,
    arguments: Vec<String>,
    scheme: &'static str,
    folder: TempDir,
}

#[derive(Debug)]
struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    process: Option<Process>,
}

impl Etcd {
    /// So many members on 127.40.`network`.1 and up; none is started.
    pub fn prepare(network: u8, members: u8) -> anyhow::Result<Self> {
        let member = |last: u8| {
            let ip = Ipv4Addr::new(127, 40, network, last);
            let (client, peer) = (SocketAddr::from((ip, 2379)), SocketAddr::from((ip, 2380)));
            Member { name: format!("m{last}"), client, peer, process: None }
        };
        Ok(Self {
            members: (1..=members).map(member).collect(),
            tool: Tool::Etcd,
            arguments: Vec::new(),
            scheme: "http",
            folder: tempfile::tempdir()?,
        })
    }

    /// Of this program instead.
    #[must_use]
    pub const fn program(mut self, tool: Tool) -> Self {
        self.tool = tool;
        self
    }

    /// With TLS for clients and these arguments. The gateway cannot be asked then.
    #[must_use]
    pub fn secure(mut self, arguments: &[String]) -> Self {
        self.scheme = "https";
        self.arguments.extend_from_slice(arguments);
        self
    }

    /// Starts all members and waits until they are healthy.
    pub fn start(mut self) -> anyhow::Result<Self> {
        self.start_all()?;
        Ok(self)
    }

    /// Starts all members that do not run and waits until they are healthy.
    pub fn start_all(&mut self) -> anyhow::Result<()> {
        for member in 0..self.members.len() {
            if self.members[member].process.is_none() {
                self.start_member(member)?;
            }
        }
        (0..self.members.len()).try_for_each(|member| self.wait_until_healthy(member))
    }

    /// Starts a member that does not run.
    pub fn start_member(&mut self, index: usize) -> anyhow::Result<()> {
        let all: Vec<String> =
            self.members.iter().map(|member| format!("{}=http://{}", member.name, member.peer)).collect();
        let data = self.data(index);
        let member = &self.members[index];
        let mut command = clean(&self.tool.path());
        command.arg("--data-dir").arg(data).args(["--name", &member.name]);
        // A leader is missed quickly, so that tests need not wait for it.
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
        command.args(["--initial-cluster", &all.join(","), "--log-level", "warn"]);
        for (flag, scheme, address) in [
            ("--listen-client-urls", self.scheme, member.client),
            ("--advertise-client-urls", self.scheme, member.client),
            ("--listen-peer-urls", "http", member.peer),
            ("--initial-advertise-peer-urls", "http", member.peer),
        ] {
            command.args([flag, &format!("{scheme}://{address}")]);
        }
        if self.tool == Tool::Etcd {
            command.arg("--unsafe-no-fsync");
        }
        command.args(&self.arguments);
        self.members[index].process = Some(Process::start(command, self.log_file(index))?);
        Ok(())
    }

    fn wait_until_healthy(&self, index: usize) -> anyhow::Result<()> {
        let client = self.members[index].client;
        let healthy = poll(READY, || {
            if self.scheme == "https" {
                return std::net::TcpStream::connect(client).ok().map(drop);
            }
            let answer = Connection::new(client).send(&Request::get("/health")).ok()?;
            (answer.status == 200).then_some(())
        });
        healthy.with_context(|| format!("etcd is not healthy:\n{}", self.log(index)))
    }

    /// Kills a member as a crash would.
    pub fn kill(&mut self, index: usize) -> anyhow::Result<()> {
        self.members[index].process.take().context("it runs").map(drop)
    }

    /// Stops a member's every thread, its sockets stay open.
    pub fn freeze(&self, index: usize) -> anyhow::Result<()> {
        signal::freeze(self.members[index].process.as_ref().context("it runs")?.id())
    }

    /// Lets a frozen member go on.
    pub fn thaw(&self, index: usize) -> anyhow::Result<()> {
        signal::thaw(self.members[index].process.as_ref().context("it runs")?.id())
    }

    /// Throws away what a member that does not run has stored.
    pub fn wipe(&self, index: usize) -> anyhow::Result<()> {
        ensure!(self.members[index].process.is_none(), "it runs");
        Ok(fs::remove_dir_all(self.data(index))?)
    }

    /// Where clients find the members, as a list.
    pub fn endpoints(&self) -> String {
        let clients: Vec<_> = self.members.iter().map(|member| member.client.to_string()).collect();
        clients.join(",")
    }

    /// What a member wrote, for the message of a failed test.
    pub fn log(&self, index: usize) -> String {
        fs::read_to_string(self.log_file(index)).unwrap_or_default()
    }

    /// Asks the first member that runs, over its gateway.
    pub fn ask(&self, path: &str, question: &Value) -> anyhow::Result<Value> {
        let member = self.members.iter().find(|member| member.process.is_some()).context("a member runs")?;
        let answer = Connection::new(member.client).send(&Request::post(path, question.to_string()))?;
        ensure!(answer.status == 200, "{path}: status {}: {}", answer.status, answer.text());
        answer.json().map_err(anyhow::Error::msg)
    }

    /// Writes a key, and says at which revision.
    pub fn put(&self, key: &str, value: &str) -> anyhow::Result<i64> {
        let question = json!({ "key": base64(key.as_bytes()), "value": base64(value.as_bytes()) });
        let answer = self.ask("/v3/kv/put", &question)?;
        Ok(answer["header"]["revision"].as_str().context("a revision")?.parse()?)
    }

    /// Writes a node as an original writes itself, without a lease.
    pub fn register(&self, address: &str) -> anyhow::Result<()> {
        let info = json!({ "data-center": "", "http-address": "", "grpc-address": address });
        self.put(&format!("{PREFIX}{address}"), &info.to_string()).map(drop)
    }

    /// Takes a key away.
    pub fn delete(&self, key: &str) -> anyhow::Result<()> {
        self.ask("/v3/kv/deleterange", &json!({ "key": base64(key.as_bytes()) })).map(drop)
    }

    /// Forgets what was before this revision.
    pub fn compact(&self, revision: i64) -> anyhow::Result<()> {
        self.ask("/v3/kv/compaction", &json!({ "revision": revision.to_string(), "physical": true }))
            .map(drop)
    }

    /// Ends all leases, and says how many there were.
    pub fn revoke_all(&self) -> anyhow::Result<usize> {
        let leases = self.ask("/v3/lease/leases", &json!({}))?;
        let leases = leases["leases"].as_array().cloned().unwrap_or_default();
        for lease in &leases {
            self.ask("/v3/lease/revoke", &json!({ "ID": lease["ID"] }))?;
        }
        Ok(leases.len())
    }

    /// How many leases there are.
    pub fn leases(&self) -> anyhow::Result<usize> {
        let leases = self.ask("/v3/lease/leases", &json!({}))?;
        Ok(leases["leases"].as_array().map_or(0, Vec::len))
    }

    fn data(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("data-{index}"))
    }

    fn log_file(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("log-{index}"))
    }
}

/// As etcd's gateway wants bytes.
pub fn base64(bytes: &[u8]) -> String {
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
