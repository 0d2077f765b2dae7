//! The settings whose values are words. An unknown word is refused, with the known ones in the message.

use flyball_core::Semantics;

use super::values::{Value, choice, items, one_of};

impl Value for Semantics {
    const KIND: &'static str = "`exact`, `gubernator`";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "exact" => Ok(Self::Exact),
            "gubernator" => Ok(Self::Gubernator),
            _ => Err(one_of(&["exact", "gubernator"])),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Exact => "exact".to_owned(),
            Self::Gubernator => "gubernator".to_owned(),
        }
    }
}

choice! {
    /// How log lines are written.
    LogFormat {
        /// For people.
        #[default]
        Text = "text",
        /// One object per line.
        Json = "json",
    }
}

choice! {
    /// Whether the admin page is served.
    AdminSwitch {
        /// On a listener that only this machine reaches.
        #[default]
        Auto = "auto",
        /// On any listener, under any name.
        On = "on",
        /// Not at all.
        Off = "off",
    }
}

choice! {
    /// How peers are found.
    PeerDiscovery {
        /// Not at all: a cluster of one.
        #[default]
        None = "none",
        /// A fixed list.
        Static = "static",
        /// A watched file.
        File = "file",
        /// Gossip.
        MemberList = "member-list",
        /// The Kubernetes API.
        Kubernetes = "k8s",
        /// Leases in etcd.
        Etcd = "etcd",
        /// A, AAAA and SRV records.
        Dns = "dns",
    }
}

choice! {
    /// What a check gets whose owner cannot be reached.
    OwnerUnreachable {
        /// A decision by this node's part of the limit.
        #[default]
        LocalShare = "local-share",
        /// A decision by the full limit.
        Local = "local",
        /// A refusal.
        Deny = "deny",
        /// An item error.
        Error = "error",
    }
}

choice! {
    /// Who may call the peers' service.
    PeerGuard {
        /// Peers, by the address they call from; whoever knows the secret where there is one.
        #[default]
        Peers = "peers",
        /// Everybody.
        Open = "open",
    }
}

choice! {
    /// The method that finds a key's owner.
    PeerPicker {
        /// A consistent hash ring.
        #[default]
        ReplicatedHash = "replicated-hash",
    }
}

choice! {
    /// The hash of the ring.
    PickerHash {
        /// FNV-1a, 64 bits.
        #[default]
        Fnv1a = "fnv1a",
        /// FNV-1, 64 bits.
        Fnv1 = "fnv1",
    }
}

choice! {
    /// Which of our own spans are made.
    TracingLevel {
        /// All but those of calls to peers.
        #[default]
        Info = "INFO",
        /// None: only the spans of incoming calls.
        Error = "ERROR",
        /// All.
        Debug = "DEBUG",
    }
}

/// The least important line that is still written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing but a failing process; nothing of ours logs here.
    Panic,
    /// A process that gives up; nothing of ours logs here.
    Fatal,
    /// Something failed.
    Error,
    /// Something looks wrong.
    Warn,
    /// Starts, stops and changes.
    #[default]
    Info,
    /// How and why.
    Debug,
    /// Everything.
    Trace,
}

impl Value for LogLevel {
    const KIND: &'static str = "`panic`, `fatal`, `error`, `warn`, `info`, `debug`, `trace`";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "panic" => Self::Panic,
            "fatal" => Self::Fatal,
            "error" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => return Err(one_of(&["panic", "fatal", "error", "warn", "info", "debug", "trace"])),
        })
    }

    fn show(&self) -> String {
        match self {
            Self::Panic => "panic",
            Self::Fatal => "fatal",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
        .to_owned()
    }
}

/// The groups of extra metrics asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricFlags {
    /// CPU, memory and file descriptors of the process.
    pub os: bool,
    /// The original's language runtime. There is none here, so it adds nothing.
    pub golang: bool,
}

impl Value for MetricFlags {
    const KIND: &'static str = "list of `os`, `golang`";

    fn parse(text: &str) -> Result<Self, String> {
        let mut flags = Self::default();
        for word in items(text) {
            match word {
                "os" => flags.os = true,
                "golang" => flags.golang = true,
                _ => return Err("expected a comma separated list of os and golang".to_owned()),
            }
        }
        Ok(flags)
    }

    fn show(&self) -> String {
        match (self.os, self.golang) {
            (true, true) => "os,golang",
            (true, false) => "os",
            (false, true) => "golang",
            (false, false) => "",
        }
        .to_owned()
    }
}
