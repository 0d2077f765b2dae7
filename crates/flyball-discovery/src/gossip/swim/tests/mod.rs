//! The machine alone, and many of them on a network that exists only here.

mod claims;
mod faults;
mod net;
