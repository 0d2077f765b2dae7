//! `flyball check`: one question from the shell, answered at a glance, by exit code and as JSON.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use flyball_core::cluster::host_of;
use flyball_proto::pb::v1_client::V1Client;
use flyball_proto::pb::{self, Status};
use flyball_server::tls::{Alpn, TlsClient};
use hyper_util::rt::TokioIo;
use jiff::tz::TimeZone;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::address;
use crate::exit::Exit;
use crate::human;
use crate::limit::{self, Window};
use crate::output::{self, BAD, GOOD, LATER};
use crate::tls;

/// Ask a node one question: may KEY do this once more?
///
/// The call goes over gRPC. Nothing has to be set up beforehand: the limit travels with the question.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The name of the limit, for example requests_per_minute
    name: String,
    /// Whom it limits, for example an account
    key: String,
    /// Units per duration
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: i64,
    /// How long a limit lasts: 250ms, 30s, 1h30m, or a calendar interval (minute, hour, day, week, month, year)
    #[arg(long, value_name = "DURATION")]
    duration: Window,
    #[command(flatten)]
    check: limit::Args,
    /// The caller's clock in Unix milliseconds; without it the node's clock counts
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    created_at: Option<i64>,
    /// When the units are booked ahead, sleep until they may be used and then end with 0
    #[arg(long, requires = "max_wait")]
    wait: bool,
    /// Print the answer as one JSON object
    #[arg(long)]
    json: bool,
    /// The node's gRPC address
    #[arg(long, value_name = "HOST:PORT", value_parser = address::callable)]
    address: Option<String>,
    #[command(flatten)]
    files: address::Files,
    #[command(flatten, next_help_heading = "TLS")]
    tls: tls::Args,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = limit::length)]
    timeout: Duration,
}

const HELP: &str = "\
Examples:
  flyball check logins alice --limit 5 --duration 1m && log_in alice
  flyball check mails acme --limit 100 --duration day --hits 0           only look
  flyball check jobs acme --limit 10 --duration 1s --algorithm leaky \\
      --max-wait 30s --wait && run_job                                   wait for the turn

JSON: status, limit, remaining, reset_time (Unix ms), retry_after (ms), error and metadata are the
fields of the wire; a plain refusal has its wait in metadata.retry_after_ms.

Exit codes:
  0  granted (or only looked, and the limit is not reached)
  1  no verdict: the node cannot be reached or calls the check invalid
  2  the command line makes no sense
  3  refused: over the limit
  4  refused: no wait would ever admit so many units
  5  booked: the units are charged; wait as long as told, then act, and do not ask again

Environment:
  GUBER_GRPC_ADDRESS  the address without --address; a wildcard means this machine
                      [otherwise 127.0.0.1:1051]
  GUBER_TLS_…         any of the daemon's variables for TLS: speak TLS as the daemon does with its peers
  With --config every variable of `serve` counts, as it does there.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = args.files.load()?;
    let target = address::GRPC.target(args.address.clone(), loaded.as_ref())?;
    let tls = args.tls.client(loaded.as_ref(), Alpn::Http2)?;
    let mut request = args.check.request(&args.name, &args.key, args.limit, args.duration);
    request.created_at = args.created_at;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let answer = ask(&target, tls, request.clone(), args.timeout).await?;
        if args.json {
            output::line(&json(&answer).to_string())?;
        }
        if !answer.error.is_empty() {
            bail!("the node refused to judge this check: {}", output::foreign(&answer.error));
        }
        if !args.json {
            let now = jiff::Timestamp::now().as_millisecond();
            output::print(&render(&request, &answer, now, &TimeZone::system()))?;
        }
        let exit = verdict(&answer).exit;
        if exit == Exit::Scheduled && args.wait {
            tokio::time::sleep(Duration::from_millis(answer.retry_after.max(0).unsigned_abs())).await;
            return Ok(Exit::Success);
        }
        Ok(exit)
    })
}

async fn ask(
    target: &str,
    tls: Option<TlsClient>,
    request: pb::RateLimitReq,
    patience: Duration,
) -> anyhow::Result<pb::RateLimitResp> {
    let call = async {
        let channel = connect(target, tls)
            .await
            .with_context(|| format!("cannot reach a node at {target}; is `flyball serve` running there?"))?;
        let request = pb::GetRateLimitsReq { requests: vec![request] };
        let answer = V1Client::new(channel)
            .get_rate_limits(request)
            .await
            .map_err(|status| unanswered(target, &status))?;
        answer.into_inner().responses.pop().context("the node answered without an answer for this check")
    };
    tokio::time::timeout(patience, call)
        .await
        .with_context(|| format!("no answer from {target} within {patience:?}; --timeout allows more"))?
}

async fn connect(target: &str, tls: Option<TlsClient>) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{target}"))?;
    let Some(tls) = tls else {
        return Ok(endpoint.connect().await?);
    };
    let target = target.to_owned();
    let endpoint = endpoint.origin(format!("https://{target}").parse()?);
    let connector = service_fn(move |_| {
        let (target, tls) = (target.clone(), tls.clone());
        async move {
            let stream = tokio::net::TcpStream::connect(&target).await?;
            let _ = stream.set_nodelay(true);
            tls.secure(host_of(&target), stream).await.map(TokioIo::new)
        }
    });
    Ok(endpoint.connect_with_connector(connector).await?)
}

/// Why a call brought no answer.
fn unanswered(target: &str, status: &tonic::Status) -> anyhow::Error {
    let message = output::foreign(status.message());
    // Only a status that was made on this side has a cause; the node's own come over the wire.
    let cause = std::iter::successors(std::error::Error::source(status), |cause| cause.source()).last();
    match (cause, status.code()) {
        (Some(cause), _) => {
            let cause = output::foreign(&cause.to_string());
            anyhow!(
                "{target} ended the connection without a gRPC answer; is this the HTTP port, or does only one side speak TLS? ({cause})"
            )
        }
        (None, tonic::Code::Unimplemented) => {
            anyhow!("{target} does not know this call; is this the gRPC port of a node? ({message})")
        }
        (None, code) => anyhow!("the node at {target} answered {code:?}: {message}"),
    }
}

/// What an answer means for the person who asked.
struct Verdict {
    word: &'static str,
    style: anstyle::Style,
    exit: Exit,
}

fn verdict(answer: &pb::RateLimitResp) -> Verdict {
    let (word, style, exit) = match Status::try_from(answer.status) {
        Ok(Status::UnderLimit) => ("GRANTED", GOOD, Exit::Success),
        Ok(Status::OverLimit) => ("REFUSED", BAD, Exit::Refused),
        Ok(Status::NeverFits) => ("NEVER FITS", BAD, Exit::NeverFits),
        Ok(Status::Scheduled) => ("BOOKED", LATER, Exit::Scheduled),
        // A newer node may know more verdicts; what is not understood is not a grant.
        Err(_) => ("UNKNOWN STATUS", BAD, Exit::Failure),
    };
    Verdict { word, style, exit }
}

fn json(answer: &pb::RateLimitResp) -> serde_json::Value {
    let status = match Status::try_from(answer.status) {
        Ok(status) => status.as_str_name().into(),
        Err(_) => answer.status.into(),
    };
    let metadata: std::collections::BTreeMap<_, _> = answer.metadata.iter().collect();
    serde_json::json!({
        // An item that could not be judged carries no status; the wire's zero would read as a grant.
        "status": if answer.error.is_empty() { status } else { serde_json::Value::Null },
        "limit": answer.limit,
        "remaining": answer.remaining,
        "reset_time": answer.reset_time,
        "retry_after": answer.retry_after,
        "error": answer.error,
        "metadata": metadata,
    })
}

/// The answer for people, seen at `now` (Unix milliseconds).
fn render(request: &pb::RateLimitReq, answer: &pb::RateLimitResp, now: i64, zone: &TimeZone) -> String {
    let leaky = request.algorithm == pb::Algorithm::LeakyBucket as i32;
    let Verdict { mut word, style, exit } = verdict(answer);
    match (request.hits, exit) {
        (0, Exit::Success) => word = "UNDER LIMIT",
        (0, Exit::Refused) => word = "OVER LIMIT",
        (..0, Exit::Success) => word = "GIVEN BACK",
        _ => {}
    }
    let capacity = if leaky { answer.limit.max(request.burst) } else { answer.limit };
    let mut text = format!("{}  {} of {capacity} left\n", output::styled(style, word), answer.remaining);
    let mut row = |name: &str, value: &str| text.push_str(&format!("  {name:<13}{value}\n"));
    let plain_wait = answer.metadata.get("retry_after_ms").and_then(|ms| ms.parse::<i64>().ok());
    match exit {
        Exit::Scheduled => {
            let act = now.saturating_add(answer.retry_after);
            row("act", &format!("{}; charged already, do not ask again", human::moment(act, now, zone)));
        }
        Exit::NeverFits => row("why", "no wait would ever admit so many units"),
        Exit::Refused => match (answer.retry_after, plain_wait) {
            (wait @ 1.., _) | (_, Some(wait)) => {
                row("try again", &human::moment(now.saturating_add(wait), now, zone));
            }
            _ => {}
        },
        _ => {}
    }
    if answer.reset_time > 0 {
        row(if leaky { "full again" } else { "window ends" }, &human::moment(answer.reset_time, now, zone));
    }
    let mut metadata: Vec<_> = answer.metadata.iter().filter(|(name, _)| *name != "retry_after_ms").collect();
    metadata.sort();
    for (name, value) in metadata {
        row(&output::foreign(name), &output::foreign(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000;

    fn request(hits: i64) -> pb::RateLimitReq {
        pb::RateLimitReq { hits, limit: 10, ..Default::default() }
    }

    fn answer(status: Status, remaining: i64) -> pb::RateLimitResp {
        pb::RateLimitResp {
            status: status.into(),
            limit: 10,
            remaining,
            reset_time: NOW + 42_000,
            ..Default::default()
        }
    }

    fn plain(request: &pb::RateLimitReq, answer: &pb::RateLimitResp) -> String {
        anstream::adapter::strip_str(&render(request, answer, NOW, &TimeZone::UTC)).to_string()
    }

    #[test]
    fn a_grant_tells_what_is_left_and_until_when() {
        assert_eq!(
            plain(&request(1), &answer(Status::UnderLimit, 9)),
            "GRANTED  9 of 10 left\n  window ends  in 42 s (2026-09-21 14:14:02 UTC)\n"
        );
    }

    #[test]
    fn a_refusal_tells_when_to_try_again() {
        let mut refused = answer(Status::OverLimit, 0);
        refused.metadata.insert("retry_after_ms".to_owned(), "1500".to_owned());
        refused.metadata.insert("owner".to_owned(), "10.0.0.1:1051".to_owned());
        assert_eq!(
            plain(&request(1), &refused),
            "REFUSED  0 of 10 left\n  try again    in 1.5 s (2026-09-21 14:13:21 UTC)\n  window ends  in 42 s \
             (2026-09-21 14:14:02 UTC)\n  owner        10.0.0.1:1051\n"
        );
        // With max_wait the wire's own field has it.
        let refused = pb::RateLimitResp { retry_after: 3_000, ..answer(Status::OverLimit, 0) };
        assert!(plain(&request(1), &refused).contains("try again    in 3 s"));
    }

    #[test]
    fn what_a_node_says_cannot_steer_the_terminal() {
        let mut granted = answer(Status::UnderLimit, 9);
        granted.metadata.insert("own\x1b[31mer".to_owned(), "a\nREFUSED".to_owned());
        let text = render(&request(1), &granted, NOW, &TimeZone::UTC);
        assert!(text.contains("own\\u{1b}[31mer") && text.contains("a\\nREFUSED\n"), "{text:?}");
    }

    #[test]
    fn a_booking_says_not_to_ask_again() {
        let leaky = pb::RateLimitReq { algorithm: 1, burst: 20, ..request(1) };
        let booked = pb::RateLimitResp { retry_after: 6_000, ..answer(Status::Scheduled, 0) };
        assert_eq!(
            plain(&leaky, &booked),
            "BOOKED  0 of 20 left\n  act          in 6 s (2026-09-21 14:13:26 UTC); charged already, do not ask \
             again\n  full again   in 42 s (2026-09-21 14:14:02 UTC)\n"
        );
    }

    #[test]
    fn looks_and_refunds_have_words_of_their_own() {
        assert!(plain(&request(0), &answer(Status::UnderLimit, 3)).starts_with("UNDER LIMIT  3 of 10"));
        assert!(plain(&request(0), &answer(Status::OverLimit, 0)).starts_with("OVER LIMIT  0 of 10"));
        assert!(plain(&request(-2), &answer(Status::UnderLimit, 3)).starts_with("GIVEN BACK  3 of 10"));
        assert!(plain(&request(99), &answer(Status::NeverFits, 3)).contains("no wait would ever"));
    }

    #[test]
    fn extreme_answers_are_told_too() {
        for extreme in [i64::MIN, -1, 0, i64::MAX] {
            let answer = pb::RateLimitResp {
                limit: extreme,
                remaining: extreme,
                reset_time: extreme,
                retry_after: extreme,
                ..answer(Status::Scheduled, 0)
            };
            assert!(plain(&request(extreme), &answer).starts_with("BOOKED"));
        }
    }

    #[test]
    fn what_is_not_a_grant_never_reads_as_one() {
        let unknown = pb::RateLimitResp { status: 99, ..Default::default() };
        assert_eq!(verdict(&unknown).exit, Exit::Failure);
        assert_eq!(json(&unknown)["status"], 99);
        let failed = pb::RateLimitResp { error: "bad".to_owned(), ..Default::default() };
        assert_eq!(json(&failed)["status"], serde_json::Value::Null);
    }
}
