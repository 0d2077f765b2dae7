//! Certificates for tests, made when they run: two authorities, of which one is believed, and what they sign.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3_600);

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// It ended an hour ago.
    Expired,
    /// An authority signed it that nobody believes.
    Stranger,
}

/// A folder with certificates.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
    ours: Issuer<'static, KeyPair>,
    strangers: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// With the files `ca.pem`, `ca.key` and `stranger.pem`.
    pub fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let ours = authority(folder.path(), "ca")?;
        let strangers = authority(folder.path(), "stranger")?;
        Ok(Self { folder, ours, strangers })
    }

    /// A file in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// The same as text, for an environment variable.
    pub fn text(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    /// Makes `<file>.pem` and `<file>.key`, for a server or a client with these names and addresses. Files that are there
    /// are replaced, each in one step.
    pub fn issue(&self, file: &str, names: &[&str], flaw: Flaw) -> anyhow::Result<()> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let now = SystemTime::now();
        let end = if flaw == Flaw::Expired { now - HOUR } else { now + 30 * 24 * HOUR };
        (params.not_before, params.not_after) = ((now - 48 * HOUR).into(), end.into());
        let key = KeyPair::generate()?;
        let issuer = if flaw == Flaw::Stranger { &self.strangers } else { &self.ours };
        let certificate = params.signed_by(&key, issuer)?;
        self.write(&format!("{file}.key"), &key.serialize_pem())?;
        self.write(&format!("{file}.pem"), &certificate.pem())
    }

    /// Writes a file of the folder in one step.
    pub fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let new = self.path(&format!("{file}.new"));
        fs::write(&new, text)?;
        Ok(fs::rename(new, self.path(file))?)
    }

    /// A certificate that signed itself, as authority and all: `<file>.pem` and `<file>.key`.
    pub fn self_signed(&self, file: &str, names: &[&str]) -> anyhow::Result<()> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        self.write(&format!("{file}.key"), &key.serialize_pem())?;
        self.write(&format!("{file}.pem"), &certificate.pem())
    }
}

fn authority(folder: &Path, name: &str) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("flyball tests: {name}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - 48 * HOUR).into(), (now + 365 * 24 * HOUR).into());
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    fs::write(folder.join(format!("{name}.pem")), certificate.pem())?;
    fs::write(folder.join(format!("{name}.key")), key.serialize_pem())?;
    Ok(Issuer::new(params, key))
}
