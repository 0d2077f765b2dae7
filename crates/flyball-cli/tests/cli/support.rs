//! Starting the binary, with a clean environment and a bound on everything that is waited for.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Far longer than anything takes. A test that runs into it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary with these arguments and no environment at all.
pub(crate) fn flyball<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Its output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its error output, which must be one line.
    pub(crate) fn error_line(&self) -> &str {
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        self.err.trim_end()
    }
}

/// Runs to the end.
pub(crate) fn run(command: &mut Command) -> Ended {
    Running::start(command).end()
}

/// A running process; dropping it kills it.
pub(crate) struct Running {
    child: Child,
    out: Option<thread::JoinHandle<String>>,
    /// Lines of standard error as they come.
    lines: mpsc::Receiver<String>,
    /// Those already looked at.
    seen: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let out = thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        let err = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || err.lines().try_for_each(|line| sender.send(line.unwrap())));
        Self { child, out: Some(out), lines, seen: String::new() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next line of standard error; `None` when there are no more.
    pub(crate) fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push_str(&line);
                self.seen.push('\n');
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("silent for too long; so far: {}", self.seen),
        }
    }

    /// Waits for the JSON log line with this message.
    fn hear(&mut self, message: &str) -> serde_json::Value {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("it ended: {}", self.seen));
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["msg"] == message {
                return line;
            }
        }
    }

    /// Waits until it has ended by itself or by a signal.
    pub(crate) fn end(mut self) -> Ended {
        while self.line().is_some() {}
        let status: ExitStatus = self.child.wait().unwrap();
        let out = self.out.take().unwrap().join().unwrap();
        Ended { code: status.code(), out, err: std::mem::take(&mut self.seen) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node of its own for one test, on ports the system chose.
pub(crate) struct Node {
    process: Running,
    pub(crate) grpc: String,
    pub(crate) http: String,
}

impl Node {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// With more flags for `serve`.
    pub(crate) fn start_with(flags: &str) -> Self {
        let args = "serve --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 --log-format json";
        let mut process = Running::start(flyball(args.split(' ')).args(flags.split_whitespace()));
        let mut address = |message| process.hear(message)["address"].as_str().unwrap().to_owned();
        let (grpc, http) = (address("serving gRPC"), address("serving HTTP"));
        Self { process, grpc, http }
    }

    /// Asks it to end, as a supervisor does.
    pub(crate) fn stop(self) -> Ended {
        self.stop_with(Signal::TERM)
    }

    /// Sends a signal and waits until the node says this.
    pub(crate) fn signal_and_hear(&mut self, signal: Signal, message: &str) {
        self.process.signal(signal);
        self.process.hear(message);
    }

    /// Waits until the node says this.
    pub(crate) fn hear(&mut self, message: &str) -> serde_json::Value {
        self.process.hear(message)
    }

    /// Sends a signal and expects nothing from it.
    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub(crate) fn stop_with(self, signal: Signal) -> Ended {
        self.process.signal(signal);
        self.process.end()
    }

    /// `flyball check` against it.
    pub(crate) fn check(&self, args: &str) -> Ended {
        run(flyball(["check", "--address", &self.grpc]).args(args.split_whitespace()))
    }
}

/// An address on which nobody listens.
pub(crate) fn deserted() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
