//! Histories of one bucket in one line each step, so that a page of them can be read.
//!
//! ```text
//! h4 = U6 · t3000 h1 b20 drain = O0 r6000
//! ```
//!
//! A step is what is asked, `=`, and what must be answered; steps are separated by `·`. What is not said
//! stays as in the request the script is run with.
//!
//! | asked | | answered | |
//! | --- | --- | --- | --- |
//! | `t3000` | first set the clock to 3 s after the beginning | `U` `O` `S` `N` and a number | UNDER, OVER, SCHEDULED or NEVER_FITS, remaining |
//! | `h4` | hits | `r6000` | reset_time that long after the beginning |
//! | `l5` `b20` `d1000` | limit, burst, duration | `r@0` | reset_time, absolute |
//! | `mw5000` | max_wait | `ra5000` | retry_after; 0 where it is not said |
//! | `at-30` | created_at, that long after the beginning | | |
//! | `token` `leaky` | algorithm | | |
//! | `drain` `reset` `greg` `global` `now` `multi` | a behavior flag is added | | |

use flyball::pb::{RateLimitReq, RateLimitResp, Status};

use crate::node::{TestNode, flag};

/// Runs a script on a bucket of its own.
///
/// # Panics
/// When an answer differs, or the script cannot be read.
#[track_caller]
pub fn run(node: &TestNode, request: &RateLimitReq, script: &str) {
    let begin = node.now();
    for step in script.split('·').map(str::trim).filter(|step| !step.is_empty()) {
        let (asked, answered) = step.split_once('=').unwrap_or_else(|| panic!("no answer in {step:?}"));
        let request = asked.split_whitespace().fold(request.clone(), |request, word| {
            ask(node, begin, request, word).unwrap_or_else(|| panic!("what is {word:?} in {step:?}?"))
        });
        let answer = node.ask(request);
        assert_eq!(answer.error, "", "{step} in {script}");
        let words: Vec<&str> = answered.split_whitespace().collect();
        let shown = show(&answer, begin, &words);
        assert_eq!(shown, words.join(" "), "{step}\nin {script}\n{answer:?}, begun at {begin}");
    }
    node.set(begin);
}

fn number(word: &str, prefix: &str) -> Option<i64> {
    word.strip_prefix(prefix)?.parse().ok()
}

fn ask(node: &TestNode, begin: i64, mut request: RateLimitReq, word: &str) -> Option<RateLimitReq> {
    let behavior = match word {
        "drain" => flag::DRAIN,
        "reset" => flag::RESET,
        "greg" => flag::GREGORIAN,
        "global" => flag::GLOBAL,
        "now" => flag::NO_BATCHING,
        "multi" => flag::MULTI_REGION,
        _ => 0,
    };
    request.behavior |= behavior;
    if behavior != 0 {
    } else if word == "token" || word == "leaky" {
        request.algorithm = i32::from(word == "leaky");
    } else if let Some(offset) = number(word, "at") {
        request.created_at = Some(begin + offset);
    } else if let Some(ms) = number(word, "mw") {
        request.max_wait = ms;
    } else if let Some(offset) = number(word, "t") {
        node.set(begin + offset);
    } else if let Some(hits) = number(word, "h") {
        request.hits = hits;
    } else if let Some(limit) = number(word, "l") {
        request.limit = limit;
    } else if let Some(burst) = number(word, "b") {
        request.burst = burst;
    } else {
        request.duration = number(word, "d")?;
    }
    Some(request)
}

/// An answer in the script's words: as many of them as the script asks about.
fn show(answer: &RateLimitResp, begin: i64, asked: &[&str]) -> String {
    let letter = match Status::try_from(answer.status) {
        Ok(Status::UnderLimit) => "U",
        Ok(Status::OverLimit) => "O",
        Ok(Status::Scheduled) => "S",
        Ok(Status::NeverFits) => "N",
        Err(_) => "?",
    };
    let mut words = vec![format!("{letter}{}", answer.remaining)];
    let mut asked_retry = false;
    for word in asked {
        if word.starts_with("ra") {
            words.push(format!("ra{}", answer.retry_after));
            asked_retry = true;
        } else if word.starts_with("r@") {
            words.push(format!("r@{}", answer.reset_time));
        } else if word.starts_with('r') {
            words.push(format!("r{}", answer.reset_time.wrapping_sub(begin)));
        }
    }
    if answer.retry_after != 0 && !asked_retry {
        words.push(format!("ra{}", answer.retry_after));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::leaky;

    #[test]
    fn a_right_script_passes() {
        let node = TestNode::gubernator();
        run(&node, &leaky("right"), "h10 = U0 r60000 · h1 mw6000 = S0 r66000 ra6000 · t18000 h0 = U2");
    }

    #[test]
    #[should_panic(expected = "U9 r6000")]
    fn a_wrong_reset_time_fails() {
        run(&TestNode::gubernator(), &leaky("wrong"), "h1 = U9 r6001");
    }

    #[test]
    #[should_panic(expected = "ra6000")]
    fn a_retry_after_that_is_not_expected_fails() {
        run(&TestNode::gubernator(), &leaky("wrong"), "h10 = U0 · h1 mw6000 = S0");
    }
}
