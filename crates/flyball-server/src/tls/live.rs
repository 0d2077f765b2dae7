//! The certificates in force, and how others take their place while the daemon runs.
//!
//! Files are looked at every few seconds and when somebody asks (SIGHUP). Contents are compared, not times: secrets that
//! an orchestrator mounts change behind a link. A change is taken up only when two readings agree, so that a
//! certificate and its key that are being written one after the other are seen together. New connections use what
//! is new; those that are open go on as they are.
//!
//! What is wrong with new files is told once, counted, and changes nothing. Certificates that were made here are made
//! anew before they end.
//!
//! | | |
//! |---|---|
//! | near its end | a fifth of a certificate's time is left, but at most 14 days: a warning, twice a day |

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use flyball::{MoreMetrics, PeerStream, PeerTls, Securing};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::auto::Authority;
use super::configs::{Configs, Lifetime};
use super::handshake::{Surface, TlsPort};
use super::material::{Files, Material};
use super::numbers::Numbers;
use super::{TlsError, TlsSettings};

/// Between two readings that must agree.
const SETTLES: Duration = Duration::from_millis(100);
/// Readings of files that keep changing, before the last one is taken.
const READINGS_MAX: usize = 10;
/// Nothing asks to look at files when they are not looked at by themselves, but the time goes on.
const LOOK_AT_TIMES_EVERY: Duration = Duration::from_secs(60 * 60);
const WARN_EVERY: Duration = Duration::from_secs(12 * 60 * 60);
const NEAR_MAX_SECONDS: i64 = 14 * 24 * 60 * 60;

/// A daemon's TLS. Clones are the same.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: TlsSettings,
    configs: ArcSwap<Configs>,
    known: Mutex<Known>,
    numbers: Arc<Numbers>,
    wanted: Notify,
}

#[derive(Debug)]
struct Known {
    /// Those that the present certificates were made of, or that turned out to be wrong.
    files: Files,
    authority: Option<Authority>,
    /// What was last told about files that cannot be read.
    unreadable: Option<String>,
    warned: Option<SystemTime>,
    /// Of this node, as peers know it.
    host: Option<String>,
}

impl Tls {
    /// Reads all files, makes what has to be made, and is ready.
    ///
    /// # Errors
    /// A file cannot be used, or things do not fit together. The text names the file.
    pub fn start(settings: TlsSettings) -> Result<Self, TlsError> {
        let files = Files::read(&settings)?;
        let now = SystemTime::now();
        let mut authority = None;
        let material = Material::new(&settings, &files, &mut authority, now)?;
        let configs = Configs::new(&settings, material)?;
        let numbers = Arc::new(Numbers::default());
        numbers.set_lifetimes(&configs.lifetimes);
        let mut known = Known { files, authority, unreadable: None, warned: None, host: None };
        warn_of_ends(&configs.lifetimes, &mut known.warned, now);
        let configs = ArcSwap::from_pointee(configs);
        let known = Mutex::new(known);
        Ok(Self(Arc::new(Inner { settings, configs, known, numbers, wanted: Notify::new() })))
    }

    /// Looks at the files soon, and takes what they say even if they have not changed.
    pub fn reload(&self) {
        self.0.wanted.notify_one();
    }

    /// Warns of what peers will refuse, now and after each change. `host`: as peers know this node.
    pub(crate) fn known_as(&self, host: &str) {
        let mut known = self.known();
        known.host = Some(host.to_owned());
        self.warn_of_refusals(&known);
    }

    /// Follows the files, every so often (never when zero) and when asked. Never ends.
    pub(crate) async fn keep_current(self, every: Duration) {
        loop {
            let asked = tokio::select! {
                () = self.0.wanted.notified() => true,
                () = tokio::time::sleep(if every.is_zero() { LOOK_AT_TIMES_EVERY } else { every }) => false,
            };
            let tls = self.clone();
            let look_at_files = asked || !every.is_zero();
            let looked = tokio::task::spawn_blocking(move || {
                if look_at_files {
                    tls.look(asked, SystemTime::now());
                }
                tls.watch_times(SystemTime::now());
            });
            if looked.await.is_err() {
                tracing::error!("looking at certificates ended by a bug; the present ones stay");
            }
        }
    }

    /// Reads the files; if they have changed, or it was `asked` for, what they say comes into force.
    pub(super) fn look(&self, asked: bool, now: SystemTime) {
        let mut known = self.known();
        let files = match self.read_settled(&known.files) {
            Ok(files) => files,
            Err(error) => {
                let error = error.to_string();
                if asked || known.unreadable.as_ref() != Some(&error) {
                    self.refused(&error);
                    known.unreadable = Some(error);
                }
                return;
            }
        };
        known.unreadable = None;
        if files == known.files && !asked {
            return;
        }
        known.files = files;
        self.renew(&mut known, now);
    }

    /// Makes new configurations of what is known.
    fn renew(&self, known: &mut Known, now: SystemTime) {
        let made = Material::new(&self.0.settings, &known.files, &mut known.authority, now)
            .and_then(|material| Configs::new(&self.0.settings, material));
        match made {
            Ok(configs) => {
                self.0.numbers.set_lifetimes(&configs.lifetimes);
                self.0.numbers.reloaded.fetch_add(1, Relaxed);
                let until = configs.lifetimes.first().map(|life| life.until);
                self.0.configs.store(Arc::new(configs));
                tracing::info!(until, "certificates reloaded; new connections use them");
                known.warned = None;
                self.warn_of_refusals(known);
            }
            Err(error) => self.refused(&error.to_string()),
        }
    }

    fn refused(&self, error: &str) {
        self.0.numbers.reload_failed.fetch_add(1, Relaxed);
        tracing::error!(error, "certificates not reloaded; the present ones stay in use");
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "on a thread that may wait; files settle by the real clock"
    )]
    fn read_settled(&self, known: &Files) -> Result<Files, TlsError> {
        let mut files = Files::read(&self.0.settings);
        for _ in 1..READINGS_MAX {
            if files.as_ref().is_ok_and(|files| files == known) {
                break;
            }
            std::thread::sleep(SETTLES);
            let again = Files::read(&self.0.settings);
            if again == files {
                break;
            }
            files = again;
        }
        files
    }

    /// Makes certificates anew that were made here and will end, and warns of the others.
    pub(super) fn watch_times(&self, now: SystemTime) {
        let mut known = self.known();
        let lifetimes = self.configs().lifetimes.clone();
        let made_here =
            self.0.settings.auto && (self.0.settings.cert.is_none() || self.0.settings.key.is_none());
        if made_here && lifetimes.iter().any(|life| life.which == "server" && is_near(*life, now)) {
            self.renew(&mut known, now);
        }
        warn_of_ends(&self.configs().lifetimes, &mut known.warned, now);
    }

    fn warn_of_refusals(&self, known: &Known) {
        let Some(host) = &known.host else { return };
        for wrong in self.configs().what_peers_will_refuse(&self.0.settings, host) {
            tracing::warn!(
                "peers with the same settings will refuse this node: {wrong}; use a certificate that fits, or set \
                 GUBER_TLS_CLIENT_AUTH_SERVER_NAME to a name that it carries"
            );
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn configs(&self) -> Arc<Configs> {
        self.0.configs.load_full()
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.0.numbers
    }

    /// Whether a client's certificate, if there is one, was verified.
    pub(super) fn verifies_clients(&self) -> bool {
        self.0.settings.client_auth.is_some_and(crate::config::ClientAuth::verifies)
    }

    /// What a port serves its connections with.
    pub(crate) fn port(&self, surface: Surface) -> TlsPort {
        TlsPort::new(self.clone(), surface)
    }

    /// What calls to peers are secured with.
    pub fn peers(&self) -> Arc<dyn PeerTls> {
        Arc::new(Peers(self.clone()))
    }

    /// What is counted, for the metrics page.
    pub fn metrics(&self) -> Arc<dyn MoreMetrics> {
        Arc::clone(&self.0.numbers) as Arc<dyn MoreMetrics>
    }
}

#[derive(Debug)]
struct Peers(Tls);

impl PeerTls for Peers {
    fn secure(&self, host: &str, stream: TcpStream) -> Securing {
        let client = self.0.configs().peers.clone();
        let host = host.to_owned();
        Box::pin(async move {
            let secured = client.secure(&host, stream).await?;
            if secured.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(io::Error::other("the peer did not agree to speak HTTP/2"));
            }
            Ok(Box::new(secured) as Box<dyn PeerStream>)
        })
    }
}

fn seconds(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(since).unwrap_or(i64::MAX)
}

/// Whether the certificate should have been replaced by now.
fn is_near(life: Lifetime, now: SystemTime) -> bool {
    let whole = life.until.saturating_sub(life.from);
    life.until.saturating_sub(seconds(now)) < (whole / 5).min(NEAR_MAX_SECONDS)
}

fn warn_of_ends(lifetimes: &[Lifetime], warned: &mut Option<SystemTime>, now: SystemTime) {
    let recently = warned.is_some_and(|warned| now.duration_since(warned).is_ok_and(|ago| ago < WARN_EVERY));
    let ending: Vec<_> = lifetimes.iter().filter(|life| is_near(**life, now)).collect();
    if recently || ending.is_empty() {
        return;
    }
    *warned = Some(now);
    for life in ending {
        let left = life.until - seconds(now);
        let which = life.which;
        if left <= 0 {
            tracing::error!(
                which,
                "a certificate has expired {} h ago; it is refused by whoever verifies it",
                -left / 3_600
            );
        } else {
            tracing::warn!(which, "a certificate expires in {} h; replace its file", left / 3_600);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_a_fifth_but_at_most_fourteen_days() {
        let day = 24 * 60 * 60;
        let at = |seconds: i64| UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
        let year = Lifetime { which: "server", from: 0, until: 365 * day };
        assert!(
            !is_near(year, at(350 * day)) && is_near(year, at(352 * day)) && is_near(year, at(400 * day))
        );
        let short = Lifetime { which: "server", from: 0, until: day };
        assert!(!is_near(short, at(day * 3 / 4)) && is_near(short, at(day * 9 / 10)));
    }
}
