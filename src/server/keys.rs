//! The lock record's key and its siblings.

use std::sync::Arc;

/// The keys of one lock on a server that is not a cluster node.
///
/// Siblings begin with the user's key, so that an ACL pattern such as `~order:*` covers
/// them.
#[derive(Debug)]
pub(crate) struct Keys {
    record: Arc<str>,
    fence: Box<str>,
}

impl Keys {
    pub(crate) fn new(key: Arc<str>) -> Self {
        let fence = format!("{key}:leasehold:fence").into_boxed_str();
        Self { record: key, fence }
    }

    /// Exactly the user's key: whoever follows the documented pattern shares it.
    pub(crate) const fn record(&self) -> &Arc<str> {
        &self.record
    }

    /// The counter that a fenced acquisition draws from.
    pub(crate) fn fence(&self) -> &str {
        &self.fence
    }
}
