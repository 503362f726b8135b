//! Ending a wait from another thread.

use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::clock::{Clock, Time};
use crate::fork::Origin;

/// Ends waits for a lock from any thread.
///
/// Clones share one state. Once cancelled, it stays so: a wait that begins afterwards ends
/// before it has sent anything. See
/// [`Lock::acquire_cancellable`](crate::Lock::acquire_cancellable).
///
/// # Example
///
/// ```
/// let canceller = leasehold::Canceller::new();
/// let elsewhere = canceller.clone();
/// std::thread::spawn(move || elsewhere.cancel()).join().unwrap();
/// assert!(canceller.is_cancelled());
/// ```
#[derive(Clone)]
pub struct Canceller {
    shared: Arc<Shared>,
}

struct Shared {
    origin: Origin,
    cancelled: AtomicBool,
    /// Those who wait elsewhere and have to be told.
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
    changed: Condvar,
}

/// Somebody who waits for other things as well.
pub(super) trait Watcher: Send + Sync {
    /// Has him look again.
    fn look(&self);
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl Default for Canceller {
    fn default() -> Self {
        Self::new()
    }
}

/// It is one flag: a panic leaves nothing half done.
impl UnwindSafe for Canceller {}
impl RefUnwindSafe for Canceller {}

impl Canceller {
    /// A canceller that has not been used.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                origin: Origin::here(),
                cancelled: AtomicBool::new(false),
                watchers: Mutex::default(),
                changed: Condvar::new(),
            }),
        }
    }

    /// Ends every wait that was given this canceller or a clone of it, now and from now on.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Release);
        // In the child of a fork nobody waits, and the mutex may be held for ever.
        if self.shared.origin.is_elsewhere() {
            return;
        }
        // Taken and let go: a waiter that has looked at the flag and not yet gone to sleep
        // holds it, and must not miss the notice.
        let watchers = mem::take(&mut *self.shared.watchers.lock());
        self.shared.changed.notify_all();
        for watcher in watchers.iter().filter_map(Weak::upgrade) {
            watcher.look();
        }
    }

    /// Whether [`cancel`](Self::cancel) has been called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// Has `watcher` told when it is cancelled. One that comes too late has to look by itself.
    pub(super) fn tell(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.shared.watchers.lock();
        watchers.retain(|watcher| watcher.strong_count() != 0);
        watchers.push(watcher);
    }

    /// Waits until `until` or until it is cancelled.
    pub(super) fn pause(&self, clock: &Clock, until: Time) {
        let mut guard = self.shared.watchers.lock();
        while !self.is_cancelled() && clock.now() < until {
            clock.park(&self.shared.changed, &mut guard, until);
        }
    }
}
