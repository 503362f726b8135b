//! A clock that all processes of the machine share, so that a time taken in one may be compared
//! with a time taken in another.

use std::thread;
use std::time::Duration;

/// Since a beginning that is the same for everybody.
#[cfg(unix)]
pub(crate) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Neither field is negative: the clock starts at 0 with the machine.
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// Since a beginning that is the same for everybody. It may step, but there is no other.
#[cfg(not(unix))]
pub(crate) fn now() -> Duration {
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    epoch.elapsed().unwrap_or_default()
}

/// Waits without taking the core from those who work.
pub(crate) fn rest_until(moment: Duration) {
    loop {
        let left = moment.saturating_sub(now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}
