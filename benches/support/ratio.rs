//! Two ways to do the same, cycle by cycle in turns, and the ratio of their medians.
//!
//! Taken in blocks, one after the other, the ratio is mostly that of the machine's moods.
//! In turns both meet the same mood, so the ratio holds on a machine that others use, where
//! no absolute time does.

use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rounds: usize,
    pub(crate) pairs: usize,
}

/// The outcome of all rounds. A ratio is the second way's median over the first's.
pub(crate) struct Comparison {
    /// The median over the rounds of each round's median.
    pub(crate) first: Duration,
    pub(crate) second: Duration,
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

/// Runs `first` and `second` in turns. Which of them goes first changes with each pair, so
/// that neither always finds what the other has left in the caches.
pub(crate) fn compare(size: Size, first: &mut dyn FnMut(), second: &mut dyn FnMut()) -> Comparison {
    let mut rounds = Vec::with_capacity(size.rounds);
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        for _ in 0..size.pairs / 20 {
            first();
            second();
        }
        firsts.clear();
        seconds.clear();
        for pair in 0..size.pairs {
            if pair % 2 == 0 {
                firsts.push(timed(first));
                seconds.push(timed(second));
            } else {
                seconds.push(timed(second));
                firsts.push(timed(first));
            }
        }
        rounds.push((median(&mut firsts), median(&mut seconds)));
    }
    let mut ratios: Vec<f64> = rounds
        .iter()
        .map(|(first, second)| second.as_secs_f64() / first.as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    Comparison {
        first: median(&mut rounds.iter().map(|(first, _)| *first).collect::<Vec<_>>()),
        second: median(&mut rounds.iter().map(|(_, second)| *second).collect::<Vec<_>>()),
        least: ratios[0],
        median: ratios[ratios.len() / 2],
        most: ratios[ratios.len() - 1],
    }
}

fn timed(cycle: &mut dyn FnMut()) -> Duration {
    let begun = Instant::now();
    cycle();
    begun.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}
