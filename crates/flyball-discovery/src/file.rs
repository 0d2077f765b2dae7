//! A file that is read again and again.
//!
//! Its text is read every 250 ms and compared with the one before. Notifications by the kernel were rejected:
//! they do not come for NFS and other network mounts when another machine writes, a ConfigMap is changed by
//! swapping a link two folders up, an editor replaces the file and with it what was watched, and the queue of
//! notifications may overflow, so that polling would be needed beside them anyway. For the same reasons not even the
//! time stamp is trusted: on many file systems two changes within a few milliseconds have the same one. Reading some
//! kilobytes four times a second costs nothing that can be measured.
//!
//! A change is taken only when a second reading 100 ms later finds the same. A file that is being written in place
//! is thus not taken while it grows; cut off in the middle of `node-1:1051` it would read `node-1:10`, and cut off
//! after a line it would be a valid, shorter list. Whoever can should still write another file and rename it.
//!
//! The same rule holds for failures: a file that is away for the moment in which it is replaced is no news. A failure
//! that stays is told once, and again when it becomes another.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flyball_core::cluster::PeerInfo;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::list;
use crate::source::{NextPeers, Source, SourceError};

/// Largest file that is read, in bytes: [`PEERS_MAX`](crate::PEERS_MAX) peers with long names fit.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Time between two readings.
const POLL: Duration = Duration::from_millis(250);

/// Time after which a change is looked at again before it is taken.
const SETTLE: Duration = Duration::from_millis(100);

/// A reading that takes longer is reported. It goes on, since it cannot be stopped: there is never more than one.
const READ_MAX: Duration = Duration::from_secs(5);

/// The peers of a watched file.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    default_port: u16,
    data_center: String,
    /// What was told last.
    told: Option<Seen>,
    /// What was seen once.
    candidate: Option<Seen>,
    /// When to read next.
    due: Instant,
    reading: Option<JoinHandle<Seen>>,
}

/// What a reading found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Bytes(Vec<u8>),
    Failed(String),
}

impl WatchedFile {
    /// A file, with the port of peers that are listed without one and the data center of those that are listed
    /// without one: the node's own. The file need not exist yet.
    ///
    /// To be used in a tokio runtime: reading a file blocks, so its threads for blocking work do it.
    pub fn new(path: impl Into<PathBuf>, default_port: u16, data_center: &str) -> Self {
        Self {
            path: path.into(),
            default_port,
            data_center: data_center.to_owned(),
            told: None,
            candidate: None,
            due: Instant::now(),
            reading: None,
        }
    }

    /// What the file says now. Cancel safe: a reading that nobody waits for any more is the next one's.
    async fn read(&mut self) -> Seen {
        let reading = self.reading.get_or_insert_with(|| {
            let path = self.path.clone();
            tokio::task::spawn_blocking(move || match read(&path) {
                Ok(bytes) => Seen::Bytes(bytes),
                Err(error) => Seen::Failed(format!("cannot read it: {error}")),
            })
        });
        let seen = match timeout(READ_MAX, &mut *reading).await {
            Err(_) => {
                let seconds = READ_MAX.as_secs();
                return Seen::Failed(format!(
                    "reading it takes longer than {seconds} s; look at the file system it is on"
                ));
            }
            Ok(Ok(seen)) => seen,
            // The runtime is going down, or reading panicked, which it has no reason to.
            Ok(Err(error)) => Seen::Failed(format!("cannot read it: {error}")),
        };
        self.reading = None;
        seen
    }

    /// The peers in what was seen.
    fn judge(&self, seen: &Seen) -> Result<Vec<PeerInfo>, SourceError> {
        let path = self.path.display();
        match seen {
            Seen::Failed(why) => Err(SourceError::paced(format!("peers file {path}: {why}"))),
            Seen::Bytes(bytes) => {
                list::parse(bytes, self.default_port, &self.data_center).map_err(|faults| {
                    let faults: Vec<_> =
                        faults.into_iter().map(|(line, what)| format!("{path}:{line}: {what}")).collect();
                    SourceError::paced(format!("peers file {}", faults.join("; ")))
                })
            }
        }
    }
}

impl Source for WatchedFile {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn origin(&self) -> String {
        self.path.display().to_string()
    }

    fn next(&mut self) -> NextPeers<'_> {
        Box::pin(async {
            loop {
                sleep_until(self.due).await;
                let seen = self.read().await;
                // No await from here on, so a dropped call cannot lose what was seen.
                let now = Instant::now();
                if self.told.as_ref() == Some(&seen) {
                    self.candidate = None;
                    self.due = now + POLL;
                } else if self.candidate.as_ref() == Some(&seen) {
                    self.candidate = None;
                    self.due = now + POLL;
                    let result = self.judge(&seen);
                    self.told = Some(seen);
                    return result;
                } else {
                    self.candidate = Some(seen);
                    self.due = now + SETTLE;
                }
            }
        })
    }
}

/// Reads a regular file of bounded size.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Before opening it, since opening a pipe waits for its writer.
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "it is a directory" } else { "it is a pipe or a device" };
        return Err(io::Error::other(format!("{what}, not a regular file")));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > FILE_BYTES_MAX {
        true => Err(io::Error::other(format!("it is larger than {FILE_BYTES_MAX} bytes"))),
        false => Ok(bytes),
    }
}
