//! What many threads get done through one client, each with a lock of its own.
//!
//! ```text
//! cargo bench --bench threads                1, 2, 8, 64 and 256 threads
//! cargo bench --bench threads -- 16 128      so many instead
//! cargo bench --bench threads -- controls    what the ratio is worth: the bare sockets against
//!                                            variants of themselves
//! ```
//!
//! On a private `redis-server`, all threads together acquire and release through one client with
//! its default of links; or each does the very same two commands on a bare connection of its own;
//! or two connections send batches of them, which is all that the server can take: the ceiling.
//! Each of the three gets a slice of time in every round, so that all meet the same moods of the
//! machine, and a ratio is one of two neighbours. The sockets are all that the client has opened
//! from first to last, as the server has counted them.
//!
//! `LEASEHOLD_BENCH_ROUNDS` (7) and `LEASEHOLD_BENCH_MILLIS` (700, the length of a slice) are the
//! size. `LEASEHOLD_BENCH_PLACEMENT` says where client and server run: `free` (as the system likes,
//! the default), `across` (on a core each) or `one` (on the same).

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a bench reports by printing, and ends at the first thing that goes wrong"
)]

use std::process::ExitCode;
use std::time::Duration;

use leasehold::Client;

mod support;

use support::arguments::{is_smoke, number, words};
use support::bare::{Bare, Token};
use support::outcome::exit_code;
use support::pipelined::Pipelined;
use support::placement::Placement;
use support::ratio::Spread;
use support::sameness::check_sameness;
use support::server::Server;
use support::slice::{Outcome, Turn};
use support::times::{FIGURES, Times, count, verdict};

const MOST_SOCKETS: u64 = 8;

/// Of the bare connections' throughput, at so many threads.
const BUDGETS: [(usize, f64); 4] = [(2, 0.95), (8, 0.95), (64, 1.5), (256, 2.5)];

/// Cycles in a batch of the ceiling.
const BATCH: usize = 100;

/// One does not keep the server busy while it reads.
const PIPELINES: usize = 2;

/// For the controls.
const THREADS: usize = 8;

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), String> {
    let words = words();
    let (default, size): (&[usize], _) = if is_smoke() {
        (&[1, 16], Size::smoke())
    } else {
        (&[1, 2, 8, 64, 256], Size::full()?)
    };
    // Looked for before it is taken: a pinned thread may use no other core.
    let placement = Placement::wanted()?;
    let server = Server::start()?;
    placement.take(Some(server.id()));
    let url = server.tcp_url();
    check_sameness(&url)?;
    println!("{}", server.describe(placement)?);
    if words == ["controls"] {
        return controls(&url, size);
    }
    let mut threads = Vec::new();
    for word in &words {
        let number = word.parse().ok().filter(|number| 0 < *number);
        threads.push(number.ok_or_else(|| format!("not a number of threads: {word}"))?);
    }
    if threads.is_empty() {
        threads.extend_from_slice(default);
    }
    begin_table(size);
    for threads in threads {
        measure(&url, threads, size)?.print(threads, size);
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    slice: Duration,
}

impl Size {
    fn full() -> Result<Self, String> {
        Ok(Self {
            rounds: number("LEASEHOLD_BENCH_ROUNDS", 7)?,
            slice: support::arguments::millis("LEASEHOLD_BENCH_MILLIS", 700)?,
        })
    }

    const fn smoke() -> Self {
        Self {
            rounds: 1,
            slice: Duration::from_millis(50),
        }
    }

    /// A short slice of one round says nothing about a few per cent.
    fn is_enough(self) -> bool {
        Duration::from_secs(1) <= self.slice * u32::try_from(self.rounds).unwrap_or(u32::MAX)
    }
}

/// What a thread does in a turn.
type Worker = Box<dyn FnMut() -> Turn + Send>;

/// Of what one side has done in each round.
#[derive(Default)]
struct Side {
    rates: Vec<f64>,
    times: Vec<Times>,
}

impl Side {
    fn add(&mut self, outcome: &Outcome) {
        self.rates.push(outcome.rate());
        self.times.push(outcome.times());
    }

    fn rate(&self) -> f64 {
        Spread::of(self.rates.clone()).median
    }

    fn times(&self) -> Times {
        Times::median(&self.times)
    }

    /// Round by round.
    fn ratio(&self, to: &Self) -> Spread {
        let pairs = self.rates.iter().zip(&to.rates);
        Spread::of(pairs.map(|(own, other)| own / other).collect())
    }
}

/// Which of the two goes first changes with each round, so that neither always finds what the
/// other has left behind.
fn alternate(
    size: Size,
    first: &mut [Worker],
    second: &mut [Worker],
    mut between: impl FnMut(),
) -> [Side; 2] {
    let mut sides = [Side::default(), Side::default()];
    let workers = [first, second];
    for round in 0..size.rounds {
        for side in [round % 2, (round + 1) % 2] {
            sides[side].add(&Outcome::of_threads(size.slice, workers[side]));
        }
        between();
    }
    sides
}

struct Row {
    bare: Side,
    leasehold: Side,
    ceiling: Side,
    sockets: u64,
}

fn measure(url: &str, threads: usize, size: Size) -> Result<Row, String> {
    let mut bare = bare(url, threads, "bench:ofasocket", Bare::cycle)?;
    let mut pipelines = pipelined(url, PIPELINES, BATCH)?;
    let control = Bare::connect(url, "bench:control", Token::Constant);
    let control = control.map_err(|error| error.to_string())?;
    // From here on nobody but the client opens any.
    let before = connections(&control)?;
    let mut ours = leasehold(url, threads)?;
    let mut ceiling = Side::default();
    let [bare, leasehold] = alternate(size, &mut bare, &mut ours, || {
        ceiling.add(&Outcome::of_threads(size.slice / 2, &mut pipelines));
    });
    // A turn of a pipeline is a batch.
    for rate in &mut ceiling.rates {
        *rate *= count(BATCH as u64);
    }
    Ok(Row {
        bare,
        leasehold,
        ceiling,
        sockets: connections(&control)? - before,
    })
}

fn begin_table(size: Size) {
    println!(
        "\nacquire + release, each thread its own key: {} rounds of {:?} each; medians, a cycle's \
         time in ms\n  {:>7} {:>8} {:>9}   {:<22}   {:>8} {:>9}   {:>7}   {:^26}   {:^26}   budget",
        size.rounds,
        size.slice,
        "threads",
        "bare/s",
        "leasehold",
        "ratio (least to most)",
        "ceiling",
        "of it",
        "sockets",
        "bare",
        "leasehold",
    );
    println!("  {:73}   {FIGURES}   {FIGURES}", "");
}

impl Row {
    fn print(&self, threads: usize, size: Size) {
        let ratio = self.leasehold.ratio(&self.bare);
        let share = self.leasehold.ratio(&self.ceiling).median;
        let least = BUDGETS.iter().find(|(number, _)| *number == threads);
        let budget = match least {
            Some((_, least)) if size.is_enough() => {
                let kept = *least <= ratio.median && self.sockets <= MOST_SOCKETS;
                format!("{least:.2}, {MOST_SOCKETS} sockets: {}", verdict(kept))
            }
            _ if self.sockets <= MOST_SOCKETS => String::new(),
            _ => format!("{MOST_SOCKETS} sockets: {}", verdict(false)),
        };
        println!(
            "  {threads:>7} {:>8.0} {:>9.0}   {ratio:<22}   {:>8.0} {:>7.1} %   {:>7}   {}   {}   \
             {budget}",
            self.bare.rate(),
            self.leasehold.rate(),
            self.ceiling.rate(),
            share * 100.0,
            self.sockets,
            self.bare.times(),
            self.leasehold.times(),
        );
    }
}

/// Sides of which it is known how they compare.
fn controls(url: &str, size: Size) -> Result<(), String> {
    println!(
        "\n{THREADS} bare connections against as many variants, {} rounds of {:?} each\n  {:<22} \
         {:>8} {:>8}   ratio (least to most)",
        size.rounds, size.slice, "variant", "bare/s", "its/s"
    );
    let detour = |bare: &mut Bare| {
        bare.ping();
        bare.cycle();
    };
    let key = "bench:ofanother";
    let variants = [
        ("the same again", bare(url, THREADS, key, Bare::cycle)?),
        ("a round trip more", bare(url, THREADS, key, detour)?),
        ("both in one write", pipelined(url, THREADS, 1)?),
    ];
    for (name, mut variant) in variants {
        let mut bare = bare(url, THREADS, "bench:ofasocket", Bare::cycle)?;
        let [bare, variant] = alternate(size, &mut bare, &mut variant, || ());
        println!(
            "  {name:<22} {:>8.0} {:>8.0}   {}",
            bare.rate(),
            variant.rate(),
            variant.ratio(&bare)
        );
    }
    Ok(())
}

fn bare(url: &str, threads: usize, key: &str, cycle: fn(&mut Bare)) -> Result<Vec<Worker>, String> {
    let workers = (0..threads).map(|thread| {
        let bare = Bare::connect(url, &format!("{key}:{thread:03}"), Token::Fresh);
        let mut bare = bare.map_err(|error| error.to_string())?;
        Ok(worker(move || cycle(&mut bare)))
    });
    workers.collect()
}

fn pipelined(url: &str, connections: usize, batch: usize) -> Result<Vec<Worker>, String> {
    let workers = (0..connections).map(|number| {
        // As long as the others'.
        let keys = (0..batch).map(|key| format!("bench:pipeline{number}:{key:03}"));
        let pipelined = Pipelined::connect(url, &keys.collect::<Vec<_>>());
        let mut pipelined = pipelined.map_err(|error| error.to_string())?;
        Ok(worker(move || pipelined.batch()))
    });
    workers.collect()
}

/// All through one client.
fn leasehold(url: &str, threads: usize) -> Result<Vec<Worker>, String> {
    let client = Client::open(url).map_err(|error| error.to_string())?;
    let workers = (0..threads).map(|thread| {
        let lock = client.lock(format!("bench:leasehold:{thread:03}")).build();
        let lock = lock.map_err(|error| error.to_string())?;
        let worker: Worker = Box::new(move || Turn::at(&lock, Duration::ZERO));
        Ok(worker)
    });
    workers.collect()
}

/// Of whose turn only the whole is told.
fn worker(mut cycle: impl FnMut() + Send + 'static) -> Worker {
    Box::new(move || Turn::take(Duration::ZERO, &mut cycle, |()| ()))
}

/// How many the server has had, from its start on.
fn connections(control: &Bare) -> Result<u64, String> {
    let total = control.info("total_connections_received");
    let total = total.map_err(|error| error.to_string())?;
    let number = total.parse();
    number.map_err(|_| format!("not a number of connections: {total}"))
}
