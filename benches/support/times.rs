//! Many times in three figures.

use std::fmt;
use std::time::Duration;

/// Where there were no times at all, all three are zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Times {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100);
            times.get(rank.saturating_sub(1)).copied()
        };
        Self {
            p50: at(50).unwrap_or_default(),
            p99: at(99).unwrap_or_default(),
            max: at(100).unwrap_or_default(),
        }
    }

    /// The median of each figure over several rounds.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        let median = |figure: fn(&Self) -> Duration| Self::of(rounds.iter().map(figure).collect());
        Self {
            p50: median(|times| times.p50).p50,
            p99: median(|times| times.p99).p50,
            max: median(|times| times.max).p50,
        }
    }
}

/// The heads of what [`Times`] prints.
pub(crate) const FIGURES: &str = "     p50      p99      max";

/// In milliseconds.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, time) in [self.p50, self.p99, self.max].into_iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{:>8.3}", millis(time))?;
        }
        Ok(())
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn verdict(kept: bool) -> &'static str {
    if kept { "kept" } else { "EXCEEDED" }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts of a bench are far below 2^53"
)]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}
