//! The resource's side of a fence, for a resource that lives in this process.

use std::error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lets writes through in the order of their fences: the highest seen so far, again and
/// again, but nothing older.
///
/// A lease does not stop a holder that was paused past its end; its write still arrives.
/// The resource has to refuse it. This is the in-process twin of the SQL condition
/// `… WHERE fence <= ?`, for a resource such as a file or a device that one process
/// guards for many. Fences are the numbers of [`Lease::fence`](crate::Lease::fence).
///
/// The rule is Martin Kleppmann's ([How to do distributed
/// locking](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html)),
/// with "not lower" in place of "higher", so that one holder may write often.
///
/// # Example: a late writer is refused
///
/// ```
/// use leasehold::FenceGate;
///
/// let gate = FenceGate::new();
/// gate.admit(33)?;                     // the first holder writes …
/// gate.admit(34)?;                     // … pauses; the next holder writes …
/// gate.admit(34)?;                     // … and writes again
/// let stale = gate.admit(33).unwrap_err();
/// assert_eq!((stale.fence(), stale.seen()), (33, 34));
/// # Ok::<(), leasehold::Stale>(())
/// ```
#[derive(Debug, Default)]
pub struct FenceGate {
    highest: AtomicU64,
}

impl FenceGate {
    /// A gate that has seen nothing and admits any fence.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            highest: AtomicU64::new(0),
        }
    }

    /// Admits `fence` unless a higher one has been seen, and remembers it.
    ///
    /// The check and the memory are one atomic step. The write that follows is not part of
    /// it: where two writes can overlap, hold a mutex of your own around both.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a higher fence has been admitted before: the caller's lease was taken
    /// over and it must stop.
    pub fn admit(&self, fence: u64) -> Result<(), Stale> {
        let seen = self.highest.fetch_max(fence, Ordering::AcqRel);
        if fence < seen {
            return Err(Stale { fence, seen });
        }
        Ok(())
    }

    /// The highest fence admitted so far, 0 if there was none.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest.load(Ordering::Acquire)
    }
}

/// A fence older than one that the [`FenceGate`] has already admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    fence: u64,
    seen: u64,
}

impl Stale {
    /// The fence that was refused.
    #[must_use]
    pub const fn fence(&self) -> u64 {
        self.fence
    }

    /// The higher fence that had been admitted before.
    #[must_use]
    pub const fn seen(&self) -> u64 {
        self.seen
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fence {} is stale: {} has been seen",
            self.fence, self.seen
        )
    }
}

impl error::Error for Stale {}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_same_holder_writes_often_and_an_older_one_never_again() {
        let gate = FenceGate::new();
        assert_eq!(gate.admit(7), Ok(()));
        assert_eq!(gate.admit(7), Ok(()));
        assert_eq!(gate.admit(6), Err(Stale { fence: 6, seen: 7 }));
        assert_eq!(gate.admit(8), Ok(()));
        assert_eq!(gate.admit(7), Err(Stale { fence: 7, seen: 8 }));
        assert_eq!(gate.highest(), 8);
    }

    #[test]
    fn threads_never_see_an_older_fence_admitted_after_a_newer_one() {
        let gate = FenceGate::new();
        thread::scope(|scope| {
            for start in 0..4 {
                let gate = &gate;
                scope.spawn(move || {
                    for fence in (start..40_000).step_by(4) {
                        let before = gate.highest();
                        if gate.admit(fence).is_ok() {
                            assert!(before <= fence);
                        }
                    }
                });
            }
        });
        assert_eq!(gate.highest(), 39_999);
    }
}
