//! The laws of the algorithms with exact semantics, and naive models of them to compare with.
//!
//! The models are written differently on purpose: the leaky bucket as "the moment it will be full", in
//! rationals of big integers, where the product credits a float balance; the token bucket as a list of what
//! was taken. What they share with the product is the specification.

mod extremes;
mod history;
mod laws;
mod leaky_model;
mod leaky_vs_model;
mod scheduled;
mod token_vs_model;
