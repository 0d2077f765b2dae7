//! The files that deploy a node, each read by its own tool: the chart by Helm, the unit by systemd, container files by
//! the parsers of their tools, rules and dashboard by Prometheus, against running nodes. No image is built and no cluster
//! of containers is started: that needs what a test has not.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod chart;
mod files;
mod prometheus;
mod unit;
