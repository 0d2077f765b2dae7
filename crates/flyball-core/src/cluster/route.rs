//! What the node that was asked does with a check: the one place where that is decided.
//!
//! A check is forwarded at most once. Who receives it from a peer applies it, whatever its own view says: two nodes
//! that see different rings for a moment disagree about a bucket, which a window ends; if they passed checks on,
//! they could do so for ever.

use super::view::{Member, View};
use crate::check::{Behavior, Key};

/// How often a check is routed again because the view changed under it, or its owner came back.
pub const REROUTES_MAX: usize = 5;

/// Where a client's check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Applied here: this node is the owner.
    Own,
    /// To the owner, the peer with this index in the view; its answer is the client's.
    Forward(usize),
    /// GLOBAL: answered here from the copy; the owner, the peer with this index, hears of the hits later.
    Replica(usize),
    /// The view is empty.
    Nobody,
}

/// Routes a client's check.
#[inline]
pub fn route(view: &View, key: Key<'_>, behavior: Behavior) -> Route {
    match view.owner(key) {
        Member::Own => Route::Own,
        Member::Peer(owner) if behavior.has(Behavior::GLOBAL) => Route::Replica(owner),
        Member::Peer(owner) => Route::Forward(owner),
        Member::None => Route::Nobody,
    }
}
