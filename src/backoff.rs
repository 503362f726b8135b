//! Pauses between tries: doubling, jittered, and cut short by what they wait for.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::{Clock, Time};

/// How pauses grow. Plain data: each use makes its own [`Pauses`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) most: Duration,
}

impl Backoff {
    /// Between looks at a lock that somebody holds. The most is a compromise between the
    /// load of many waiters and the time a free lock lies unused.
    pub(crate) const POLL: Self = Self {
        first: Duration::from_millis(2),
        most: Duration::from_millis(50),
    };

    /// Between tries to reach a server that is away.
    pub(crate) const OUTAGE: Self = Self {
        first: Duration::from_millis(10),
        most: Duration::from_millis(200),
    };

    /// What a client whose own threads wait for a lock leaves to clients that poll for it: the
    /// libraries that do look ten times a second.
    pub(crate) const COURTESY: Self = Self {
        first: Duration::from_millis(150),
        most: Duration::from_millis(150),
    };

    /// For another client, which was woken, to come: a few times the way to one that is not far.
    pub(crate) const ANOTHERS_TURN: Self = Self {
        first: Duration::from_millis(12),
        most: Duration::from_millis(12),
    };

    pub(crate) const fn pauses(self) -> Pauses {
        Pauses {
            next: self.first,
            most: self.most,
        }
    }
}

/// The pauses of one wait, without end.
#[derive(Clone, Debug)]
pub(crate) struct Pauses {
    next: Duration,
    most: Duration,
}

impl Pauses {
    /// The next pause: between half and all of what the doubling says, so that waiters who
    /// began together drift apart.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = whole.saturating_mul(2).min(self.most);
        // Without randomness the pause is whole: late is better than in step.
        let random = getrandom::u32().unwrap_or(u32::MAX);
        let half = whole / 2;
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// Waits until `until`, with nothing that could end it earlier.
pub(crate) fn pause(clock: &Clock, until: Time) {
    let nobody_notifies = Mutex::new(());
    let never = Condvar::new();
    let mut guard = nobody_notifies.lock();
    while clock.now() < until {
        clock.park(&never, &mut guard, until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_and_stay_between_half_and_whole() {
        let mut pauses = Backoff::POLL.pauses();
        for whole in [2, 4, 8, 16, 32, 50, 50, 50] {
            let pause = pauses.next_pause();
            let whole = Duration::from_millis(whole);
            assert!(
                whole / 2 <= pause && pause <= whole,
                "{pause:?} of {whole:?}"
            );
        }
    }
}
