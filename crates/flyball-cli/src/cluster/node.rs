//! One node of a local cluster: a child process, its pipes, and its log.

use std::path::Path;
use std::process::Stdio;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinSet;

use crate::output;

/// The longest part of a log line that is shown as one, in bytes.
const LINE_MAX: u64 = 64 << 10;

/// How a node is called and where it is.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) grpc: String,
    pub(super) http: String,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) child: Child,
    pid: u32,
    /// The node ends when this closes. `None` when it has been asked to.
    input: Option<ChildStdin>,
    /// What it writes, on its way to standard error.
    logs: JoinSet<()>,
}

impl Node {
    /// Starts it; it is not ready yet.
    pub(super) fn start(program: &Path, place: Place, peers: &str, flags: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command
            .args([
                "serve",
                "--until-input-ends",
                "--grpc-address",
                &place.grpc,
                "--http-address",
                &place.http,
            ])
            .args(["--advertise-address", &place.grpc, "--peers", peers, "--instance-id", &place.name])
            .args(flags)
            // Lines get their colours here.
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {} with {}", place.name, program.display()))?;
        let prefix = prefix(&place);
        let mut logs = JoinSet::new();
        if let Some(out) = child.stdout.take() {
            logs.spawn(copy(out, prefix.clone()));
        }
        if let Some(err) = child.stderr.take() {
            logs.spawn(copy(err, prefix));
        }
        let pid = child.id().unwrap_or_default();
        let input = child.stdin.take();
        Ok(Self { place, child, pid, input, logs })
    }

    /// What is told when it is ready.
    pub(super) fn line(&self) -> String {
        let Place { name, grpc, http } = &self.place;
        let pid = self.pid;
        format!("{name:<7}  gRPC {grpc:<15}  HTTP {http:<15}  http://{http}/  pid {pid}")
    }

    pub(super) fn ask_to_end(&mut self) {
        self.input = None;
    }

    /// Waits until it has ended, and tells it when nobody asked for that.
    pub(super) async fn end(&mut self) {
        let status = self.child.wait().await;
        self.drain().await;
        if self.input.take().is_some() {
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            output::warning(&format!("{} ended by itself ({how}); the others go on", self.place.name));
        }
    }

    /// Waits until all it wrote is shown. A grandchild that holds the pipes is not waited for.
    pub(super) async fn drain(&mut self) {
        let written = async { while self.logs.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), written).await;
    }

    pub(super) async fn kill(&mut self) {
        self.ask_to_end();
        // Fails when it has ended already.
        let _ = self.child.kill().await;
    }
}

/// `node 0 | `, each node in a colour of its own.
fn prefix(place: &Place) -> String {
    const COLOURS: [AnsiColor; 5] =
        [AnsiColor::Cyan, AnsiColor::Magenta, AnsiColor::Blue, AnsiColor::Yellow, AnsiColor::Green];
    let number: usize =
        place.name.bytes().filter(u8::is_ascii_digit).fold(0, |n, d| n * 10 + usize::from(d - b'0'));
    let colour: Style = COLOURS[number % COLOURS.len()].on_default();
    output::styled(colour, &format!("{:<7} | ", place.name))
}

/// Copies lines to standard error. Ends with the pipe.
async fn copy(pipe: impl AsyncRead + Unpin, prefix: String) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut pipe).take(LINE_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                output::note(&format!("{prefix}{}", output::foreign(text.trim_end_matches(['\r', '\n']))));
            }
        }
    }
}
