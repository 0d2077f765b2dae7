//! The admin page in a real browser: headless Chromium loads it, runs its script under its own policy, and what is
//! then in the document is looked at. Chromium's time is virtual: seconds of polling pass as fast as answers come.
//!
//! Screenshots stay in Cargo's folder for tests' files, for people; a test prints where.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use flyball_tests::binary::{Launch, Server, clean};
use flyball_tests::http::{Request, Response};
use flyball_tests::tools::{Output, Tool, run};
use flyball_tests::wait::sleep_ms;
use serde_json::{Value, json};

/// A key that would show at once if it were taken for markup.
const HOSTILE: &str =
    "</bdi></table><img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>";

/// Chromium, alone in a fresh profile, that finds no host but this machine and `elsewhere.test`, which is this
/// machine too.
fn chromium(profile: &Path, arguments: &[&str], url: &str) -> Output {
    let mut command = clean(&Tool::Chromium.path());
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.args([
        "--headless=new",
        // As root there is no other way; it loads nothing but our own page.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-extensions",
        "--disable-sync",
        "--no-first-run",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--host-resolver-rules=MAP elsewhere.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ]);
    let output = run(command.args(arguments).arg(url)).unwrap();
    assert!(!output.stderr.contains("Content Security Policy"), "the page breaks its own rules:\n{output:?}");
    assert!(!output.stderr.contains("Uncaught"), "the script failed:\n{output:?}");
    output
}

/// The document after so many seconds of its own time.
fn document(url: &str, seconds: u32) -> String {
    let profile = tempfile::tempdir().unwrap();
    let budget = format!("--virtual-time-budget={}", seconds * 1_000);
    chromium(profile.path(), &[&budget, "--dump-dom"], url).expect_success()
}

/// Width and height, and the picture's file.
fn screenshot(url: &str, name: &str, (width, height): (u32, u32), more: &[&str]) -> PathBuf {
    let profile = tempfile::tempdir().unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("admin-{name}.png"));
    let _ = std::fs::remove_file(&file);
    let (size, target) =
        (format!("--window-size={width},{height}"), format!("--screenshot={}", file.display()));
    let mut arguments = vec!["--virtual-time-budget=60000", &size, &target];
    arguments.extend_from_slice(more);
    chromium(profile.path(), &arguments, url).expect_success();
    let picture = std::fs::read(&file).unwrap();
    let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), (width, height), "{}", file.display());
    // An empty page of this size compresses to a few kilobytes.
    assert!(picture.len() > 30_000, "{} bytes: {}", picture.len(), file.display());
    println!("{}", file.display());
    file
}

/// The text of the element with this id, as it stands in the document.
fn inside<'d>(document: &'d str, id: &str) -> &'d str {
    let (_, rest) =
        document.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {document}"));
    let (_, rest) = rest.split_once('>').unwrap();
    rest.split_once('<').unwrap().0
}

/// Asks the node as fast as it answers until it is dropped: of 20 checks of a limit of 5 each second call, most are
/// refused.
struct Traffic {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    fn on(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut connection = server.connect();
        let item = |key: &str| json!({"name": "logins", "unique_key": key, "hits": 1, "limit": 5, "duration": 3_600_000});
        let items: Vec<Value> =
            (0..20).map(|n| item(if n % 2 == 0 { HOSTILE } else { "account:17" })).collect();
        let request = Request::post("/v1/GetRateLimits", json!({ "requests": items }).to_string());
        let until = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                assert_eq!(connection.send(&request).unwrap().status, 200);
                sleep_ms(1);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the traffic failed");
    }
}

#[test]
fn a_running_node_shows_what_happens_in_it() {
    let server = Launch::flyball().start().unwrap();
    let traffic = Traffic::on(&server);
    let url = format!("http://{}/", server.http());
    let page = document(&url, 8);
    assert_eq!(inside(&page, "state"), "Ready", "{page}");
    assert_eq!(inside(&page, "address"), server.grpc().to_string());
    assert_eq!(inside(&page, "peercount"), "a cluster of one");
    for measured in ["load", "refuse", "latency", "memory"] {
        let value = inside(&page, measured);
        assert!(value.starts_with(|c: char| c.is_ascii_digit() || c == '>'), "{measured}: {value}");
    }
    assert!(page.contains("account:17"), "{page}");
    // As text, and as nothing else.
    assert!(page.contains("&lt;/bdi&gt;&lt;/table&gt;&lt;img src=x onerror="), "{page}");
    assert!(!page.contains("<img"), "{page}");
    assert_eq!(page.matches("<script").count(), 1, "{page}");
    assert!(page.contains(&format!("<title>{} · flyball</title>", server.grpc())), "{page}");
    screenshot(&url, "running", (1360, 1120), &[]);
    drop(traffic);
    server.stop().unwrap();
}

#[test]
fn under_a_foreign_name_there_is_nothing_to_see() {
    let server = Launch::flyball().start().unwrap();
    let page = document(&format!("http://elsewhere.test:{}/", server.http().port()), 1);
    assert!(page.contains("the admin page answers here only under localhost"), "{page}");
    server.stop().unwrap();

    let server = Launch::flyball().variable("FLYBALL_HTTP_ADMIN", "on").start().unwrap();
    let page = document(&format!("http://elsewhere.test:{}/", server.http().port()), 3);
    assert_eq!(inside(&page, "state"), "Ready", "{page}");
    server.stop().unwrap();

    let server = Launch::flyball().variable("FLYBALL_HTTP_ADMIN", "off").start().unwrap();
    let page = document(&format!("http://{}/", server.http()), 1);
    assert!(page.contains(r#"{"code":5,"message":"Not Found","details":[]}"#), "{page}");
    server.stop().unwrap();
}

/// The page of a real node in front of made-up overviews, a second apart: what takes a large or a sick cluster to see.
struct Stage {
    address: SocketAddr,
}

impl Stage {
    /// Tells `overview(n)` the `n`th time it is asked, and hangs up instead after `times`.
    fn new(page: Response, times: usize, overview: impl Fn(usize) -> Value + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = AtomicUsize::new(0);
        // Ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(&stream, &page, times, &asked, &overview);
            }
        });
        Self { address }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

fn serve(
    mut stream: &TcpStream,
    page: &Response,
    times: usize,
    asked: &AtomicUsize,
    overview: &impl Fn(usize) -> Value,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (content_type, body) = if first.starts_with("GET / ") {
        ("text/html; charset=utf-8", page.body.clone())
    } else if first.starts_with("GET /v1/admin/overview ") {
        let n = asked.fetch_add(1, Ordering::Relaxed);
        if n >= times {
            return Ok(());
        }
        ("application/json", overview(n).to_string().into_bytes())
    } else {
        return Ok(());
    };
    let policy = page.header("content-security-policy").unwrap_or_default();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Content-Security-Policy: {policy}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

/// The page and an overview of a real node, so that what is made up has the real form.
fn model() -> (Response, Value) {
    let server = Launch::flyball().start().unwrap();
    let mut connection = server.connect();
    let page = connection.send(&Request::get("/")).unwrap();
    let overview = connection.send(&Request::get("/v1/admin/overview")).unwrap().json().unwrap();
    server.stop().unwrap();
    (page, overview)
}

/// The model after `n` seconds of traffic.
fn later(model: &Value, n: usize) -> Value {
    let mut all = model.clone();
    let n = n as u64;
    // Ten seconds of a flood.
    let flood = n.saturating_sub(25).min(10);
    all["uptime_ms"] = json!(500_000_000 + 1_000 * n);
    all["now_ms"] = json!(all["started_ms"].as_u64().unwrap() + 500_000_000 + 1_000 * n);
    all["checks"]["decided"] = json!(1_000_000 + 40_000 * n + 20_000 * flood + 700 * (n % 3) * (n % 5));
    all["checks"]["refused"] = json!(50_000 + 900 * n + 18_000 * flood + 40 * (n % 4));
    all["checks"]["errors"] = json!([{"cause": "Invalid request", "count": 17}]);
    all["store"]["bytes"] = json!(61_000_000);
    all["store"]["entries"] = json!(412_000);
    all["calls"][0]["succeeded"] = json!(5_000 * n);
    all["calls"][0]["latency"] = json!({"p50_us": 11.2, "p99_us": 186.4, "max_us": 4_310.0});
    let key = |rank: u64| {
        let (name, unique_key) = match rank % 3 {
            0 => ("requests_per_minute", format!("account:{}", 4_700 + rank)),
            1 => ("logins", format!("203.0.113.{}", 17 * rank)),
            _ => ("mail_out", format!("tenant:{}", 40 + rank)),
        };
        json!({"name": name, "unique_key": unique_key, "hits": (4_000 + 60 * n) * 9 / (rank + 2), "error": rank})
    };
    all["top"]["keys"] = (0..12).map(key).collect();
    all
}

fn with_peers(mut overview: Value, count: usize) -> Value {
    let own = overview["peers"][0].clone();
    let peer = |index: usize| {
        let mut peer = own.clone();
        peer["is_self"] = json!(index == 0);
        peer["grpc_address"] = json!(format!("192.0.2.{}:1051", index + 10));
        peer["share"] = json!(1.0 / count as f64);
        peer["queued"] = json!(index * 7 % 31);
        peer["in_flight"] = json!(index * 40 % 170);
        peer["calls"] = json!(index * 251_927);
        if index == 1 {
            peer["state"] = json!("down");
            peer["since_ms"] = json!(overview["now_ms"].as_u64().unwrap() - 37_000);
            peer["last_error"] = json!("<b>connection refused</b>");
            peer["last_error_age_ms"] = json!(1_200);
            peer["failures"] = json!(312);
        }
        peer
    };
    let peers: Value = (0..count).map(peer).collect();
    overview["peers"] = peers;
    overview["peers_total"] = json!(count);
    overview
}

#[test]
fn peers_that_are_down_come_first_and_long_lists_are_cut() {
    let (page, overview) = model();
    let stage = Stage::new(page.clone(), usize::MAX, {
        let overview = overview.clone();
        move |n| with_peers(later(&overview, n), 150)
    });
    let page_then = document(&stage.url(), 5);
    assert_eq!(inside(&page_then, "peercount"), "150 nodes, 1 down");
    assert_eq!(inside(&page_then, "morepeers"), "and 50 more; see /v1/admin/peers");
    assert!(page_then.contains("&lt;b&gt;connection refused&lt;/b&gt; (1 s ago)"), "{page_then}");
    let (own, down, up) = (
        page_then.find("192.0.2.10:1051").unwrap(),
        page_then.find("192.0.2.11:1051").unwrap(),
        page_then.find("192.0.2.12:1051").unwrap(),
    );
    assert!(own < down && down < up);

    let stage = |page: &Response, count: usize| {
        let overview = overview.clone();
        Stage::new(page.clone(), usize::MAX, move |n| with_peers(later(&overview, n), count)).url()
    };
    screenshot(&stage(&page, 3), "light", (1280, 1080), &[]);
    screenshot(&stage(&page, 3), "dark", (1360, 1120), &["--blink-settings=preferredColorScheme=0"]);
    screenshot(&stage(&page, 43), "narrow", (500, 2_400), &[]);
    screenshot(&stage(&page, 43), "many-peers", (1360, 1500), &[]);
}

#[test]
fn a_node_that_is_gone_is_said_to_be_gone() {
    let (page, overview) = model();
    let stage = Stage::new(page, 4, move |n| later(&overview, n));
    let page = document(&stage.url(), 12);
    assert_eq!(inside(&page, "state"), "No answer", "{page}");
    assert!(inside(&page, "note").contains("it cannot be reached"), "{page}");
    assert!(page.contains("<title>No answer · flyball</title>"), "{page}");
    // With its last numbers.
    assert!(page.contains("account:4700"), "{page}");
    assert!(page.contains("<body class=\"stale\">"), "{page}");
}

#[test]
fn a_draining_node_says_so() {
    let (page, mut overview) = model();
    overview["ready"] = json!(false);
    let stage = Stage::new(page, usize::MAX, move |n| later(&overview, n));
    assert_eq!(inside(&document(&stage.url(), 3), "state"), "Draining");
}
