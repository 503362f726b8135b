//! Two ways to do the same, cycle by cycle in turns, and the ratio of their medians.
//!
//! Taken in blocks, one after the other, the ratio is mostly that of the machine's moods.
//! In turns both meet the same mood, so the ratio holds on a machine that others use, where
//! no absolute time does.

use std::fmt;
use std::time::{Duration, Instant};

use super::times::Times;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rounds: usize,
    pub(crate) pairs: usize,
}

/// The outcome of all rounds.
pub(crate) struct Comparison {
    /// The median over the rounds of each round's figures.
    pub(crate) first: Times,
    pub(crate) second: Times,
    /// The second way's median over the first's.
    pub(crate) ratio: Spread,
}

/// A ratio in each round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        Self {
            least: rounds[0],
            median: rounds[rounds.len() / 2],
            most: rounds[rounds.len() - 1],
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            least,
            median,
            most,
        } = self;
        f.pad(&format!("{median:.3} ({least:.3} to {most:.3})"))
    }
}

/// Runs `first` and `second` in turns; each says how long it took. Which of them goes first
/// changes with each pair, so that neither always finds what the other has left in the caches.
pub(crate) fn compare(
    size: Size,
    first: &mut dyn FnMut() -> Duration,
    second: &mut dyn FnMut() -> Duration,
) -> Comparison {
    let mut rounds = Vec::with_capacity(size.rounds);
    for _ in 0..size.rounds {
        for _ in 0..size.pairs / 20 {
            first();
            second();
        }
        let mut firsts = Vec::with_capacity(size.pairs);
        let mut seconds = Vec::with_capacity(size.pairs);
        for pair in 0..size.pairs {
            if pair % 2 == 0 {
                firsts.push(first());
                seconds.push(second());
            } else {
                seconds.push(second());
                firsts.push(first());
            }
        }
        rounds.push((Times::of(firsts), Times::of(seconds)));
    }
    let (firsts, seconds): (Vec<Times>, Vec<Times>) = rounds.into_iter().unzip();
    let ratios = firsts
        .iter()
        .zip(&seconds)
        .map(|(first, second)| second.p50.as_secs_f64() / first.p50.as_secs_f64());
    Comparison {
        ratio: Spread::of(ratios.collect()),
        first: Times::median(&firsts),
        second: Times::median(&seconds),
    }
}

pub(crate) fn timed(cycle: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    cycle();
    begun.elapsed()
}
