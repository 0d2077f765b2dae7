//! The files that deploy a node, as far as reading them tells: names that must exist, values that must agree, pages that
//! must be complete. What their own tools say is in `deploy_tools`.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod chart;
mod container;
mod guide;
mod names;
