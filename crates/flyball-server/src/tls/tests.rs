//! Clients that begin a handshake and do not finish it.

use flyball::MoreMetrics as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::handshake::{Surface, WITHIN};
use super::{Tls, TlsSettings};

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_not_finished_in_time_is_given_up() {
    let names = vec!["localhost".to_owned()];
    let tls = Tls::start(TlsSettings { auto: true, names, ..TlsSettings::default() }).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for surface in Surface::ALL {
        // Nothing at all, and the beginning of a hello.
        for said in [&b""[..], &[22, 3, 1, 2]] {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.write_all(said).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let began = Instant::now();
            assert!(tls.port(surface).accept(stream).await.is_none());
            assert_eq!(began.elapsed().as_secs(), WITHIN.as_secs());
            // Whether it ends or is reset, it is over.
            assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
        }
    }
    let families = tls.numbers().families();
    let series =
        families.iter().filter(|it| it.name == "flyball_tls_handshakes_total").flat_map(|it| &it.series);
    let slow =
        series.filter(|(labels, _)| labels.contains(&("outcome", "slow".into()))).map(|(_, count)| count);
    assert_eq!(slow.map(|count| count.round() as u8).collect::<Vec<_>>(), [2, 2, 2]);
}
