//! What all locks of one client have in common.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::fork::Origin;
use crate::server::{Timeouts, Verbs};
use crate::stats::Counters;

/// A server as one process reaches it.
pub(crate) struct Base {
    pub(crate) server: Box<dyn Verbs>,
    /// The server as messages name it.
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) origin: Origin,
    pub(crate) timeouts: Timeouts,
}

impl Base {
    /// How long an attempt and the settling of its unknown may begin things for: connect,
    /// send, connect again.
    pub(crate) fn attempt_span(&self) -> Duration {
        let Timeouts { connect, command } = self.timeouts;
        connect.saturating_mul(2).saturating_add(command)
    }
}
