//! A watched file as it is changed in real life. Time is paused: it passes when everybody waits.

use std::fs;
use std::path::Path;
use std::time::Duration;

use flyball_discovery::{FILE_BYTES_MAX, PeerInfo, Recover, Status, WatchedFile};
use tokio::time::{Instant, timeout};

/// Changes are seen within this time.
const PROMISED: Duration = Duration::from_secs(1);

fn watch(path: &Path) -> (Recover, Status) {
    let recover = Recover::new(Box::new(WatchedFile::new(path, 1051, "")), 1);
    let status = recover.status();
    (recover, status)
}

async fn addresses(recover: &mut Recover) -> Vec<String> {
    let start = Instant::now();
    let set = timeout(PROMISED, recover.next()).await.expect("news within the promised time");
    assert!(start.elapsed() < PROMISED);
    set.into_iter().map(|peer| peer.grpc_address).collect()
}

async fn no_news(recover: &mut Recover) {
    let news = timeout(Duration::from_secs(3), recover.next()).await;
    assert!(news.is_err(), "{news:?}");
}

fn complaint(status: &Status) -> String {
    status.snapshot().failing.expect("something is wrong").message
}

#[tokio::test(start_paused = true)]
async fn changes_are_seen_within_a_second_however_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    fs::write(&path, "a:1\nb # the port is the default\n").unwrap();
    let (mut recover, _) = watch(&path);
    assert_eq!(addresses(&mut recover).await, ["a:1", "b:1051"]);
    // In place, with the same length.
    fs::write(&path, "c:1\nb # the port is the default\n").unwrap();
    assert_eq!(addresses(&mut recover).await, ["b:1051", "c:1"]);
    // By another file that takes its place.
    let new = folder.path().join("peers.new");
    fs::write(&new, r#"[{"grpc-address": "d:1", "data-center": "east"}]"#).unwrap();
    fs::rename(&new, &path).unwrap();
    let set = timeout(PROMISED, recover.next()).await.unwrap();
    assert_eq!(set, [PeerInfo { data_center: "east".to_owned(), ..PeerInfo::new("d:1") }]);
    // Touched, but the same.
    fs::write(&path, r#"[{"grpc-address": "d:1", "data-center": "east"}]"#).unwrap();
    no_news(&mut recover).await;
}

/// A ConfigMap: the file is a link into `..data`, which is a link to a folder and is swapped as a whole.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_swapped_config_map_is_seen() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (version, text) in [("..one", "a:1"), ("..two", "a:1\nb:1")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("peers"), text).unwrap();
    }
    symlink("..one", at("..data")).unwrap();
    symlink("..data/peers", at("peers")).unwrap();
    let (mut recover, _) = watch(&at("peers"));
    assert_eq!(addresses(&mut recover).await, ["a:1"]);
    symlink("..two", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    fs::remove_dir_all(at("..one")).unwrap();
    assert_eq!(addresses(&mut recover).await, ["a:1", "b:1"]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_missing_or_empty_file_keeps_the_last_good_set_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    let (mut recover, status) = watch(&path);
    no_news(&mut recover).await;
    assert!(complaint(&status).contains("cannot read it: No such file"), "{}", complaint(&status));
    fs::write(&path, "a:1\nb:1\n").unwrap();
    assert_eq!(addresses(&mut recover).await, ["a:1", "b:1"]);
    assert_eq!(status.snapshot().failing, None);
    let shown = path.display().to_string();
    for (text, complains) in [
        ("a:1\nb:one\n", format!("{shown}:2: 'b:one' has no valid port; expected host:port")),
        ("", format!("{shown}:1: the file lists no peer; expected at least one line host:port")),
        ("[{\"grpc-address\": \"a:1\"},\n {\"grpc-ad", format!("{shown}:2: is no JSON list")),
    ] {
        fs::write(&path, text).unwrap();
        no_news(&mut recover).await;
        let message = complaint(&status);
        assert!(message.contains(&complains), "{message}");
        assert_eq!(status.snapshot().peers, 2);
        // Told once, not with every reading.
        assert_eq!(status.snapshot().failing.unwrap().times, status.snapshot().failures - 1);
    }
    fs::write(&path, "a:1\n".repeat(FILE_BYTES_MAX / 4 + 1)).unwrap();
    no_news(&mut recover).await;
    assert!(complaint(&status).contains("larger than 1048576 bytes"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    no_news(&mut recover).await;
    assert!(complaint(&status).contains("directory"));
    // What was good before is good again, and no news.
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "a:1\nb:1\n").unwrap();
    no_news(&mut recover).await;
    assert_eq!(status.snapshot().failing, None);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_written_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    fs::write(&path, "a:1\n").unwrap();
    let (mut recover, status) = watch(&path);
    assert_eq!(addresses(&mut recover).await, ["a:1"]);
    let text = "node-1:1051\nnode-2:1051\nnode-3:1051\n";
    for written in 0..text.len() {
        fs::write(&path, &text[..written]).unwrap();
        // Less than the time for which a change has to stay, and no divisor of it: a reading that begins when
        // this wait ends runs beside the next write.
        let news = timeout(Duration::from_millis(37), recover.next()).await;
        assert!(news.is_err(), "{written} bytes: {news:?}");
    }
    fs::write(&path, text).unwrap();
    assert_eq!(addresses(&mut recover).await, ["node-1:1051", "node-2:1051", "node-3:1051"]);
    assert_eq!(status.snapshot().failures, 0, "{:?}", status.snapshot());
}
