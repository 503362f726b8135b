//! The lock record's key and its siblings.

use std::sync::Arc;

/// How long a fence counter outlives the last acquisition of its lock, in milliseconds.
pub(super) const FENCE_TTL: u64 = 30 * 24 * 60 * 60 * 1000;

/// The keys of one lock on a server that is not a cluster node.
///
/// Siblings begin with the user's key, so that an ACL pattern such as `~order:*` covers
/// them.
#[derive(Debug)]
pub(crate) struct Keys {
    record: Arc<str>,
    fence: Box<str>,
    waiting: Box<str>,
    wake: Box<str>,
}

/// What stands between a key and the name of its sibling.
const INFIX: &str = ":leasehold:";

const FENCE: &str = "fence";
const WAITING: &str = "waiting";
const WAKE: &str = "wake";

impl Keys {
    /// Whether `key` is a sibling of another: a lock of that name would be written over.
    pub(crate) fn is_sibling(key: &str) -> bool {
        [FENCE, WAITING, WAKE].iter().any(|name| {
            let rest = key.strip_suffix(name);
            rest.is_some_and(|rest| rest.ends_with(INFIX))
        })
    }

    pub(crate) fn new(key: Arc<str>) -> Self {
        let sibling = |name| format!("{key}{INFIX}{name}").into_boxed_str();
        Self {
            fence: sibling(FENCE),
            waiting: sibling(WAITING),
            wake: sibling(WAKE),
            record: key,
        }
    }

    /// Exactly the user's key: whoever follows the documented pattern shares it.
    pub(crate) const fn record(&self) -> &Arc<str> {
        &self.record
    }

    /// The counter that a fenced acquisition draws from.
    pub(crate) fn fence(&self) -> &str {
        &self.fence
    }

    /// The flag that somebody waits for the lock.
    pub(crate) fn waiting(&self) -> &str {
        &self.waiting
    }

    /// The list that waiters block on, with one wake-up in it at most.
    pub(crate) fn wake(&self) -> &str {
        &self.wake
    }

    /// What a release has to do with, the record first.
    pub(super) fn of_release(&self) -> [&[u8]; 3] {
        [self.record(), self.waiting(), self.wake()].map(str::as_bytes)
    }
}
