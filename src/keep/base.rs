//! What all locks of one client have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::claim::Heirs;
use super::keeper::Keeper;
use super::watch::Watch;
use crate::clock::Clock;
use crate::fork::Origin;
use crate::server::{Timeouts, Verbs};
use crate::stats::Counters;

/// A server as one process reaches it, and what goes on in the background for it.
pub(crate) struct Base {
    pub(crate) server: Box<dyn Verbs>,
    /// The server as messages name it.
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) origin: Origin,
    pub(crate) timeouts: Timeouts,
    pub(crate) heirs: Heirs,
    pub(super) keeper: Keeper,
    pub(super) watch: Watch,
    numbers: AtomicU64,
}

impl Base {
    /// No I/O, and no thread yet.
    pub(crate) fn new(
        server: Box<dyn Verbs>,
        name: String,
        clock: Clock,
        counters: Arc<Counters>,
        timeouts: Timeouts,
    ) -> Self {
        let origin = Origin::here();
        Self {
            server,
            name,
            heirs: Heirs::new(clock.clone()),
            keeper: Keeper::new(clock.clone(), origin),
            watch: Watch::new(clock.clone(), origin),
            clock,
            counters,
            origin,
            timeouts,
            numbers: AtomicU64::new(0),
        }
    }

    /// How long an attempt and the settling of its unknown may begin things for: connect,
    /// send, connect again.
    pub(crate) fn attempt_span(&self) -> Duration {
        let Timeouts { connect, command } = self.timeouts;
        connect.saturating_mul(2).saturating_add(command)
    }

    /// A name for the schedules of the background, never given twice.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
