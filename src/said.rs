//! What is said to the `log` facade, and by nothing but this.
//!
//! A logger is somebody else's code. One that panics must cost no lease its renewal, no holder
//! the callback that comes after the record, and no process its life, as a panic in the drop of
//! a lease would while the thread unwinds.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `say!(warn, target: "leasehold::renew", "…")`: as the macro of the facade, but returns in any
/// case.
macro_rules! say {
    ($level:ident, $($record:tt)+) => {
        $crate::said::shielded(|| log::$level!($($record)+))
    };
}

pub(crate) fn shielded(log: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(log)) {
        // What it panicked with may panic again when it is dropped.
        mem::forget(payload);
    }
}
