//! Counters of what a client has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a client has done since it was opened, as read by
/// [`Client::stats`](crate::Client::stats).
///
/// Each number is read by itself: two of them need not be of the same instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Leases handed to a caller.
    pub acquired: u64,
    /// Attempts that found the lock held by another.
    pub contended: u64,
    /// Waits that ended because the budget was over while others held the lock.
    pub timed_out: u64,
    /// Leases released, proven by the server.
    pub released: u64,
    /// Leases that ended in any other way than by a release: deadline, takeover, deletion.
    pub lost: u64,
    /// Stays in a danger zone that were seen: by the threads in the background, a callback,
    /// or whoever asked for the state.
    pub danger: u64,
    /// Attempts to renew that the server confirmed in time.
    pub renewals_ok: u64,
    /// Attempts to renew that failed, timed out, were confirmed too late or found the lease
    /// lost.
    pub renewals_failed: u64,
    /// Commands sent without a reply whose outcome was settled afterwards.
    pub unknown_resolved: u64,
    /// Acquisitions and releases whose outcome was never learned.
    pub unknown_unresolved: u64,
    /// Links opened in place of one that broke.
    pub reconnects: u64,
    /// The least validity that was left when a renewal was confirmed; `None` before the
    /// first renewal.
    pub smallest_margin: Option<Duration>,
}

/// The live counters behind [`Stats`].
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) acquired: Counter,
    pub(crate) contended: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) released: Counter,
    pub(crate) lost: Counter,
    pub(crate) danger: Counter,
    pub(crate) renewals_ok: Counter,
    pub(crate) renewals_failed: Counter,
    pub(crate) unknown_resolved: Counter,
    pub(crate) unknown_unresolved: Counter,
    pub(crate) reconnects: Counter,
    smallest_margin_nanos: AtomicU64,
}

/// Relaxed throughout: a counter orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            acquired: Counter::default(),
            contended: Counter::default(),
            timed_out: Counter::default(),
            released: Counter::default(),
            lost: Counter::default(),
            danger: Counter::default(),
            renewals_ok: Counter::default(),
            renewals_failed: Counter::default(),
            unknown_resolved: Counter::default(),
            unknown_unresolved: Counter::default(),
            reconnects: Counter::default(),
            smallest_margin_nanos: AtomicU64::new(u64::MAX),
        }
    }
}

impl Counters {
    pub(crate) fn renewal(&self, confirmed: bool) {
        if confirmed {
            self.renewals_ok.add_one();
        } else {
            self.renewals_failed.add_one();
        }
    }

    pub(crate) fn margin(&self, left: Duration) {
        let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX - 1);
        self.smallest_margin_nanos
            .fetch_min(nanos, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Stats {
        let margin = self.smallest_margin_nanos.load(Ordering::Relaxed);
        Stats {
            acquired: self.acquired.get(),
            contended: self.contended.get(),
            timed_out: self.timed_out.get(),
            released: self.released.get(),
            lost: self.lost.get(),
            danger: self.danger.get(),
            renewals_ok: self.renewals_ok.get(),
            renewals_failed: self.renewals_failed.get(),
            unknown_resolved: self.unknown_resolved.get(),
            unknown_unresolved: self.unknown_unresolved.get(),
            reconnects: self.reconnects.get(),
            smallest_margin: (margin != u64::MAX).then(|| Duration::from_nanos(margin)),
        }
    }
}
