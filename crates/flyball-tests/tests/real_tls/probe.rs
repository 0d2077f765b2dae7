//! What openssl's client is let in with: versions, suites, sessions, and what curl says.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;

use flyball_tests::secured::Secured;
use flyball_tests::tools::{Tool, run};

use super::nodes::Kind::Ours;
use super::nodes::{Cluster, certificates, told};

/// Everything that openssl's client wrote on one connection on which it says `said`.
fn s_client(address: SocketAddr, arguments: &[&str], said: &str) -> String {
    let mut command = Tool::Openssl.command();
    command.args(["s_client", "-connect", &address.to_string(), "-ign_eof"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Fails where it has ended before.
    let _ = input.write_all(said.as_bytes());
    drop(input);
    let output = child.wait_with_output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether a handshake came about, and with which suite.
fn suite(address: SocketAddr, arguments: &[&str]) -> Option<String> {
    // What is not HTTP ends the connection.
    let told = s_client(address, arguments, "nonsense\r\n\r\n");
    let line = told.lines().find_map(|line| line.split_once("Cipher is "))?;
    (line.1 != "(NONE)").then(|| line.1.to_owned())
}

/// With everything that openssl knows, however weak.
const WEAK: [&str; 2] = ["-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"];

#[test]
fn only_good_versions_and_suites_are_spoken() {
    let certificates = certificates(11);
    for (least, versions) in
        [("1.3", &["-tls1_3"][..]), ("1.2", &["-tls1_2", "-tls1_3"]), ("1.0", &["-tls1_2", "-tls1_3"])]
    {
        let mut variables = told(&certificates, "node");
        variables.push(("GUBER_TLS_MIN_VERSION".into(), least.into()));
        variables.push(("GUBER_STATUS_HTTP_ADDRESS".into(), "127.32.11.1:1040".into()));
        let cluster = Cluster::start(11, &[Ours], &variables, Secured::new(&certificates));
        let node = &cluster.nodes[0];
        for address in [node.grpc, node.http, SocketAddr::new(node.http.ip(), 1040)] {
            for version in ["-tls1", "-tls1_1", "-tls1_2", "-tls1_3"] {
                let spoken = suite(address, &[&[version][..], &WEAK].concat());
                assert_eq!(spoken.is_some(), versions.contains(&version), "{least} {version}: {spoken:?}");
            }
        }
        if least == "1.2" {
            let listed = run(Tool::Openssl.command().args(["ciphers", "-tls1_2", WEAK[1]])).unwrap();
            let all = listed.expect_success();
            let taken: Vec<_> = all
                .trim()
                .split(':')
                .filter(|name| !name.starts_with("TLS_"))
                .filter(|name| {
                    suite(node.http, &["-tls1_2", "-cipher", &format!("{name}:@SECLEVEL=0")]).is_some()
                })
                .collect();
            assert!(all.split(':').count() > 50, "openssl knows weak ones: {all}");
            // Forward secret and authenticated, all of them.
            let mut expected = [
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
                "ECDHE-ECDSA-AES128-GCM-SHA256",
            ];
            let mut taken = taken;
            taken.sort_unstable();
            expected.sort_unstable();
            assert_eq!(taken, expected);
        }
    }
}

#[test]
fn nothing_is_compressed_or_renegotiated_and_what_is_agreed_on_is_what_is_spoken() {
    let certificates = certificates(12);
    let mut variables = told(&certificates, "node");
    variables.push(("GUBER_TLS_MIN_VERSION".into(), "1.2".into()));
    let cluster = Cluster::start(12, &[Ours], &variables, Secured::new(&certificates));
    let node = &cluster.nodes[0];
    let told = s_client(
        node.http,
        &["-tls1_2", "-alpn", "http/1.1"],
        "GET /v1/LiveCheck HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    for expected in [
        "Compression: NONE",
        "Secure Renegotiation IS supported",
        "ALPN protocol: http/1.1",
        "HTTP/1.1 200 OK",
    ] {
        assert!(told.contains(expected), "no {expected:?} in\n{told}");
    }
    // `R` asks for a new handshake on the connection that is there. It is refused.
    let told = s_client(node.http, &["-tls1_2"], "R\nnonsense\r\n\r\n");
    assert!(!told.contains("200 OK"), "{told}");
    for (address, asked, agreed) in [
        (node.http, "h2,http/1.1", "ALPN protocol: h2"),
        (node.grpc, "h2", "ALPN protocol: h2"),
        (node.http, "http/1.1", "ALPN protocol: http/1.1"),
    ] {
        let told = s_client(address, &["-alpn", asked], "nonsense\r\n\r\n");
        assert!(told.contains(agreed), "{asked}: {told}");
    }
    let told = s_client(node.grpc, &["-alpn", "http/1.1"], "nonsense\r\n\r\n");
    assert!(told.contains("no application protocol"), "gRPC is HTTP/2: {told}");
}

/// A session from the listener that asks for no certificate does not open the one that does.
#[test]
fn sessions_of_one_port_are_worth_nothing_on_another() {
    let certificates = certificates(13);
    for version in ["-tls1_2", "-tls1_3"] {
        let mut variables = told(&certificates, "node");
        for (name, value) in [
            ("GUBER_TLS_MIN_VERSION", "1.2"),
            ("GUBER_TLS_CLIENT_AUTH", "require-and-verify"),
            ("GUBER_STATUS_HTTP_ADDRESS", "127.32.13.1:1040"),
        ] {
            variables.push((name.into(), value.into()));
        }
        let client = Secured::new(&certificates).showing(&certificates, "good");
        let cluster = Cluster::start(13, &[Ours], &variables, client);
        let (http, status) = (cluster.nodes[0].http, SocketAddr::new(cluster.nodes[0].http.ip(), 1040));
        let session = certificates.text("session");
        let ask = "GET /v1/HealthCheck HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let first = s_client(status, &[version, "-sess_out", &session], ask);
        assert!(first.contains("200 OK"), "{first}");
        let again = s_client(status, &[version, "-sess_in", &session], ask);
        assert!(again.contains("200 OK") && again.contains("Reused, "), "{again}");
        let elsewhere = s_client(http, &[version, "-sess_in", &session], ask);
        assert!(!elsewhere.contains("200 OK"), "{elsewhere}");
    }
}

/// Field report P32 as it was told: curl without a certificate.
#[test]
fn p32_curl_without_a_certificate() {
    let certificates = certificates(14);
    let mut variables = told(&certificates, "node");
    variables.push(("GUBER_TLS_CLIENT_AUTH".into(), "require-and-verify".into()));
    variables.push(("GUBER_STATUS_HTTP_ADDRESS".into(), "127.32.14.1:1040".into()));
    let client = Secured::new(&certificates).showing(&certificates, "good");
    let cluster = Cluster::start(14, &[Ours], &variables, client);
    let ca = certificates.text("ca.pem");
    let curl = |url: &str, more: &[&str]| {
        let mut command = Tool::Curl.command();
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "--cacert", &ca]);
        run(command.args(more).arg(url)).unwrap()
    };
    let http = cluster.nodes[0].http;
    assert!(!curl(&format!("https://{http}/v1/HealthCheck"), &[]).success);
    for path in ["v1/HealthCheck", "metrics", "readyz"] {
        assert_eq!(curl(&format!("https://127.32.14.1:1040/{path}"), &[]).expect_success(), "200 2");
    }
    assert_eq!(curl("https://127.32.14.1:1040/v1/GetRateLimits", &[]).expect_success(), "404 2");
    let (cert, key) = (certificates.text("good.pem"), certificates.text("good.key"));
    let shown = ["--cert", cert.as_str(), "--key", &key];
    assert_eq!(curl(&format!("https://{http}/v1/HealthCheck"), &shown).expect_success(), "200 2");
    let old = [&shown[..], &["--http1.1"]].concat();
    assert_eq!(curl(&format!("https://{http}/v1/HealthCheck"), &old).expect_success(), "200 1.1");
    assert_eq!(curl(&format!("http://{http}/v1/HealthCheck"), &[]).expect_success(), "400 1");
}
