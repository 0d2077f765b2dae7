//! Paths of URLs: which ones are clean, and what they say once their escapes are resolved.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The path without empty, `.` and `..` segments, as it stands: escapes are not resolved, a slash at the end stays.
/// The result begins with exactly one slash, so a redirect to it never leaves this host.
pub(super) fn clean(path: &str) -> Cow<'_, str> {
    let is_clean = path.starts_with('/')
        && path[1..].split('/').enumerate().all(|(index, segment)| match segment {
            "" => index + 1 == path[1..].split('/').count(),
            "." | ".." => false,
            _ => true,
        });
    if is_clean {
        return Cow::Borrowed(path);
    }
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut cleaned = format!("/{}", segments.join("/"));
    if path.ends_with('/') && !segments.is_empty() {
        cleaned.push('/');
    }
    Cow::Owned(cleaned)
}

/// The bytes a path stands for; `None` when a `%` is not followed by two hexadecimal digits.
pub(super) fn unescape(path: &str) -> Option<Cow<'_, [u8]>> {
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let digits = rest.as_bytes().get(at + 1..at + 3)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = &rest[at + 3..];
    }
    Some(percent_decode_str(path).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clean_paths_stay_and_others_lose_their_odd_segments() {
        for path in ["/", "/v1", "/v1/", "/v1/LiveCheck", "/a%2F%2e%2E/b", "/...", "/.a", "/a./"] {
            assert!(matches!(clean(path), Cow::Borrowed(_)), "{path}");
        }
        for (path, cleaned) in [
            ("", "/"),
            ("v1", "/v1"),
            ("//", "/"),
            ("//evil.example/x", "/evil.example/x"),
            ("/v1//LiveCheck", "/v1/LiveCheck"),
            ("/v1/./LiveCheck", "/v1/LiveCheck"),
            ("/v1/x/../LiveCheck", "/v1/LiveCheck"),
            ("/../../v1//", "/v1/"),
            ("/v1/..", "/"),
            ("/v1/.", "/v1"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }

    #[test]
    fn escapes_are_resolved_or_refused() {
        assert_eq!(unescape("/v1%2FLive%43heck%ff").as_deref(), Some(b"/v1/LiveCheck\xff".as_slice()));
        for path in ["/%", "/%4", "/%4g", "/%%41", "/%+1", "/%é"] {
            assert_eq!(unescape(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn cleaning_ends_and_stays_on_this_host(path in "[a./%4é]{0,12}") {
            let once = clean(&path).into_owned();
            prop_assert!(once.starts_with('/') && !once.starts_with("//"), "{}", once);
            prop_assert_eq!(clean(&once), once.as_str());
            let _ = unescape(&path);
        }
    }
}
