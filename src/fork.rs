//! Telling a forked child from its parent.
//!
//! A mutex that another thread holds at the moment of `fork` stays held in the child for
//! ever, and the child shares its parent's sockets. So every entry compares process ids
//! before it touches a lock or a socket of ours. It costs one `getpid` (glibc no longer
//! caches it); `pthread_atfork` would need unsafe code. A fork into a new pid namespace in
//! which both are process 1 is not detected.

use std::process;

/// The process that opened a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) fn here() -> Self {
        Self(process::id())
    }

    /// Whether the caller runs in another process than the one that opened the handle.
    pub(crate) fn is_elsewhere(self) -> bool {
        process::id() != self.0
    }
}
