//! A clock that two processes of one machine share, and that runs during suspend on Linux as
//! the lease's own does.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since a moment that all processes share.
pub(super) fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}
