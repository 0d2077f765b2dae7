//! The page: one file without anything from elsewhere, and the policy that holds it to that.
//!
//! The policy names its style and its script by their hashes, so nothing that found its way into the page could run.
//! They are computed from the page when it is first asked for: there is no second place to keep current.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use sha2::{Digest as _, Sha256};

/// The page.
pub(super) const HTML: &str = include_str!("page.html");

static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |element| STANDARD.encode(Sha256::digest(content(element)));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("style"),
        hash("script"),
    );
    HeaderValue::from_str(&policy).expect("words, base64 and punctuation are a header value")
});

/// The `Content-Security-Policy` of the page. It does no harm to other answers.
pub(super) fn policy() -> HeaderValue {
    POLICY.clone()
}

/// What is between the tags of the page's only element of this name; a test holds that there is one.
fn content(element: &str) -> &'static str {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let inside = HTML.split_once(&open).and_then(|(_, rest)| rest.split_once(&close));
    inside.map_or("", |(content, _)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_one_small_file_without_anything_from_elsewhere() {
        assert!(HTML.len() < 40 * 1024, "{} bytes", HTML.len());
        for element in ["style", "script"] {
            assert_eq!(
                HTML.matches(&format!("<{element}")).count(),
                1,
                "one <{element}>, without attributes"
            );
            assert!(content(element).len() > 1_000);
        }
        // What the policy would stop must not be there in the first place.
        for absent in [" style=\"", " onclick", " onload", " src=", "@import", "url(http", "//cdn"] {
            assert!(!HTML.contains(absent), "{absent}");
        }
        // `http://www.w3.org/2000/svg` is a name, not an address.
        assert_eq!(HTML.replace("http://www.w3.org/2000/svg", "").matches("http://").count(), 0);
        assert_eq!(HTML.matches("https://").count(), 0);
    }

    #[test]
    fn the_script_writes_text_and_never_markup() {
        let script = content("script");
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
        {
            assert!(!script.contains(markup), "{markup}");
        }
    }
}
