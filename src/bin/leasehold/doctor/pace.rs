//! How far apart the clocks are, and how long a round trip takes.

use std::time::{Duration, Instant};

use leasehold::Client;

use super::finding::{Finding, Level};
use super::look::Offset;
use crate::duration::show;

/// Clocks that are kept by NTP are closer.
const APART: Duration = Duration::from_secs(1);

const PINGS: usize = 200;

/// For all of them; a server far away is asked less often.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server as near as locks need it answers within this.
const SLOW: Duration = Duration::from_millis(100);

/// A renewal waits for its answer for a tenth of the ttl at most.
const TTL_PER_TRIP: u32 = 10;

/// The shortest ttl that is renewed.
const SHORTEST_TTL: Duration = Duration::from_millis(150);

pub(crate) fn clock(offset: Option<Offset>) -> Finding {
    const LOOK: &str = "clock";
    let Some(Offset {
        by,
        ahead,
        give_or_take,
    }) = offset
    else {
        return Finding::unknown(
            LOOK,
            "TIME",
            "A lease does not depend on it; fences do, for they are drawn from the server's time.",
        );
    };
    let found = format!(
        "the server's is {} {} ours, give or take {}",
        fine(by),
        if ahead { "ahead of" } else { "behind" },
        fine(give_or_take)
    );
    if by.saturating_sub(give_or_take) <= APART {
        return Finding::new(
            Level::Ok,
            LOOK,
            found,
            "Fences and LEASEHOLD_DEADLINE_MS mean the same on both machines.",
        );
    }
    Finding::new(
        Level::Warning,
        LOOK,
        found,
        "A lease is not harmed: each side counts by its own clock. But LEASEHOLD_DEADLINE_MS is \
         by ours, fences are by the server's and go astray if another takes its place, and when \
         the server's clock is stepped to the right time, locks end early or stay for long.",
    )
    .mend(
        "let NTP keep both clocks; if it is the server's that is wrong, step it while nobody \
         holds a lock",
    )
}

pub(crate) fn round_trips(client: &Client) -> Finding {
    const LOOK: &str = "round trips";
    let mut times = Vec::with_capacity(PINGS);
    let mut failed = 0;
    let until = Instant::now() + PATIENCE;
    while times.len() + failed < PINGS && Instant::now() < until {
        match client.ping() {
            Ok(took) => times.push(took),
            Err(_) => failed += 1,
        }
    }
    let tried = times.len() + failed;
    times.sort_unstable();
    let (Some(half), Some(most), Some(longest)) = (
        percentile(&times, 50),
        percentile(&times, 99),
        times.last().copied(),
    ) else {
        return Finding::new(
            Level::Warning,
            LOOK,
            format!("none of {tried} was answered within 1 s"),
            "The server is away, or stands still: leases run into danger meanwhile.",
        )
        .mend("see to the network and to the server");
    };
    let lost = match failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let found = format!(
        "p50 {}, p99 {}, max {} of {tried}{lost}",
        fine(half),
        fine(most),
        fine(longest)
    );
    let ttl = (most * TTL_PER_TRIP).max(SHORTEST_TTL);
    let means = format!(
        "A renewal waits for a tenth of the ttl: take a ttl of {} or more.",
        show(ttl)
    );
    if failed == 0 && most <= SLOW {
        return Finding::new(Level::Ok, LOOK, found, means);
    }
    Finding::new(Level::Warning, LOOK, found, means)
        .mend("keep locks on a server nearby that does nothing slow; SLOWLOG GET tells what it did")
}

/// Of sorted times, the one that so many percent do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// To the microsecond below a tenth of a second: most round trips are there.
fn fine(span: Duration) -> String {
    if span < Duration::from_millis(100) {
        format!("{:.2}ms", span.as_secs_f64() * 1000.0)
    } else {
        show(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(by: u64, give_or_take: u64) -> Option<Offset> {
        Some(Offset {
            by: Duration::from_millis(by),
            ahead: false,
            give_or_take: Duration::from_millis(give_or_take),
        })
    }

    #[test]
    fn clocks_are_apart_only_where_the_round_trip_does_not_explain_it() {
        for (given, level) in [
            (None, Level::Note),
            (offset(1_000, 0), Level::Ok),
            (offset(1_300, 400), Level::Ok),
            (offset(1_300, 200), Level::Warning),
            (offset(3_600_000, 1), Level::Warning),
        ] {
            assert_eq!(clock(given).level, level, "{given:?}");
        }
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&times, 99), Some(Duration::from_millis(198)));
        assert_eq!(percentile(&times[..1], 99), Some(Duration::from_millis(1)));
        assert_eq!(percentile(&[], 50), None);
    }
}
