//! `flyball healthcheck`: is the node healthy? For containers that have no curl.
//!
//! Three outcomes, three exit codes: the node says it is healthy (0), the node says it is not (2), nobody who
//! could know was reached (1). Every attempt is bounded in time and in bytes read.

use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_server::tls::TlsClient;
use http::StatusCode;
use serde::Deserialize;

use crate::address;
use crate::exit::Exit;
use crate::fetch;
use crate::limit;
use crate::output::{self, BAD, GOOD};
use crate::tls;

/// Ask a node whether it is healthy, and tell by exit code
///
/// Made for the health checks of containers and supervisors: a GET of /v1/HealthCheck, over TLS where the node
/// speaks it. Then the listener that asks for no certificate is asked, if there is one, and a node on a loopback address
/// is not verified unless --tls-ca or --tls-server-name says how.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The node's HTTP address
    #[arg(long, value_name = "HOST:PORT", value_parser = address::callable)]
    address: Option<String>,
    #[command(flatten)]
    files: address::Files,
    #[command(flatten, next_help_heading = "TLS")]
    tls: tls::Args,
    /// How often to ask, 500 ms apart, before the last answer counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    /// How long to wait for one answer
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = limit::length)]
    timeout: Duration,
}

const HELP: &str = "\
Examples:
  flyball healthcheck
  flyball healthcheck --config /etc/gubernator.conf            where `serve` was given that file
  HEALTHCHECK --interval=3s CMD [\"flyball\", \"healthcheck\"]     in a container file

Exit codes:
  0  healthy
  1  anything else: nobody answers, or not the way a node does
  2  the node answers that it is unhealthy (also: the command line makes no sense)

Environment:
  GUBER_HTTP_ADDRESS      the address without --address; a wildcard means this machine
                          [otherwise 127.0.0.1:1050]
  GUBER_TLS_…             any of the daemon's variables for TLS: speak TLS as the daemon does with its
                          peers, to GUBER_STATUS_HTTP_ADDRESS if that is set
  GUBER_HTTP_RETRY_COUNT  the attempts without --attempts [otherwise 1]
  With --config every variable of `serve` counts, as it does there.";

const ATTEMPTS: &str = "GUBER_HTTP_RETRY_COUNT";
const PAUSE: Duration = Duration::from_millis(500);

/// What one attempt found.
#[derive(Debug, PartialEq, Eq)]
enum Health {
    Healthy,
    Unhealthy(String),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = args.files.load()?;
    let status = match (&args.address, args.tls.settings(loaded.as_ref())?) {
        (None, Some(_)) => address::status(loaded.as_ref())?,
        _ => None,
    };
    let target = address::HTTP.target(args.address.clone().or(status), loaded.as_ref())?;
    let tls = args.tls.client_of_neighbour(loaded.as_ref(), &target)?;
    let attempts = match (args.attempts, &loaded) {
        (Some(attempts), _) => attempts,
        (None, Some(loaded)) => loaded.config.healthcheck.attempts.max(1),
        (None, None) => attempts_of(std::env::var(ATTEMPTS).ok().as_deref())?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut exit = Exit::Failure;
        for attempt in 1..=attempts {
            let text = match ask(&target, tls.as_ref(), args.timeout).await {
                Ok(Health::Healthy) => {
                    output::line(&format!("{target} is {}", output::styled(GOOD, "healthy")))?;
                    return Ok(Exit::Success);
                }
                Ok(Health::Unhealthy(why)) => {
                    exit = Exit::Unhealthy;
                    format!("{target} is {}: {}", output::styled(BAD, "unhealthy"), output::foreign(&why))
                }
                Err(error) => {
                    exit = Exit::Failure;
                    format!("{target}: {}", output::foreign(&format!("{error:#}")))
                }
            };
            output::line(&text)?;
            if attempt < attempts {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(exit)
    })
}

/// The number of attempts the environment asks for; as everywhere, empty and 0 mean the default.
fn attempts_of(variable: Option<&str>) -> anyhow::Result<u32> {
    match variable.map(str::trim) {
        None | Some("") => Ok(1),
        Some(text) => text
            .parse()
            .map(|attempts: u32| attempts.max(1))
            .with_context(|| format!("{ATTEMPTS}={text}: expected a whole number of attempts, like 3")),
    }
}

async fn ask(target: &str, tls: Option<&TlsClient>, patience: Duration) -> anyhow::Result<Health> {
    let (status, body) = fetch::get_within(patience, target, tls, "/v1/HealthCheck").await?;
    judge(status, &body)
}

/// What an answer says. Only a body of the right form counts, since another service may sit on the port.
fn judge(status: StatusCode, body: &[u8]) -> anyhow::Result<Health> {
    #[derive(Deserialize)]
    struct Report {
        status: String,
        #[serde(default)]
        message: String,
    }
    #[derive(Deserialize)]
    struct Failure {
        code: i32,
        message: String,
    }
    match status {
        StatusCode::OK => {
            let report: Report = serde_json::from_slice(body).context("this is not a node's answer")?;
            match report.status.as_str() {
                "healthy" => Ok(Health::Healthy),
                other => Ok(Health::Unhealthy(format!("{other} {}", report.message).trim().to_owned())),
            }
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            let failure: Failure = serde_json::from_slice(body)
                .with_context(|| format!("this is not a node's answer, though its status is {status}"))?;
            if failure.code != tonic::Code::Unavailable as i32 {
                bail!("the answer's status {status} and its code {} contradict each other", failure.code);
            }
            Ok(Health::Unhealthy(failure.message))
        }
        other => bail!("the answer's status is {other}; is this the HTTP address of a node?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_from_the_environment_or_are_one() {
        assert_eq!(attempts_of(None).unwrap(), 1);
        assert_eq!(attempts_of(Some("")).unwrap(), 1);
        assert_eq!(attempts_of(Some("0")).unwrap(), 1);
        assert_eq!(attempts_of(Some("7")).unwrap(), 7);
        for nonsense in ["three", "-1", "1.5", "99999999999"] {
            let error = format!("{:#}", attempts_of(Some(nonsense)).unwrap_err());
            assert!(error.starts_with(&format!("GUBER_HTTP_RETRY_COUNT={nonsense}: expected")), "{error}");
        }
    }

    #[test]
    fn only_a_node_that_says_healthy_is_healthy() {
        let judge = |status, body: &str| judge(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert_eq!(
            judge(200, r#"{"status":"healthy","message":"","peer_count":1}"#).unwrap(),
            Health::Healthy
        );
        assert_eq!(
            judge(200, r#"{"status":"unhealthy","message":"no peers"}"#).unwrap(),
            Health::Unhealthy("unhealthy no peers".to_owned())
        );
        assert_eq!(
            judge(503, r#"{"code":14,"message":"peer is gone","details":[]}"#).unwrap(),
            Health::Unhealthy("peer is gone".to_owned())
        );
        assert!(judge(200, "<html>welcome</html>").is_err());
        assert!(judge(200, "{}").is_err());
        assert!(judge(503, "upstream unavailable").is_err());
        assert!(judge(503, r#"{"code":13,"message":"x"}"#).is_err());
        assert!(judge(404, r#"{"code":5,"message":"Not Found","details":[]}"#).is_err());
    }
}
