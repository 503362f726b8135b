//! What acquiring and releasing costs, against a real server.
//!
//! ```text
//! cargo bench --bench cycle                  all of the below but the controls
//! cargo bench --bench cycle -- FILTER        criterion: acquire, release, cycle (`/` for all)
//! cargo bench --bench cycle -- ratio         leasehold against a bare socket, in turns
//! cargo bench --bench cycle -- controls      what the ratio is worth: the bare socket against
//!                                            variants of itself
//! cargo bench --bench cycle -- allocations   heap allocations of a cycle
//! ```
//!
//! `loop N leasehold|unrenewed|bare` runs N cycles (with renewal in the background as by default,
//! without it, on the bare socket) and says nothing, for tools that count from outside
//! (`scripts/syscalls` is one); `serve` starts the private server, prints its two URLs, and
//! ends with its standard input.
//!
//! A private `redis-server` is started on a loopback port and a unix socket, unless
//! `LEASEHOLD_BENCH_URL` names a server. `LEASEHOLD_BENCH_ROUNDS` (5) and
//! `LEASEHOLD_BENCH_PAIRS` (20000 in each round) are the size of a ratio.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a bench reports by printing, and ends at the first thing that goes wrong"
)]

use std::env;
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use leasehold::{Client, Lock, LockBuilder};

mod support;

use support::arguments::{is_smoke, number, words};
use support::bare::{Bare, Token};
use support::outcome::exit_code;
use support::placement::Placement;
use support::ratio::{Comparison, Size, compare, timed};
use support::server::Server;
use support::times::{count, verdict};

// Of one length, so that both sides send the same number of bytes.
const OUR_KEY: &str = "bench:leasehold";
const BARE_KEY: &str = "bench:ofasocket";
const OTHER_KEY: &str = "bench:ofanother";

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), String> {
    let words = words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["loop", cycles, side] => return run_loop(cycles, side),
        ["serve"] => return serve(),
        _ => {}
    }
    let bench = Bench::open()?;
    println!("{}", bench.describe()?);
    let size = if is_smoke() {
        Size {
            rounds: 1,
            pairs: 50,
        }
    } else {
        Size {
            rounds: number("LEASEHOLD_BENCH_ROUNDS", 5)?,
            pairs: number("LEASEHOLD_BENCH_PAIRS", 20_000)?,
        }
    };
    match words[..] {
        [] => {
            bench.report()?;
            bench.ratios(size)?;
            bench.allocations()
        }
        ["ratio"] => bench.ratios(size),
        ["controls"] => bench.controls(size),
        ["allocations"] => bench.allocations(),
        // Criterion reads its filter from the command line by itself.
        _ => bench.report(),
    }
}

/// A server and the ways to it.
struct Bench {
    server: Option<Server>,
    /// Each with the word that reports name it by.
    urls: Vec<(&'static str, String)>,
    /// Looked up before any of them is taken: a pinned thread may use no other core.
    placements: Vec<Placement>,
}

impl Bench {
    fn open() -> Result<Self, String> {
        if let Ok(url) = env::var("LEASEHOLD_BENCH_URL") {
            return Ok(Self {
                server: None,
                urls: vec![(kind(&url), url)],
                placements: Placement::all(false),
            });
        }
        let server = Server::start()?;
        Ok(Self {
            urls: vec![("tcp", server.tcp_url()), ("unix", server.unix_url())],
            server: Some(server),
            placements: Placement::all(true),
        })
    }

    fn describe(&self) -> Result<String, String> {
        let bare = self.bare(&self.urls[0].1, BARE_KEY, Token::Constant)?;
        let info = |name| bare.info(name).map_err(|error| error.to_string());
        let whose = if self.server.is_some() {
            "private server"
        } else {
            "server named in LEASEHOLD_BENCH_URL"
        };
        let (version, os) = (info("redis_version")?, info("os")?);
        Ok(format!("{whose}, version {version}, on {os}"))
    }

    fn place(&self, placement: Placement) {
        placement.take(self.server.as_ref().map(Server::id));
    }

    fn bare(&self, url: &str, key: &str, token: Token) -> Result<Bare, String> {
        Bare::connect(url, key, token).map_err(|error| format!("{url}: {error}"))
    }

    /// The figures of criterion, on the first placement. They are absolute, so they hold for
    /// this machine and this hour. The bench's counting allocator is in all figures of this
    /// file; it adds well under 0.1 µs to a cycle.
    fn report(&self) -> Result<(), String> {
        let placement = self.placements[0];
        self.place(placement);
        println!("\ncriterion, {placement}");
        let mut criterion = Criterion::default()
            .warm_up_time(Duration::from_secs(1))
            .measurement_time(Duration::from_secs(3))
            .configure_from_args();
        for (socket, url) in &self.urls {
            let client = Client::open(url).map_err(|error| error.to_string())?;
            for (kind, builder) in [
                ("plain", client.lock(OUR_KEY)),
                ("fenced", client.lock(OUR_KEY).fenced()),
            ] {
                let lock = builder.build().map_err(|error| error.to_string())?;
                report_lock(&mut criterion, &format!("{socket}/{kind}"), &lock);
            }
        }
        criterion.final_summary();
        Ok(())
    }

    fn ratios(&self, size: Size) -> Result<(), String> {
        let mut table = Table::begin(size, "leasehold against the bare socket");
        self.each_place(|socket, url, placement| {
            let mut bare = self.bare(url, BARE_KEY, Token::Fresh)?;
            let lock = lock_at(url, |lock| lock)?;
            let result = compare(size, &mut || timed(|| bare.cycle()), &mut || {
                timed(|| cycle(&lock))
            });
            // A median of a few says nothing about a few per cent.
            let budget = placement.budget().filter(|_| 1_000 <= size.pairs);
            table.row(socket, placement, "leasehold", budget, &result);
            Ok(())
        })
    }

    fn controls(&self, size: Size) -> Result<(), String> {
        let mut table = Table::begin(size, "the bare socket against variants of itself");
        self.each_place(|socket, url, placement| {
            for (name, token, timeout) in [
                ("the same again", Token::Fresh, None),
                ("constant token", Token::Constant, None),
                ("with timeouts", Token::Fresh, Some(Duration::from_secs(1))),
            ] {
                let mut bare = self.bare(url, BARE_KEY, Token::Fresh)?;
                let mut other = self.bare(url, OTHER_KEY, token)?;
                if let Some(timeout) = timeout {
                    other
                        .set_timeouts(timeout)
                        .map_err(|error| error.to_string())?;
                }
                let result = compare(size, &mut || timed(|| bare.cycle()), &mut || {
                    timed(|| other.cycle())
                });
                table.row(socket, placement, name, None, &result);
            }
            Ok(())
        })
    }

    fn each_place(
        &self,
        mut measure: impl FnMut(&str, &str, Placement) -> Result<(), String>,
    ) -> Result<(), String> {
        for placement in &self.placements {
            self.place(*placement);
            for (socket, url) in &self.urls {
                measure(socket, url, *placement)?;
            }
        }
        if matches!(self.placements[..], [Placement::One(_)]) {
            println!("(one core may be used here: nothing was measured across cores)");
        }
        Ok(())
    }

    /// The calling thread's allocations, once every buffer has its size.
    fn allocations(&self) -> Result<(), String> {
        const CYCLES: u32 = 10_000;
        println!("\nheap allocations of a cycle in steady state, mean of {CYCLES} (budget: 4)");
        for (socket, url) in &self.urls {
            let client = Client::open(url).map_err(|error| error.to_string())?;
            for (kind, builder) in [
                ("plain", client.lock(OUR_KEY)),
                ("labelled", client.lock(OUR_KEY).label("a host, a job")),
                ("fenced", client.lock(OUR_KEY).fenced()),
            ] {
                let lock = builder.build().map_err(|error| error.to_string())?;
                for _ in 0..100 {
                    cycle(&lock);
                }
                let info = allocation_counter::measure(|| {
                    for _ in 0..CYCLES {
                        cycle(&lock);
                    }
                });
                println!(
                    "  {socket:<5} {kind:<9} {:>5.2} allocations, {:>4.0} bytes, most at a time \
                     {} ({} bytes), left behind {}",
                    count(info.count_total) / f64::from(CYCLES),
                    count(info.bytes_total) / f64::from(CYCLES),
                    info.count_max,
                    info.bytes_max,
                    info.count_current,
                );
            }
        }
        Ok(())
    }
}

fn report_lock(criterion: &mut Criterion, name: &str, lock: &Lock) {
    let acquire = || lock.acquire().expect("the lock is free");
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    group.bench_function("acquire", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut sum = Duration::ZERO;
            for _ in 0..iterations {
                let begun = Instant::now();
                let lease = acquire();
                sum += begun.elapsed();
                lease.release().expect("the lock is ours");
            }
            sum
        });
    });
    group.bench_function("release", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut sum = Duration::ZERO;
            for _ in 0..iterations {
                let lease = acquire();
                let begun = Instant::now();
                lease.release().expect("the lock is ours");
                sum += begun.elapsed();
            }
            sum
        });
    });
    group.bench_function("cycle", |bencher| bencher.iter(|| cycle(lock)));
    group.finish();
}

struct Table;

impl Table {
    fn begin(size: Size, title: &str) -> Self {
        println!(
            "\n{title}: acquire + release in turns, {} rounds of {} pairs",
            size.rounds, size.pairs
        );
        println!(
            "  {:<6} {:<15} {:<15} {:>9} {:>9}   {:<22} budget",
            "socket", "placement", "against", "bare µs", "µs", "ratio (least to most)"
        );
        Self
    }

    fn row(
        &mut self,
        socket: &str,
        placement: Placement,
        name: &str,
        budget: Option<f64>,
        result: &Comparison,
    ) {
        println!(
            "  {socket:<6} {:<15} {name:<15} {:>9.2} {:>9.2}   {}  {}",
            placement.to_string(),
            micros(result.first.p50),
            micros(result.second.p50),
            result.ratio,
            budget.map_or_else(String::new, |budget| format!(
                "{budget:.2} {}",
                verdict(result.ratio.median <= budget)
            )),
        );
    }
}

fn run_loop(cycles: &str, side: &str) -> Result<(), String> {
    let cycles: u64 = cycles
        .parse()
        .map_err(|_| format!("not a number of cycles: {cycles}"))?;
    let bench = Bench::open()?;
    let url = &bench.urls[0].1;
    match side {
        "leasehold" => {
            let lock = lock_at(url, |lock| lock)?;
            (0..cycles).for_each(|_| cycle(&lock));
        }
        "unrenewed" => {
            let lock = lock_at(url, LockBuilder::without_renewal)?;
            (0..cycles).for_each(|_| cycle(&lock));
        }
        "bare" => {
            let mut bare = bench.bare(url, BARE_KEY, Token::Fresh)?;
            (0..cycles).for_each(|_| bare.cycle());
        }
        _ => return Err(format!("none of leasehold, unrenewed and bare: {side}")),
    }
    Ok(())
}

fn serve() -> Result<(), String> {
    let server = Server::start()?;
    println!("{}\n{}", server.tcp_url(), server.unix_url());
    let mut nothing = Vec::new();
    io::stdin()
        .read_to_end(&mut nothing)
        .map_err(|error| error.to_string())?;
    Ok(())
}

fn lock_at(url: &str, options: fn(LockBuilder) -> LockBuilder) -> Result<Lock, String> {
    Client::open(url)
        .and_then(|client| options(client.lock(OUR_KEY)).build())
        .map_err(|error| error.to_string())
}

fn cycle(lock: &Lock) {
    let lease = lock.acquire().expect("the lock is free");
    lease.release().expect("the lock is ours");
}

fn kind(url: &str) -> &'static str {
    if url.starts_with("redis://") {
        "tcp"
    } else {
        "unix"
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
