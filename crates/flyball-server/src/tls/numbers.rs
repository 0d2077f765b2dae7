//! What is counted about TLS, for the metrics page. All labels come from fixed lists.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball::{Family, FamilyKind, MoreMetrics};

use super::configs::Lifetime;
use super::handshake::{Outcome, Surface};

/// See [the module](self).
#[derive(Debug, Default)]
pub(super) struct Numbers {
    handshakes: [[AtomicU64; Outcome::ALL.len()]; Surface::ALL.len()],
    pub(super) reloaded: AtomicU64,
    pub(super) reload_failed: AtomicU64,
    lifetimes: Mutex<Vec<Lifetime>>,
}

impl Numbers {
    pub(super) fn handshake(&self, surface: Surface, outcome: Outcome) {
        self.handshakes[surface as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn set_lifetimes(&self, lifetimes: &[Lifetime]) {
        *self.lifetimes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = lifetimes.to_vec();
    }
}

impl MoreMetrics for Numbers {
    fn families(&self) -> Vec<Family> {
        let mut handshakes = Vec::new();
        for surface in Surface::ALL {
            for outcome in Outcome::ALL {
                let count = self.handshakes[surface as usize][outcome as usize].load(Relaxed);
                let labels = vec![
                    ("listener", Cow::Borrowed(surface.label())),
                    ("outcome", Cow::Borrowed(outcome.label())),
                ];
                handshakes.push((labels, count as f64));
            }
        }
        let lifetimes = self.lifetimes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ends = lifetimes.iter().map(|life| (vec![("certificate", life.which.into())], life.until as f64));
        let reloads = [("failed", &self.reload_failed), ("ok", &self.reloaded)];
        vec![
            Family {
                name: "flyball_tls_certificate_expiry_timestamp_seconds",
                help: "When the certificate in use ends, in seconds since 1970; of several the first.",
                kind: FamilyKind::Gauge,
                series: ends.collect(),
            },
            Family {
                name: "flyball_tls_handshakes_total",
                help: "TLS handshakes, by listener and how they ended.",
                kind: FamilyKind::Counter,
                series: handshakes,
            },
            Family {
                name: "flyball_tls_reloads_total",
                help: "Times certificates were read again because files changed or somebody asked, by outcome.",
                kind: FamilyKind::Counter,
                series: reloads
                    .into_iter()
                    .map(|(outcome, count)| (vec![("outcome", outcome.into())], count.load(Relaxed) as f64))
                    .collect(),
            },
        ]
    }
}
