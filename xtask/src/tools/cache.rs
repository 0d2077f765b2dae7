//! Where installed tools are kept: one folder per tool and version, outside the work tree, so that the next run
//! is quick and another clone shares them.
//!
//! A folder under its final name is complete: tools are installed into a temporary folder beside it, which is
//! renamed when all went well. Two runs at once both install, and the later rename loses.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use anyhow::{Context, Result, anyhow};

/// The folder of all tools: `$FLYBALL_TOOLS`, or `flyball-tools` in the user's cache folder.
pub fn folder() -> Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("FLYBALL_TOOLS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("flyball-tools")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/flyball-tools")))
        .ok_or_else(|| anyhow!("neither FLYBALL_TOOLS nor HOME is set: say where tools can be kept"))?;
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the tool cache {}", folder.display()))?;
    folder.canonicalize().with_context(|| format!("cannot use the tool cache {}", folder.display()))
}

/// The folder `name` in `cache`; made by `install`, which is given a temporary folder, if it is not there.
pub fn kept(cache: &Path, name: &str, install: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let wanted = cache.join(name);
    if wanted.is_dir() {
        return Ok(wanted);
    }
    remove_abandoned(cache, name);
    let fresh = cache.join(format!("{TEMPORARY}{name}.{}", std::process::id()));
    fs::create_dir_all(&fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
    let done = install(&fresh).and_then(|()| publish(&fresh, &wanted));
    if done.is_err() {
        let _ = fs::remove_dir_all(&fresh);
    }
    done.map(|()| wanted)
}

const TEMPORARY: &str = ".installing-";

fn publish(fresh: &Path, wanted: &Path) -> Result<()> {
    match fs::rename(fresh, wanted) {
        Err(_) if wanted.is_dir() => fs::remove_dir_all(fresh).context("cannot remove the second copy"),
        other => other.with_context(|| format!("cannot rename {} to {}", fresh.display(), wanted.display())),
    }
}

/// Temporary folders of runs that were killed.
fn remove_abandoned(cache: &Path, name: &str) {
    let prefix = format!("{TEMPORARY}{name}.");
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let pid = file_name.to_str().and_then(|file| file.strip_prefix(&prefix));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A name for the content of these files and folders: changes when any of their bytes or names does. FNV-1a over
/// names and contents in sorted order.
pub fn fingerprint(paths: &[PathBuf], extra: &str) -> Result<String> {
    let mut hash = Fnv::default();
    hash.write(extra.as_bytes());
    for path in paths {
        add(&mut hash, path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(format!("{:016x}", hash.0))
}

fn add(hash: &mut Fnv, path: &Path) -> io::Result<()> {
    hash.write(path.file_name().unwrap_or_default().as_encoded_bytes());
    if path.is_dir() {
        let mut inside = fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
        inside.sort();
        inside.iter().try_for_each(|path| add(hash, path))
    } else {
        hash.write(&fs::read(path)?);
        Ok(())
    }
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// The length goes in too, so that bytes cannot move from one part to the next unnoticed.
    fn write(&mut self, bytes: &[u8]) {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("flyball-xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn only_a_complete_install_is_kept() {
        let cache = scratch("cache");
        let half = kept(&cache, "thing-1", |folder| {
            fs::write(folder.join("half"), "x").unwrap();
            Err(anyhow!("no network"))
        });
        assert_eq!(half.unwrap_err().to_string(), "no network");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);

        let whole = kept(&cache, "thing-1", |folder| Ok(fs::write(folder.join("whole"), "x")?)).unwrap();
        assert!(whole.join("whole").is_file());
        let again = kept(&cache, "thing-1", |_| panic!("it is there already")).unwrap();
        assert_eq!(again, whole);
        fs::remove_dir_all(cache).unwrap();
    }

    #[test]
    fn what_another_run_finished_meanwhile_wins() {
        let cache = scratch("race");
        let wanted = kept(&cache, "thing-1", |folder| {
            fs::create_dir(cache.join("thing-1"))?;
            fs::write(cache.join("thing-1/theirs"), "x")?;
            Ok(fs::write(folder.join("ours"), "x")?)
        });
        assert!(wanted.unwrap().join("theirs").is_file());
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
        fs::remove_dir_all(cache).unwrap();
    }

    #[test]
    fn a_killed_run_leaves_nothing_for_long() {
        let cache = scratch("killed");
        // No process has this number: Linux stops at 2^22.
        fs::create_dir(cache.join(".installing-thing-1.4194305")).unwrap();
        kept(&cache, "thing-1", |_| Ok(())).unwrap();
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
        fs::remove_dir_all(cache).unwrap();
    }

    #[test]
    fn a_fingerprint_sees_every_byte_and_name() {
        let folder = scratch("print");
        let file = folder.join("a");
        fs::write(&file, "one").unwrap();
        let print = |extra: &str| fingerprint(std::slice::from_ref(&folder), extra).unwrap();
        let first = print("");
        assert_eq!(first, print(""));
        assert_ne!(first, print("x"));
        fs::write(&file, "two").unwrap();
        let second = print("");
        assert_ne!(first, second);
        fs::rename(&file, folder.join("b")).unwrap();
        assert_ne!(second, print(""));
        fs::remove_dir_all(folder).unwrap();
    }
}
