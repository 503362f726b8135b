//! Ending a wait from another thread.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::clock::{Clock, Time};

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
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    mutex: Mutex<()>,
    changed: Condvar,
}

/// It is one flag: a panic leaves nothing half done.
impl UnwindSafe for Canceller {}
impl RefUnwindSafe for Canceller {}

impl Canceller {
    /// A canceller that has not been used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends every wait that was given this canceller or a clone of it, now and from now on.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Release);
        // Taken and let go: a waiter that has looked at the flag and not yet gone to sleep
        // holds it, and must not miss the notice.
        drop(self.shared.mutex.lock());
        self.shared.changed.notify_all();
    }

    /// Whether [`cancel`](Self::cancel) has been called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// Waits until `until` or until it is cancelled.
    pub(super) fn pause(&self, clock: &Clock, until: Time) {
        let mut guard = self.shared.mutex.lock();
        while !self.is_cancelled() && clock.now() < until {
            clock.park(&self.shared.changed, &mut guard, until);
        }
    }
}
