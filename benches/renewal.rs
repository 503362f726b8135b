//! What it takes to keep many leases, and what others on the same server notice of it.
//!
//! ```text
//! cargo bench --bench renewal                1, 1,000 and 10,000 leases
//! cargo bench --bench renewal -- 5000 7      so many instead
//! ```
//!
//! Leases of 10 s stand on a private `redis-server` for 20 s each size
//! (`LEASEHOLD_BENCH_SECONDS`), renewed in the background as by default. They are taken as fast as
//! it goes and so fall due together: the worst case for everybody else. Who that is: a connection
//! beside them that sends a PING every millisecond, for a quarter of that time without any lease
//! and then with them.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a bench reports by printing, and ends at the first thing that goes wrong"
)]

use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, Error, Lease, Stats};

mod support;

use support::arguments::{is_smoke, number, words};
use support::bare::{Bare, Token};
use support::outcome::exit_code;
use support::pace::beside;
use support::patience::wait_until;
use support::placement::Placement;
use support::server::Server;
use support::times::{FIGURES, Times, millis, verdict};

/// How much of a core the renewal thread may take, for any number of leases up to the most.
const BUDGET: f64 = 0.10;

const THREAD: &str = "leasehold-renew";

/// Who take the leases, and give them back.
const CALLERS: usize = 8;

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), String> {
    let mut sizes = Vec::new();
    for word in words() {
        let size = word.parse().ok().filter(|size| 0 < *size);
        sizes.push(size.ok_or_else(|| format!("not a number of leases: {word}"))?);
    }
    let (default, ttl, span): (&[usize], _, _) = if is_smoke() {
        (&[1, 50], Duration::from_secs(1), Duration::from_secs(1))
    } else {
        let seconds = number("LEASEHOLD_BENCH_SECONDS", 20)?;
        let seconds = u64::try_from(seconds).expect("a number of seconds");
        let ttl = Duration::from_secs(10);
        (&[1, 1_000, 10_000], ttl, Duration::from_secs(seconds))
    };
    if sizes.is_empty() {
        sizes.extend_from_slice(default);
    }

    let server = Server::start()?;
    let others = Bare::connect(&server.tcp_url(), "bench:others", Token::Constant);
    let others = others.map_err(|error| error.to_string())?;
    println!(
        "{}\n\nleases of {ttl:?}, {span:?} each \
         size; PINGs of another connection in ms, alone and beside them\n  {:>7} {:>8} {:>9} \
         {:>5} {:>9} {:>7} {:>8}   {:^26}   {:^26}   budget",
        server.describe(Placement::Free)?,
        "leases",
        "taken in",
        "thread",
        "lost",
        "renewals",
        "failed",
        "margin",
        "alone",
        "beside",
    );
    println!(
        "  {:59}   {FIGURES}   {FIGURES}   none lost, {:.0} % of a core",
        "",
        BUDGET * 100.0
    );
    for leases in sizes {
        measure(&server, &others, leases, ttl, span)?.print(leases);
    }
    Ok(())
}

struct Row {
    taken_in: Duration,
    /// The renewal thread's share of a core, where the system tells.
    share: Option<f64>,
    /// Before the leases were given back.
    stats: Stats,
    not_held: usize,
    /// Of the time that was measured alone, not from the first lease on.
    renewals: u64,
    alone: Times,
    beside: Times,
}

fn measure(
    server: &Server,
    others: &Bare,
    leases: usize,
    ttl: Duration,
    span: Duration,
) -> Result<Row, String> {
    // The threads of the size before are those of a client that is gone.
    wait_until("another client's thread ends", || cpu_times().is_empty())?;
    let ping = |_| {
        let begun = Instant::now();
        others.ping();
        begun.elapsed()
    };
    // Nothing is sent to this one: it ends the wait when the time is over.
    let (_keep, nothing) = mpsc::channel::<()>();
    let wait = |span| nothing.recv_timeout(span).is_err();
    let (_, alone) = beside(ping, || wait(span / 4));

    let client = Client::open(&server.tcp_url()).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let held = take(&client, leases, ttl)?;
    let taken_in = begun.elapsed();
    if cfg!(target_os = "linux") {
        // A thread has its name only once it runs.
        wait_until("a renewal thread", || !cpu_times().is_empty())?;
    }
    let (before, stats_before, begun) = (cpu_times(), client.stats(), Instant::now());
    let (_, pings) = beside(ping, || wait(span));
    let (after, stats, wall) = (cpu_times(), client.stats(), begun.elapsed());
    let row = Row {
        taken_in,
        share: share(&before, &after, wall)?,
        not_held: held.iter().filter(|lease| lease.check().is_err()).count(),
        renewals: stats.renewals_ok - stats_before.renewals_ok,
        stats,
        alone: Times::of(alone),
        beside: Times::of(pings),
    };
    give_back(held)?;
    Ok(row)
}

impl Row {
    fn print(&self, leases: usize) {
        let Stats {
            lost,
            renewals_failed,
            smallest_margin,
            ..
        } = self.stats;
        let share = self.share;
        let kept = lost == 0
            && self.not_held == 0
            && 0 < self.renewals
            && share.is_none_or(|share| share <= BUDGET);
        println!(
            "  {leases:>7} {:>6.2} s {:>9} {lost:>5} {:>9} {renewals_failed:>7} {:>8}   {}   {}   {}",
            self.taken_in.as_secs_f64(),
            share.map_or_else(|| "?".to_owned(), |share| format!("{:.2} %", share * 100.0)),
            self.renewals,
            smallest_margin.map_or_else(
                || "none".to_owned(),
                |margin| format!("{:.2} s", millis(margin) / 1e3)
            ),
            self.alone,
            self.beside,
            verdict(kept),
        );
        if 0 < self.not_held {
            println!("  {:>7} in danger or lost at the end", self.not_held);
        }
    }
}

/// Takes all leases, from several threads at once.
fn take(client: &Client, leases: usize, ttl: Duration) -> Result<Vec<Lease>, String> {
    let take = |number: usize| {
        let lock = client.lock(format!("bench:renewal:{number}")).ttl(ttl);
        let lease = lock.build().and_then(|lock| lock.acquire());
        lease.map_err(|error| error.to_string())
    };
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS.min(leases))
            .map(|caller| {
                scope.spawn(move || {
                    let numbers = (caller..leases).step_by(CALLERS);
                    numbers.map(take).collect::<Result<Vec<_>, _>>()
                })
            })
            .collect();
        let mut taken = Vec::with_capacity(leases);
        for caller in callers {
            taken.extend(caller.join().expect("it does not panic")?);
        }
        Ok(taken)
    })
}

fn give_back(mut leases: Vec<Lease>) -> Result<(), String> {
    thread::scope(|scope| {
        let mut callers = Vec::new();
        let each = leases.len().div_ceil(CALLERS);
        while !leases.is_empty() {
            let mine = leases.split_off(leases.len().saturating_sub(each));
            callers.push(scope.spawn(|| mine.into_iter().try_for_each(release)));
        }
        for caller in callers {
            let given = caller.join().expect("it does not panic");
            given.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

/// A lease that is lost has been counted.
fn release(lease: Lease) -> Result<(), Error> {
    lease
        .release()
        .or_else(|error| if error.is_lost() { Ok(()) } else { Err(error) })
}

/// `None` where the system does not tell. There has to be one renewal thread, the same one before
/// and after.
fn share(
    before: &[(u64, Duration)],
    after: &[(u64, Duration)],
    wall: Duration,
) -> Result<Option<f64>, String> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    match (before, after) {
        ([(one, before)], [(same, after)]) if one == same => {
            let used = after.saturating_sub(*before);
            Ok(Some(used.as_secs_f64() / wall.as_secs_f64()))
        }
        _ => Err(format!(
            "not one renewal thread, and the same one: {} before, {} after",
            before.len(),
            after.len()
        )),
    }
}

/// The renewal threads of this process, each with the time that it has run; none where the system
/// does not tell.
fn cpu_times() -> Vec<(u64, Duration)> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten() {
        let Ok(task) = task else { continue };
        // A thread that ends meanwhile has no files any more.
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if read("comm").trim_end() != THREAD {
            continue;
        }
        let id = task.file_name().to_string_lossy().parse();
        // The first of three numbers is the time on a core.
        let nanos = read("schedstat");
        let nanos = nanos.split_whitespace().next().map(str::parse);
        if let (Ok(id), Some(Ok(nanos))) = (id, nanos) {
            found.push((id, Duration::from_nanos(nanos)));
        }
    }
    found
}
