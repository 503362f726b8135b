//! The one clock: every reading, every comparison and every wait of this crate goes
//! through it.
//!
//! On Linux it is `CLOCK_BOOTTIME`, which runs on while the machine is suspended, as the
//! server's expiry does; `std::time::Instant` stands still there. Elsewhere it is
//! `Instant`. Public `Instant`s are converted at the call that takes or returns them.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, MutexGuard};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A point on the clock, in nanoseconds since an origin that one process shares.
///
/// Additions saturate at [`Time::MAX`]. For a deadline that is the safe side: it comes
/// earlier than was asked for, never later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

impl Time {
    /// Later than everything; as a limit it means "no limit".
    pub(crate) const MAX: Self = Self(u64::MAX);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn plus(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// The other way: never before the clock's origin.
    pub(crate) fn minus(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }

    /// The time from `earlier` to `self`, zero if `earlier` is not earlier.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Where the time comes from: the system, or a test that moves it by hand.
#[derive(Clone, Debug, Default)]
pub(crate) enum Clock {
    #[default]
    System,
    #[cfg(test)]
    Fake(fake::FakeClock),
}

impl Clock {
    pub(crate) fn now(&self) -> Time {
        match self {
            Self::System => system_now(),
            #[cfg(test)]
            Self::Fake(fake) => fake.now(),
        }
    }

    /// Converts a public `Instant`, which may lie in the past.
    pub(crate) fn time_of(&self, instant: Instant) -> Time {
        let now = self.now();
        match instant.checked_duration_since(Instant::now()) {
            Some(ahead) => now.plus(ahead),
            None => now,
        }
    }

    /// The `Instant` of a point on this clock, or `None` if `Instant` cannot express it.
    pub(crate) fn instant_of(&self, time: Time) -> Option<Instant> {
        Instant::now().checked_add(time.since(self.now()))
    }

    /// Waits on `condvar` until it is notified or `until` has come, whichever is first.
    /// It may also return for no reason, as condition variables do, and does so after a second: a
    /// condition variable counts by a clock that stands still during suspend, and this one does
    /// not.
    pub(crate) fn park<T>(&self, condvar: &Condvar, guard: &mut MutexGuard<'_, T>, until: Time) {
        if until == Time::MAX {
            condvar.wait(guard);
        } else {
            condvar.wait_for(guard, until.since(self.now()).min(LONGEST_SLEEP));
        }
    }
}

#[cfg(target_os = "linux")]
fn system_now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Neither field is negative: the clock starts at 0 with the machine.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(not(target_os = "linux"))]
fn system_now() -> Time {
    static ORIGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    // One second ahead of the origin, so that a time is never 0 and the first reading can
    // be told from "unset".
    Time(1_000_000_000).plus(ORIGIN.elapsed())
}

#[cfg(test)]
pub(crate) mod fake {
    //! A clock that stands still until a test moves it.

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Clock, Duration, Time};

    #[derive(Clone, Debug)]
    pub(crate) struct FakeClock(Arc<AtomicU64>);

    impl FakeClock {
        pub(crate) fn at(nanos: u64) -> Self {
            Self(Arc::new(AtomicU64::new(nanos)))
        }

        pub(crate) fn now(&self) -> Time {
            Time(self.0.load(Ordering::SeqCst))
        }

        pub(crate) fn advance(&self, span: Duration) {
            let next = self.now().plus(span);
            self.0.store(next.as_nanos(), Ordering::SeqCst);
        }

        pub(crate) fn clock(&self) -> Clock {
            Clock::Fake(self.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_that_overflows_ends_at_the_largest_time() {
        assert_eq!(Time::from_nanos(5).plus(Duration::MAX), Time::MAX);
        assert_eq!(Time::MAX.plus(Duration::from_nanos(1)), Time::MAX);
    }

    #[test]
    fn a_span_never_runs_backwards() {
        let (early, late) = (Time::from_nanos(3), Time::from_nanos(10));
        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn an_instant_in_the_past_is_now_and_one_ahead_keeps_its_distance() {
        let clock = fake::FakeClock::at(1_000_000_000_000).clock();
        let past = Instant::now().checked_sub(Duration::from_secs(1));
        if let Some(past) = past {
            assert_eq!(clock.time_of(past), clock.now());
        }
        let ahead = clock.time_of(Instant::now() + Duration::from_secs(3600));
        let span = ahead.since(clock.now());
        assert!(span <= Duration::from_secs(3600) && Duration::from_secs(3000) < span);
    }

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = Clock::default();
        let first = clock.now();
        assert!(first <= clock.now());
        assert!(Time::from_nanos(0) < first);
    }
}
