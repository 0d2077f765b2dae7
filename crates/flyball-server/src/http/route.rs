//! What a request asks for, told from its method, path and two headers alone.
//!
//! The order is the original's: first the path is cleaned (a redirect if that changes it), then its escapes are
//! resolved, then it must be one of the routes, letter by letter; only then the method counts. A wrong method is 501
//! and not 405, and a form posted to a GET route is served, because `curl -d` on a health check always was.

use http::{HeaderMap, Method, Uri, header};

use super::HttpOptions;
use super::admin::{AdminAccess, View};
use super::path::{clean, unescape};

/// Everything that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    RateLimits,
    HealthCheck,
    LiveCheck,
    Metrics,
    Healthz,
    Livez,
    Readyz,
    OpenApi,
    Admin(View),
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Serve(Route),
    /// The path and query to ask for instead.
    Redirect(String),
    WrongMethod,
    Unknown,
    /// The same on a listener that knows next to nothing.
    Nothing,
    /// No path, or one with broken escapes.
    Malformed,
}

impl Route {
    fn at(path: &[u8], options: &HttpOptions) -> Option<Self> {
        Some(match path {
            b"/v1/GetRateLimits" => Self::RateLimits,
            b"/v1/HealthCheck" => Self::HealthCheck,
            b"/v1/LiveCheck" => Self::LiveCheck,
            b"/metrics" => Self::Metrics,
            b"/healthz" if options.health_routes => Self::Healthz,
            b"/livez" if options.health_routes => Self::Livez,
            b"/readyz" if options.health_routes => Self::Readyz,
            b"/openapi.json" if options.openapi => Self::OpenApi,
            _ if options.admin != AdminAccess::Off => Self::Admin(View::at(path)?),
            _ => return None,
        })
    }

    /// What a listener for probes and scrapers serves.
    const fn is_status(self) -> bool {
        matches!(
            self,
            Self::HealthCheck | Self::LiveCheck | Self::Metrics | Self::Healthz | Self::Livez | Self::Readyz
        )
    }

    fn takes(self, method: &Method, headers: &HeaderMap) -> bool {
        let form = method == Method::POST
            && headers
                .get(header::CONTENT_TYPE)
                .is_some_and(|value| value == "application/x-www-form-urlencoded");
        let overridden = headers.get("x-http-method-override").filter(|value| form && !value.is_empty());
        let is = |wanted: Method| match overridden {
            Some(value) => value.as_bytes().eq_ignore_ascii_case(wanted.as_str().as_bytes()),
            None => *method == wanted,
        };
        match self {
            Self::RateLimits => is(Method::POST),
            Self::HealthCheck | Self::LiveCheck => is(Method::GET) || (form && is(Method::POST)),
            Self::Metrics => true,
            Self::Healthz | Self::Livez | Self::Readyz | Self::OpenApi | Self::Admin(_) => {
                *method == Method::GET || *method == Method::HEAD
            }
        }
    }
}

pub(super) fn target(method: &Method, uri: &Uri, headers: &HeaderMap, options: &HttpOptions) -> Target {
    let path = uri.path();
    if !path.starts_with('/') {
        return Target::Malformed;
    }
    let Some(unescaped) = unescape(path) else {
        return Target::Malformed;
    };
    let cleaned = clean(path);
    if options.status_only {
        return match Route::at(&unescaped, options).filter(|route| route.is_status()) {
            Some(route) if route.takes(method, headers) => Target::Serve(route),
            Some(_) => Target::WrongMethod,
            None => Target::Nothing,
        };
    }
    if cleaned != path {
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Target::Redirect(format!("{cleaned}{query}"));
    }
    match Route::at(&unescaped, options) {
        None => Target::Unknown,
        Some(route) if route.takes(method, headers) => Target::Serve(route),
        Some(_) => Target::WrongMethod,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

    fn ask(method: &str, uri: &str, headers: &[(&str, &str)]) -> Target {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        target(request.method(), request.uri(), request.headers(), &HttpOptions::default())
    }

    #[test]
    fn paths_are_exact() {
        for (uri, route) in [
            ("/v1/HealthCheck?x=1", Route::HealthCheck),
            ("http://node:1050/v1/LiveCheck", Route::LiveCheck),
            ("/v1/Live%43heck", Route::LiveCheck),
            ("/v1%2FLiveCheck", Route::LiveCheck),
            ("/metrics", Route::Metrics),
            ("/healthz", Route::Healthz),
            ("/livez", Route::Livez),
            ("/readyz", Route::Readyz),
            ("/openapi.json", Route::OpenApi),
        ] {
            assert_eq!(ask("GET", uri, &[]), Target::Serve(route), "{uri}");
        }
        for uri in [
            "/",
            "/v1",
            "/v1/",
            "/v1/Nope",
            "/v1/healthcheck",
            "/v1/HealthCheck/",
            "/V1/GetRateLimits",
            "/metrics/",
            "/pb.gubernator.V1/GetRateLimits",
            "/v1/GetPeerRateLimits",
            "/v1/LiveCheck%00",
            "/v1/LiveCheck%20",
            "/%76%31/LiveChec\u{212a}",
        ] {
            assert_eq!(ask("GET", uri, &[]), Target::Unknown, "{uri}");
        }
        for uri in ["/v1/%", "/v1/%zz", "*"] {
            assert_eq!(ask("GET", uri, &[]), Target::Malformed, "{uri}");
        }
        assert_eq!(ask("CONNECT", "node:1050", &[]), Target::Malformed);
    }

    #[test]
    fn unclean_paths_are_redirected_whatever_they_lead_to() {
        for (uri, location) in [
            ("/v1//HealthCheck?a=%2F", "/v1/HealthCheck?a=%2F"),
            ("//v1/LiveCheck", "/v1/LiveCheck"),
            ("/v1/x/../Live%43heck", "/v1/Live%43heck"),
            ("//nowhere//", "/nowhere/"),
        ] {
            assert_eq!(ask("GET", uri, &[]), Target::Redirect(location.into()), "{uri}");
            assert_eq!(ask("POST", uri, &[]), Target::Redirect(location.into()), "{uri}");
        }
    }

    #[test]
    fn a_wrong_method_is_no_unknown_path() {
        for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "post"] {
            assert_eq!(ask(method, "/v1/GetRateLimits", &[]), Target::WrongMethod, "{method}");
        }
        for method in ["POST", "HEAD", "PUT"] {
            assert_eq!(ask(method, "/v1/HealthCheck", &[]), Target::WrongMethod, "{method}");
            assert_eq!(ask(method, "/metrics", &[]), Target::Serve(Route::Metrics), "{method}");
        }
        assert_eq!(ask("HEAD", "/healthz", &[]), Target::Serve(Route::Healthz));
        assert_eq!(ask("POST", "/healthz", &[FORM]), Target::WrongMethod);
    }

    #[test]
    fn forms_may_ask_what_get_may() {
        let live = Target::Serve(Route::LiveCheck);
        let override_to = |method| [FORM, ("X-HTTP-Method-Override", method)];
        assert_eq!(ask("POST", "/v1/LiveCheck", &[FORM]), live);
        assert_eq!(ask("POST", "/v1/LiveCheck", &override_to("get")), live);
        assert_eq!(ask("POST", "/v1/LiveCheck", &override_to("POST")), live);
        assert_eq!(ask("POST", "/v1/LiveCheck", &override_to("DELETE")), Target::WrongMethod);
        assert_eq!(ask("PUT", "/v1/LiveCheck", &override_to("GET")), Target::WrongMethod);
        let with_charset = [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")];
        assert_eq!(ask("POST", "/v1/LiveCheck", &with_charset), Target::WrongMethod);

        let limits = Target::Serve(Route::RateLimits);
        assert_eq!(ask("POST", "/v1/GetRateLimits", &[FORM]), limits);
        assert_eq!(ask("POST", "/v1/GetRateLimits", &[("X-HTTP-Method-Override", "GET")]), limits);
        assert_eq!(ask("POST", "/v1/GetRateLimits", &override_to("GET")), Target::WrongMethod);
    }

    #[test]
    fn a_status_listener_knows_health_and_metrics() {
        let options =
            HttpOptions { status_only: true, admin: AdminAccess::Everybody, ..HttpOptions::default() };
        let ask =
            |uri: &'static str| target(&Method::GET, &Uri::from_static(uri), &HeaderMap::new(), &options);
        for (uri, route) in [
            ("/v1/HealthCheck", Route::HealthCheck),
            ("/v1/LiveCheck", Route::LiveCheck),
            ("/metrics", Route::Metrics),
            ("/readyz", Route::Readyz),
        ] {
            assert_eq!(ask(uri), Target::Serve(route));
        }
        for uri in ["/", "/v1/GetRateLimits", "/v1/admin/peers", "/openapi.json", "//metrics", "/nope"] {
            assert_eq!(ask(uri), Target::Nothing, "{uri}");
        }
    }

    #[test]
    fn what_is_switched_off_is_unknown() {
        let ask = |uri: &'static str, options: &HttpOptions| {
            target(&Method::GET, &Uri::from_static(uri), &HeaderMap::new(), options)
        };
        let no_health = HttpOptions { health_routes: false, ..HttpOptions::default() };
        for uri in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(ask(uri, &no_health), Target::Unknown);
        }
        assert_eq!(ask("/openapi.json", &no_health), Target::Serve(Route::OpenApi));
        assert_eq!(ask("/v1/HealthCheck", &no_health), Target::Serve(Route::HealthCheck));
        let no_openapi = HttpOptions { openapi: false, ..HttpOptions::default() };
        assert_eq!(ask("/openapi.json", &no_openapi), Target::Unknown);
        assert_eq!(ask("/readyz", &no_openapi), Target::Serve(Route::Readyz));
        let with_admin = HttpOptions { admin: AdminAccess::Everybody, ..HttpOptions::default() };
        for (uri, view) in [("/", View::Page), ("/?a=1", View::Page), ("/v1/admin/peers", View::Peers)] {
            assert_eq!(ask(uri, &with_admin), Target::Serve(Route::Admin(view)));
            assert_eq!(ask(uri, &HttpOptions::default()), Target::Unknown);
        }
    }
}
