//! What contenders get done in a slice of time, each taking a lock and giving it back, turn by
//! turn.

use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use leasehold::{Lease, Lock};

use super::clock::{now, rest_until};
use super::times::{Times, count};

/// Nobody waits for so long unless something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One acquisition, by the clock that all processes share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) asked: Duration,
    pub(crate) acquired: Duration,
    /// When giving it back began.
    pub(crate) releasing: Duration,
    pub(crate) released: Duration,
}

impl Turn {
    /// Waits for `lock`, and holds it for `hold`.
    pub(crate) fn at(lock: &Lock, hold: Duration) -> Self {
        let acquire = || lock.acquire_timeout(PATIENCE).expect("its turn comes");
        let release = |lease: Lease| lease.release().expect("the lock is ours");
        Self::take(hold, acquire, release)
    }

    /// Holds what `acquire` gives for `hold`.
    pub(crate) fn take<L>(
        hold: Duration,
        acquire: impl FnOnce() -> L,
        release: impl FnOnce(L),
    ) -> Self {
        let asked = now();
        let lease = acquire();
        let acquired = now();
        if !hold.is_zero() {
            rest_until(acquired + hold);
        }
        let releasing = now();
        release(lease);
        Self {
            asked,
            acquired,
            releasing,
            released: now(),
        }
    }
}

/// The time that is measured. Work has begun before it, and goes on until it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

impl Window {
    /// After a time to get warm in.
    pub(crate) fn ahead(length: Duration) -> Self {
        let begin = now() + length / 5;
        Self {
            begin,
            end: begin + length,
        }
    }

    /// Takes turns until it is over. The last one ends after it.
    pub(crate) fn fill(self, mut turn: impl FnMut() -> Turn) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        while turns.last().is_none_or(|last| last.released < self.end) {
            turns.push(turn());
        }
        turns
    }

    fn has(self, moment: Duration) -> bool {
        self.begin <= moment && moment < self.end
    }
}

/// What came of a slice: all turns of each contender, in and outside of the window.
pub(crate) struct Outcome {
    pub(crate) window: Window,
    pub(crate) contenders: Vec<Vec<Turn>>,
}

impl Outcome {
    /// Each worker on a thread of its own, all of them ready before the first begins.
    pub(crate) fn of_threads(
        length: Duration,
        workers: &mut [impl FnMut() -> Turn + Send],
    ) -> Self {
        let (ready, window) = (Barrier::new(workers.len()), OnceLock::new());
        let work = |worker| {
            if ready.wait().is_leader() {
                window.get_or_init(|| Window::ahead(length));
            }
            window.wait().fill(worker)
        };
        let contenders = thread::scope(|scope| {
            let workers = workers.iter_mut();
            let threads: Vec<_> = workers.map(|worker| scope.spawn(|| work(worker))).collect();
            let turns = threads.into_iter().map(thread::ScopedJoinHandle::join);
            turns
                .map(|turns| turns.expect("it does not panic"))
                .collect()
        });
        Self {
            window: window.into_inner().expect("a worker has set it"),
            contenders,
        }
    }

    fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.contenders.iter().flatten()
    }

    fn finished<'a>(&self, turns: &'a [Turn]) -> impl Iterator<Item = &'a Turn> {
        let window = self.window;
        turns.iter().filter(move |turn| window.has(turn.released))
    }

    /// Turns that have ended in the window, each second.
    pub(crate) fn rate(&self) -> f64 {
        let counts = self.counts().into_iter();
        count(counts.sum()) / (self.window.end - self.window.begin).as_secs_f64()
    }

    /// Turns of each contender that have ended in the window.
    fn counts(&self) -> Vec<u64> {
        let contenders = self.contenders.iter();
        contenders
            .map(|turns| self.finished(turns).map(|_| 1).sum())
            .collect()
    }

    /// How long the turns took that have ended in the window.
    pub(crate) fn times(&self) -> Times {
        let contenders = self.contenders.iter();
        let turns = contenders.flat_map(|turns| self.finished(turns));
        Times::of(turns.map(|turn| turn.released - turn.asked).collect())
    }

    /// How long contenders waited: all waits that reach into the window, as far as they had come
    /// by its end. Whoever is passed over for all of it has waited for all of it.
    pub(crate) fn waits(&self) -> Times {
        let Window { begin, end } = self.window;
        let turns = self
            .turns()
            .filter(|turn| begin <= turn.acquired && turn.asked < end);
        Times::of(
            turns
                .map(|turn| turn.acquired.min(end) - turn.asked)
                .collect(),
        )
    }

    /// Jain's index over the contenders: 1 if all had the same number of turns, 1 / n if one of
    /// n had them all.
    pub(crate) fn fairness(&self) -> f64 {
        let counts = self.counts();
        let sum = count(counts.iter().sum());
        let squares: f64 = counts.iter().map(|turns| count(turns * turns)).sum();
        if squares == 0.0 {
            return 0.0;
        }
        sum * sum / (squares * count(counts.len() as u64))
    }

    /// All turns, in and outside of the window.
    pub(crate) fn acquisitions(&self) -> u64 {
        self.turns().map(|_| 1).sum()
    }

    /// Acquisitions of one and the same lock by another contender than the one before it, in and
    /// outside of the window. `Err` if the lock had two holders at once.
    pub(crate) fn hand_overs(&self) -> Result<u64, String> {
        let contenders = self.contenders.iter().enumerate();
        let mut holders: Vec<(&Turn, usize)> = contenders
            .flat_map(|(number, turns)| turns.iter().map(move |turn| (turn, number)))
            .collect();
        holders.sort_unstable_by_key(|(turn, _)| turn.acquired);
        let mut hand_overs = 0;
        for pair in holders.windows(2) {
            let [(earlier, one), (later, other)] = [pair[0], pair[1]];
            if later.acquired < earlier.releasing {
                return Err(format!(
                    "two holders at once, {one} and {other}: {earlier:?} and {later:?}"
                ));
            }
            hand_overs += u64::from(one != other);
        }
        Ok(hand_overs)
    }
}
