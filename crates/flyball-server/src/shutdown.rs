//! Who asks the process to end. The daemon waits on a [`Signals`] and doesn't know whether a request came from
//! the operating system or from a program that embeds the daemon (or tests it).

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

/// A request to end, as the operating system words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C in a terminal.
    Interrupt,
    /// SIGTERM: a supervisor wants the process gone.
    Terminate,
}

impl Signal {
    /// The exit code a shell reports for a process that this signal ended: 128 + its number.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

/// A stream of [`Signal`]s. The first one asks for a graceful stop, the next one for an immediate one. Beside it comes
/// SIGHUP, which asks for a reload and ends nothing.
#[derive(Debug)]
pub struct Signals {
    source: Source,
    hangup: Arc<Notify>,
}

#[derive(Debug)]
enum Source {
    Process(process::Stream),
    Channel(mpsc::Receiver<Signal>),
}

/// Sends [`Signal`]s to one daemon of a process, as the operating system would to the whole process.
#[derive(Clone, Debug)]
pub struct SignalSender {
    signals: mpsc::Sender<Signal>,
    hangup: Arc<Notify>,
}

impl Signals {
    /// The signals of this process. From here on SIGINT, SIGTERM and SIGHUP no longer end it by themselves, and
    /// one that arrives while a daemon starts is kept for it; take this before [`Daemon::start`](crate::Daemon::start).
    ///
    /// # Errors
    /// The operating system refuses the handlers, or there is no tokio runtime with its driver enabled.
    pub fn of_process() -> io::Result<Self> {
        let hangup = Arc::default();
        let stream = process::Stream::new(Arc::clone(&hangup))?;
        Ok(Self { source: Source::Process(stream), hangup })
    }

    /// Signals that the program itself sends.
    pub fn channel() -> (SignalSender, Self) {
        // Two signals are all a daemon tells apart.
        let (sender, receiver) = mpsc::channel(2);
        let hangup = Arc::<Notify>::default();
        let sender = SignalSender { signals: sender, hangup: Arc::clone(&hangup) };
        (sender, Self { source: Source::Channel(receiver), hangup })
    }

    /// Told whenever somebody asks for a reload while [`next`](Self::next) is waited for; several at once are one.
    pub fn hangup(&self) -> Arc<Notify> {
        Arc::clone(&self.hangup)
    }

    /// The next signal. Never ends when no more can come. Dropping the future loses none.
    pub async fn next(&mut self) -> Signal {
        match &mut self.source {
            Source::Process(stream) => stream.next().await,
            Source::Channel(receiver) => match receiver.recv().await {
                Some(signal) => signal,
                None => std::future::pending().await,
            },
        }
    }
}

impl SignalSender {
    /// Sends one signal; it is dropped when two are waiting already or nobody listens.
    pub fn send(&self, signal: Signal) {
        let _ = self.signals.try_send(signal);
    }

    /// Asks for a reload, as SIGHUP does.
    pub fn hang_up(&self) {
        self.hangup.notify_one();
    }
}

#[cfg(unix)]
mod process {
    use std::io;
    use std::sync::Arc;

    use tokio::signal::unix::{self, SignalKind};
    use tokio::sync::Notify;

    use super::Signal;

    #[derive(Debug)]
    pub(super) struct Stream {
        interrupt: unix::Signal,
        terminate: unix::Signal,
        hangup: unix::Signal,
        told: Arc<Notify>,
    }

    impl Stream {
        pub(super) fn new(told: Arc<Notify>) -> io::Result<Self> {
            Ok(Self {
                told,
                interrupt: unix::signal(SignalKind::interrupt())?,
                terminate: unix::signal(SignalKind::terminate())?,
                hangup: unix::signal(SignalKind::hangup())?,
            })
        }

        pub(super) async fn next(&mut self) -> Signal {
            loop {
                tokio::select! {
                    // First what ends nothing, so that it is not lost behind what does.
                    biased;
                    Some(()) = self.hangup.recv() => self.told.notify_one(),
                    Some(()) = self.interrupt.recv() => return Signal::Interrupt,
                    Some(()) = self.terminate.recv() => return Signal::Terminate,
                    else => std::future::pending().await,
                }
            }
        }
    }
}

#[cfg(not(unix))]
mod process {
    use std::io;
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::Signal;

    #[derive(Debug)]
    pub(super) struct Stream;

    impl Stream {
        pub(super) fn new(_: Arc<Notify>) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn next(&mut self) -> Signal {
            match tokio::signal::ctrl_c().await {
                Ok(()) => Signal::Interrupt,
                Err(_) => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn signals_come_in_order_and_the_surplus_is_dropped() {
        let (sender, mut signals) = Signals::channel();
        sender.send(Signal::Terminate);
        sender.send(Signal::Interrupt);
        sender.send(Signal::Terminate);
        assert_eq!(signals.next().await, Signal::Terminate);
        assert_eq!(signals.next().await, Signal::Interrupt);
        drop(sender);
        assert!(futures_pending(signals.next()).await, "no more signals is not a signal");
    }

    async fn futures_pending(future: impl Future) -> bool {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_hangup_is_no_reason_to_stop() {
        let mut signals = Signals::of_process().unwrap();
        // Only now, with handlers in place, are these harmless to the process.
        for signal in ["HUP", "TERM"] {
            let kill = format!("kill -{signal} {}", std::process::id());
            assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        }
        let hangup = signals.hangup();
        assert_eq!(signals.next().await, Signal::Terminate);
        hangup.notified().await;
    }

    #[test]
    fn exit_codes_are_the_shells() {
        assert_eq!(Signal::Interrupt.exit_code(), 130);
        assert_eq!(Signal::Terminate.exit_code(), 143);
    }
}
