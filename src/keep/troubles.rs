//! What a lease has been through: its stays in the danger zone, and why its renewals fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::error::Error;

#[derive(Default)]
pub(crate) struct Troubles {
    /// Stays in the danger zone that a confirmation has ended, and the last that was counted.
    stays: AtomicU32,
    counted: AtomicU32,
    /// Whether a renewal was ever refused.
    refused: AtomicBool,
    /// Whether the last renewal failed; why is in `failure`.
    failing: AtomicBool,
    /// Whether it waits for a link, and has been told so.
    missed: AtomicBool,
    failure: Mutex<Option<Arc<Error>>>,
}

impl Troubles {
    /// The number of the present stay, or of the next. To be read before the standing: if a
    /// confirmation comes in between, it is the number of a stay that is over.
    pub(crate) fn stay(&self) -> u32 {
        self.stays.load(Ordering::Acquire)
    }

    /// A confirmation has ended a stay. After the deadline has moved, so that whoever reads the
    /// new number reads the new deadline as well.
    pub(super) fn end_stay(&self) {
        self.stays.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the present stay is seen for the first time.
    pub(super) fn is_new_stay(&self) -> bool {
        let stay = self.stay().wrapping_add(1);
        self.counted.load(Ordering::Relaxed) != stay
            && self.counted.swap(stay, Ordering::AcqRel) != stay
    }

    /// Whether this is the first time that a renewal was refused.
    pub(super) fn is_first_refusal(&self) -> bool {
        !self.refused.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_missed(&self) -> bool {
        self.missed.load(Ordering::Acquire)
    }

    pub(super) fn miss(&self, missed: bool) {
        self.missed.store(missed, Ordering::Release);
    }

    pub(super) fn failed(&self, error: Arc<Error>) {
        *self.failure.lock() = Some(error);
        self.failing.store(true, Ordering::Release);
    }

    pub(super) fn succeeded(&self) {
        if self.failing.swap(false, Ordering::AcqRel) {
            *self.failure.lock() = None;
        }
    }

    /// Why the renewal that was tried last failed, if none has succeeded since.
    pub(crate) fn last_failure(&self) -> Option<Arc<Error>> {
        self.failure.lock().clone()
    }
}
