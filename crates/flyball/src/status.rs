//! How a gRPC status reads over HTTP: the one table, used by everything that speaks HTTP.

use http::StatusCode;
use tonic::Code;

/// The HTTP status of a gRPC code.
///
/// The pairs are those of the public gateway convention that clients of the JSON API rely on. Surprising but
/// fixed: an oversized message (`RESOURCE_EXHAUSTED`) is 429, a wrong HTTP method (`UNIMPLEMENTED`) is 501,
/// and a caller that went away (`CANCELLED`) is the unofficial 499.
pub fn http_status(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Cancelled => 499,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    };
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_status() {
        let expected = [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];
        for (number, status) in expected.into_iter().enumerate() {
            let code = Code::from_i32(i32::try_from(number).unwrap());
            assert_eq!(http_status(code).as_u16(), status, "{code:?}");
        }
    }
}
