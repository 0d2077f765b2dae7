//! Any bytes as a packet of gossip, as what comes over a connection, and as news for a node: it is judged within bounds,
//! what was read can be written and reads as the same, and the node goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| flyball_discovery::judge_gossip(bytes));
