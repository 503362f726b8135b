//! How late a holder is told of danger and of loss while the server does not answer.
//!
//! ```text
//! cargo bench --bench danger
//! ```
//!
//! A private `redis-server` is stopped with SIGSTOP while 1,000 leases, renewed in the background
//! as by default, stand on it; all of them enter their danger zone and are lost. A danger's
//! lateness is the time from that moment to the callback: the danger margin, less what the
//! callback finds to remain. A loss's is the time from the deadline.
//!
//! Their moments are spread evenly over a second, or all one. The client has nothing else to tell,
//! or 63 other leases whose callbacks block, one short of the most that may. `only waits` is no
//! callback: a thread beside them that waits for a millisecond at a time, and how late it is woken.
//! No notice can be earlier than what the system does to that one.
//!
//! `LEASEHOLD_BENCH_ROUNDS` (3) is the number of rounds.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a bench reports by printing, and ends at the first thing that goes wrong"
)]

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use leasehold::{Client, Lease, LockBuilder};

mod support;

use support::arguments::{is_smoke, number};
use support::outcome::exit_code;
use support::pace::beside;
use support::placement::Placement;
use support::server::Server;
use support::times::{Times, verdict};

const MOST_P99: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_millis(20);

/// One short of the callback threads that a client may have.
const BLOCKING: usize = 63;

/// The danger margin of the leases that are measured, within a millisecond.
const MARGIN: Duration = Duration::from_millis(500);

/// From when to when the blocking callbacks begin, before the first of the others.
const BLOCKED_FOR: Duration = Duration::from_millis(300);

/// After its last moment a round has ended, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), String> {
    let (rounds, size) = if is_smoke() {
        (1, Size::smoke())
    } else {
        (number("LEASEHOLD_BENCH_ROUNDS", 3)?, Size::full())
    };
    let plans = [
        (size.spread, 0),
        (size.spread, BLOCKING),
        (Duration::ZERO, 0),
        (Duration::ZERO, BLOCKING),
    ]
    .map(|(spread, blocking)| Plan { spread, blocking });
    let server = Server::start()?;
    println!("{}", server.describe(Placement::Free)?);

    let mut all = [const { Vec::new() }; 4];
    // In turns, so that all plans meet the same moods of the machine.
    for round in 0..rounds {
        for (plan, results) in plans.iter().zip(&mut all) {
            results.push(plan.round(&server, size, round)?);
        }
    }
    report(size, &plans, &all);
    Ok(())
}

fn report(size: Size, plans: &[Plan], all: &[Vec<Round>]) {
    let rounds = all.first().map_or(0, Vec::len);
    println!(
        "\nhow late {} leases are told in ms, the server stopped: medians of {rounds} rounds, and \
         the worst of all\n  {:<10} {:<10} {:>8}  {:>8} {:>8} {:>8} {:>8}   budget",
        size.leases, "notice", "moments", "blocking", "p50", "p99", "max", "worst"
    );
    let figures: [(&str, Figure); 3] = [
        ("danger", |round| round.danger),
        ("loss", |round| round.loss),
        ("only waits", |round| round.waits),
    ];
    for (name, figure) in figures {
        for (plan, results) in plans.iter().zip(all) {
            let rounds: Vec<Times> = results.iter().map(figure).collect();
            let times = Times::median(&rounds);
            let worst = rounds.iter().map(|times| times.max).max();
            let budget = if name == "danger" {
                let kept = times.p99 <= MOST_P99 && times.max <= MOST;
                format!("p99 {MOST_P99:?}, max {MOST:?}: {}", verdict(kept))
            } else {
                String::new()
            };
            let moments = if plan.spread.is_zero() {
                "all one".to_owned()
            } else {
                format!("over {:?}", plan.spread)
            };
            println!(
                "  {name:<10} {moments:<10} {:>8}  {times} {:>8.3}   {budget}",
                plan.blocking,
                support::times::millis(worst.unwrap_or_default()),
            );
        }
    }
}

#[derive(Clone, Copy)]
struct Size {
    leases: usize,
    /// The leases are taken by then, and the server stopped; counted from a round's beginning.
    taken: Duration,
    /// The first danger zone is entered.
    first: Duration,
    /// Over how long the moments are spread.
    spread: Duration,
}

impl Size {
    const fn full() -> Self {
        Self {
            leases: 1_000,
            taken: Duration::from_millis(600),
            first: Duration::from_millis(1_500),
            spread: Duration::from_secs(1),
        }
    }

    const fn smoke() -> Self {
        Self {
            leases: 20,
            taken: Duration::from_millis(400),
            first: Duration::from_millis(1_000),
            spread: Duration::from_millis(100),
        }
    }
}

#[derive(Clone, Copy)]
struct Plan {
    spread: Duration,
    blocking: usize,
}

struct Round {
    danger: Times,
    loss: Times,
    waits: Times,
}

type Figure = fn(&Round) -> Times;

/// What a callback reports.
enum Told {
    Blocks,
    Danger { number: usize, remaining: Duration },
    Lost { number: usize, at: Instant },
}

/// A lease that is measured.
struct Measured {
    _lease: Lease,
    margin: Duration,
    deadline: Instant,
}

impl Plan {
    fn round(self, server: &Server, size: Size, round: usize) -> Result<Round, String> {
        let client = Client::open(&server.tcp_url()).map_err(|error| error.to_string())?;
        let (telling, told) = channel();
        let begun = Instant::now();
        let at_once = Arc::new(Barrier::new(self.blocking + 1));
        // Nothing that is left of another round is in the way.
        let Self { spread, blocking } = self;
        let key = |kind, number| format!("bench:{round}:{spread:?}:{blocking}:{kind}:{number}");
        let mut others = Vec::new();
        for number in 0..self.blocking {
            let lock = client.lock(key("blocking", number)).without_renewal();
            let (telling, at_once) = (telling.clone(), Arc::clone(&at_once));
            let lock = lock.on_danger(move |_| {
                let _ = telling.send(Told::Blocks);
                at_once.wait();
            });
            let danger_at = begun + size.first - BLOCKED_FOR;
            // None of them is lost before the round is over.
            others.push(take(lock, danger_at, danger_at + PATIENCE)?);
        }
        let mut leases = Vec::new();
        for number in 0..size.leases {
            let lock = client.lock(key("measured", number));
            let (danger, loss) = (telling.clone(), telling.clone());
            let lock = lock
                .on_danger(move |notice| {
                    let remaining = notice.remaining();
                    let _ = danger.send(Told::Danger { number, remaining });
                })
                .on_lost(move |_| {
                    let at = Instant::now();
                    let _ = loss.send(Told::Lost { number, at });
                });
            let danger_at = begun + size.first + self.spread.mul_f64(part(number, size.leases));
            leases.push(take(lock, danger_at, danger_at + MARGIN)?);
        }
        server.stop()?;
        if size.taken < begun.elapsed() || 0 < client.stats().renewals_ok {
            return Err(format!(
                "{} leases were taken in {:?}, which is too long for this",
                size.leases,
                begun.elapsed()
            ));
        }

        let last = begun + size.first + self.spread + MARGIN + PATIENCE;
        let (round, waits) = beside(|late| late, || self.collect(&told, &leases, last));
        server.go_on()?;
        // An error leaves the callbacks where they are; they end with the process.
        let (danger, loss) = round?;
        at_once.wait();
        Ok(Round {
            danger: Times::of(danger),
            loss: Times::of(loss),
            waits: Times::of(waits),
        })
    }

    /// Each lease tells its danger once and its loss once; the 63 block before any of that.
    fn collect(
        self,
        told: &Receiver<Told>,
        leases: &[Measured],
        until: Instant,
    ) -> Result<(Vec<Duration>, Vec<Duration>), String> {
        let (mut danger, mut loss) = (Vec::new(), Vec::new());
        let mut blocking = 0;
        while danger.len() < leases.len() || loss.len() < leases.len() {
            let left = until.saturating_duration_since(Instant::now());
            let told = told.recv_timeout(left).map_err(|_| {
                format!(
                    "of {} leases {} told danger and {} told loss, with {blocking} callbacks \
                     blocking",
                    leases.len(),
                    danger.len(),
                    loss.len()
                )
            })?;
            match told {
                Told::Blocks => blocking += 1,
                Told::Danger { number, remaining } => {
                    danger.push(leases[number].margin.saturating_sub(remaining));
                }
                Told::Lost { number, at } => {
                    loss.push(at.saturating_duration_since(leases[number].deadline));
                }
            }
            if blocking < self.blocking && !danger.is_empty() {
                return Err(format!("only {blocking} callbacks block"));
            }
        }
        Ok((danger, loss))
    }
}

/// Takes a lease that enters its danger zone at `danger_at`, and is lost at `lost_at` or up to a
/// millisecond later.
fn take(lock: LockBuilder, danger_at: Instant, lost_at: Instant) -> Result<Measured, String> {
    const ROUNDING: Duration = Duration::from_millis(2);
    let now = Instant::now();
    let validity = lost_at.saturating_duration_since(now);
    // The least whole number of milliseconds that is valid for as long.
    let ttl = (validity + ROUNDING).mul_f64(100.0 / 99.0).as_millis() + 1;
    let ttl = Duration::from_millis(u64::try_from(ttl).expect("a few seconds"));
    let validity = ttl - ttl / 100 - ROUNDING;
    let margin = validity.saturating_sub(danger_at.saturating_duration_since(now));
    let lock = lock.ttl(ttl).danger(margin).build();
    let lease = lock
        .and_then(|lock| lock.acquire())
        .map_err(|error| error.to_string())?;
    let deadline = deadline(&lease);
    Ok(Measured {
        _lease: lease,
        margin,
        deadline,
    })
}

/// The deadline by the clock of a bench. Two clocks are read one after the other: of several
/// tries, the one with the least time between them, and never later than it is.
fn deadline(lease: &Lease) -> Instant {
    let tries = (0..5).map(|_| {
        let before = Instant::now();
        let remaining = lease.remaining();
        (before.elapsed(), before + remaining)
    });
    let best = tries.min_by_key(|(between, _)| *between);
    best.expect("there are five").1
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand at most")]
fn part(number: usize, of: usize) -> f64 {
    number as f64 / of as f64
}
