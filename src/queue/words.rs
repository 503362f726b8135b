//! What those who hold, wait and come tell each other.

use crate::clock::Time;
use crate::error::Cause;

/// What there is to know of whoever holds a key.
pub(crate) trait Tenancy: Send + Sync {
    /// When it ends, unless it is lengthened until then; in the past once it has ended.
    fn ends(&self) -> Time;
}

/// How a turn at the server begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// Behind the waiters of other processes, since this one has just had the lock.
    pub(crate) behind: bool,
    /// After a pause, for those who poll.
    pub(crate) pause: bool,
    /// With another token: the one that was ready was offered to a server before.
    pub(crate) fresh: bool,
}

/// What stands in the way of those who wait.
#[derive(Clone, Debug, Default)]
pub(crate) enum Word {
    /// Nobody has heard anything so far.
    #[default]
    Unheard,
    /// Somebody holds the lock.
    Held,
    /// No server is in reach, or it could not say.
    Away(Cause),
}
