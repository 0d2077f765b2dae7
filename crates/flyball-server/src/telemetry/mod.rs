//! What operators see of a running daemon besides its metrics: log lines and traces.

pub mod logs;
mod otlp_http;
pub mod traces;
