//! The encryption around packets and streams: AES-GCM by keys that all nodes share.
//!
//! A sealed text is `[version][nonce, 12 bytes][text and tag]`. Version 1 is written. Version 0, whose text is padded
//! to whole blocks, is read: very old nodes send it. The first key of the ring seals, each is tried to open, so that a
//! key can be exchanged node by node.

use std::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload, consts::U12};
use aes_gcm::aes::Aes192;
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const VERSION: u8 = 1;
/// The text is padded.
const VERSION_PADDED: u8 = 0;
const NONCE: usize = 12;
const TAG: usize = 16;
const BLOCK: usize = 16;

/// What sealing adds, in bytes.
pub(crate) const OVERHEAD: usize = 1 + NONCE + TAG;

/// Most keys of a ring: two while one takes the other's place, and some more.
const KEYS_MAX: usize = 16;

/// The keys of a cluster. Printing it shows how many there are, not which.
#[derive(Clone, Default)]
pub struct Keyring(Vec<Key>);

#[derive(Clone)]
enum Key {
    Aes128(Box<Aes128Gcm>),
    Aes192(Box<AesGcm<Aes192, U12>>),
    Aes256(Box<Aes256Gcm>),
}

impl Keyring {
    /// A comma separated list of keys in standard base64, of 16, 24 or 32 bytes each; the first one seals.
    ///
    /// # Errors
    /// Says which entry is wrong, by its place and without its text, and what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (place, entry) in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).enumerate() {
            let key = STANDARD.decode(entry).ok().and_then(|bytes| Key::new(&bytes));
            let place = place + 1;
            keys.push(key.ok_or_else(|| {
                format!("key {place} is no key; expected 16, 24 or 32 bytes in base64, as by: openssl rand -base64 32")
            })?);
        }
        match keys.len() {
            0..=KEYS_MAX => Ok(Self(keys)),
            count => Err(format!("{count} keys; expected at most {KEYS_MAX}")),
        }
    }

    /// Whether nothing is encrypted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Seals by the first key; `None` without keys. The nonce must never have been used before. `beside` is not
    /// in the sealed text, but opening it needs the same.
    pub(crate) fn seal(&self, text: &[u8], beside: &[u8], nonce: [u8; NONCE]) -> Option<Vec<u8>> {
        let sealed = self.0.first()?.seal(text, beside, nonce)?;
        let mut out = Vec::with_capacity(1 + NONCE + sealed.len());
        out.push(VERSION);
        out.extend(nonce);
        out.extend(sealed);
        Some(out)
    }

    /// Opens by whichever key fits; `None` when none does.
    pub(crate) fn open(&self, sealed: &[u8], beside: &[u8]) -> Option<Vec<u8>> {
        let (version, rest) = sealed.split_first()?;
        let (nonce, text) = rest.split_first_chunk::<NONCE>()?;
        if !matches!(*version, VERSION | VERSION_PADDED) || text.len() < TAG {
            return None;
        }
        let opened = self.0.iter().find_map(|key| key.open(text, beside, *nonce))?;
        match *version {
            VERSION_PADDED => unpad(opened),
            _ => Some(opened),
        }
    }
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Self> {
        Some(match bytes.len() {
            16 => Self::Aes128(Box::new(Aes128Gcm::new_from_slice(bytes).ok()?)),
            24 => Self::Aes192(Box::new(AesGcm::new_from_slice(bytes).ok()?)),
            32 => Self::Aes256(Box::new(Aes256Gcm::new_from_slice(bytes).ok()?)),
            _ => return None,
        })
    }

    fn seal(&self, msg: &[u8], aad: &[u8], nonce: [u8; NONCE]) -> Option<Vec<u8>> {
        let (nonce, payload) = (nonce.into(), Payload { msg, aad });
        match self {
            Self::Aes128(key) => key.encrypt(&nonce, payload),
            Self::Aes192(key) => key.encrypt(&nonce, payload),
            Self::Aes256(key) => key.encrypt(&nonce, payload),
        }
        .ok()
    }

    fn open(&self, msg: &[u8], aad: &[u8], nonce: [u8; NONCE]) -> Option<Vec<u8>> {
        let (nonce, payload) = (nonce.into(), Payload { msg, aad });
        match self {
            Self::Aes128(key) => key.decrypt(&nonce, payload),
            Self::Aes192(key) => key.decrypt(&nonce, payload),
            Self::Aes256(key) => key.decrypt(&nonce, payload),
        }
        .ok()
    }
}

/// Takes off the padding to whole blocks, whose every byte is its length.
fn unpad(mut text: Vec<u8>) -> Option<Vec<u8>> {
    let length = usize::from(*text.last()?);
    let kept = text.len().checked_sub(length).filter(|_| (1..=BLOCK).contains(&length))?;
    let is_padding = text[kept..].iter().all(|byte| usize::from(*byte) == length);
    text.truncate(kept);
    is_padding.then_some(text)
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} keys)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[&[u8]]) -> Keyring {
        let texts: Vec<_> = keys.iter().map(|key| STANDARD.encode(key)).collect();
        Keyring::parse(&texts.join(" , ")).unwrap()
    }

    #[test]
    fn every_size_of_key_opens_what_it_sealed_and_nothing_else() {
        for size in [16, 24, 32] {
            let keys = ring(&[&vec![7; size]]);
            let sealed = keys.seal(b"text", b"beside", [1; 12]).unwrap();
            assert_eq!(sealed.len(), 4 + OVERHEAD);
            assert_eq!(keys.open(&sealed, b"beside").as_deref(), Some(&b"text"[..]));
            assert_eq!(keys.open(&sealed, b""), None);
            assert_eq!(ring(&[&vec![8; size]]).open(&sealed, b"beside"), None);
            for place in 0..sealed.len() {
                let mut broken = sealed.clone();
                broken[place] ^= 1;
                assert_eq!(keys.open(&broken, b"beside"), None, "byte {place}");
                assert_eq!(keys.open(&sealed[..place], b"beside"), None, "{place} bytes");
            }
        }
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let (old, new) = (ring(&[&[1; 16]]), ring(&[&[2; 32], &[1; 16]]));
        let sealed = old.seal(b"text", b"", [1; 12]).unwrap();
        assert_eq!(new.open(&sealed, b"").as_deref(), Some(&b"text"[..]));
        assert_eq!(old.open(&new.seal(b"text", b"", [2; 12]).unwrap(), b""), None);
        assert_eq!(Keyring::default().seal(b"text", b"", [1; 12]), None);
        assert_eq!(Keyring::default().open(&sealed, b""), None);
    }

    #[test]
    fn padded_texts_of_old_nodes_are_read() {
        let key = Key::new(&[1; 16]).unwrap();
        let keys = ring(&[&[1; 16]]);
        for (text, opened) in [
            (&b"0123456789\x06\x06\x06\x06\x06\x06"[..], Some(&b"0123456789"[..])),
            (&[16; 16][..], Some(&b""[..])),
            (b"0123456789\x06\x06\x05\x06\x06\x06", None),
            (b"012345678901234\x00", None),
            (b"0123456789012345678901234567890\x11", None),
            (b"", None),
        ] {
            let mut sealed = vec![VERSION_PADDED];
            sealed.extend([3; NONCE]);
            sealed.extend(key.seal(text, b"", [3; NONCE]).unwrap());
            assert_eq!(keys.open(&sealed, b"").as_deref(), opened, "{text:?}");
        }
    }

    #[test]
    fn a_bad_key_is_named_by_its_place_and_not_shown() {
        let good = STANDARD.encode([1; 16]);
        for bad in ["secret", "c2hvcnQ=", "not base64!"] {
            let error = Keyring::parse(&format!("{good},{bad}")).unwrap_err();
            assert!(error.contains("key 2") && error.contains("base64") && !error.contains(bad), "{error}");
        }
        assert!(Keyring::parse(" , ").unwrap().is_empty());
        assert!(Keyring::parse(&vec![good; 17].join(",")).unwrap_err().contains("17 keys"));
    }
}
