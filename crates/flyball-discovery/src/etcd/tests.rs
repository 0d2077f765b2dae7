//! Settings, and an etcd that is not there. The rest is proved against real ones (`real_etcd`).

use tokio::net::TcpListener;

use super::*;
use crate::Recover;

fn settings(endpoints: &[&str]) -> EtcdSettings {
    EtcdSettings {
        endpoints: endpoints.iter().map(|text| EtcdEndpoint::parse(text).unwrap()).collect(),
        key_prefix: "/peers".to_owned(),
        own: PeerInfo::new("a:1"),
        dial_timeout: Duration::from_secs(5),
        user: Some(EtcdUser { name: "u".to_owned(), password: "hunter2".to_owned() }),
        tls: None,
    }
}

#[test]
fn settings_that_cannot_work_are_refused_and_passwords_never_shown() {
    let refused = |settings| Etcd::new(settings).unwrap_err().message;
    assert!(refused(settings(&[])).contains("endpoint"));
    assert!(refused(EtcdSettings { key_prefix: String::new(), ..settings(&["a"]) }).contains("prefix"));
    let tls = Some(EtcdTls { ca: Some("/nowhere/ca.pem".into()), ..EtcdTls::default() });
    assert!(refused(EtcdSettings { tls, ..settings(&["a"]) }).contains("/nowhere/ca.pem cannot be read"));
    let etcd = Etcd::new(settings(&["a", "https://b:1"])).unwrap();
    assert_eq!((etcd.kind(), etcd.origin().as_str()), ("etcd", "/peers of etcd at a:2379, https://b:1"));
    assert!(!format!("{etcd:?}").contains("hunter2"));
}

#[tokio::test]
async fn nobody_there_is_said_once_and_tried_again() {
    // Held and never answered: a port that nobody else gets meanwhile, and no HTTP/2 behind it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let short = EtcdSettings { dial_timeout: Duration::from_millis(50), ..settings(&[&closed, &silent]) };
    let mut peers = Recover::new(Box::new(Etcd::new(short).unwrap()), 1);
    let status = peers.status();
    let failing = async {
        loop {
            assert!(timeout(Duration::from_millis(20), peers.next()).await.is_err());
            if let Some(failing) = status.snapshot().failing {
                return failing.message;
            }
        }
    };
    let message = timeout(Duration::from_secs(30), failing).await.unwrap();
    assert!(
        message.contains(&format!("{closed}: ")) && message.contains(&format!("{silent}: ")),
        "{message}"
    );
    // Nobody to tell, so it does not take long.
    timeout(Duration::from_secs(30), peers.leave()).await.unwrap();
}
