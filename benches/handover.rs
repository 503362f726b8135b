//! How a lock goes from one holder to the next.
//!
//! ```text
//! cargo bench --bench handover                 all of the below but the controls
//! cargo bench --bench handover -- pair         how long it takes between two processes
//! cargo bench --bench handover -- threads      64 threads of one process on one key
//! cargo bench --bench handover -- processes    2, 10 and 50 processes on one key
//! cargo bench --bench handover -- controls     what the figures are worth: the bare sockets
//!                                              against themselves, and counted
//! ```
//!
//! The processes are this program once more, on a private `redis-server`. They tell times by a
//! clock that all of them share.
//!
//! `pair`: of two processes one holds the lock, the other has asked for it for 2 to 8 ms. The time
//! is that from the call that releases to the return of the call that acquires; the two change
//! places each time. In turns with that the same two processes hand a bare lock on: the one sends
//! its release and `LPUSH` in one write, the other waits in `BLPOP` and then sends `SET`.
//!
//! `threads` and `processes`: all want the same key all the time, and hold it for 0, 1 or 10 ms.
//! The ratio is that of acquisitions to a bare connection's, which takes and releases its own key
//! and holds it for as long, in a slice of time right before or after. A wait counts as far as it
//! has come by the end of its slice. Commands are counted in a slice of their own, because that
//! slows the server down: `MONITOR` shows all that clients send, and what it marks as sent by
//! scripts is left out. They are divided by all acquisitions of that slice; and, but for two of each
//! acquisition that changed no hands, by those where the lock has changed hands.
//!
//! `LEASEHOLD_BENCH_ROUNDS` (5; of `threads` and `processes` 3), `LEASEHOLD_BENCH_PAIRS` (200 in
//! each round) and `LEASEHOLD_BENCH_MILLIS` (1000, the least length of a slice) are the size.
//! `LEASEHOLD_BENCH_PLACEMENT` says where contenders and server run: `free` (as the system likes,
//! the default), `across` (on a core each) or `one` (on the same). It moves the ratios of those
//! who hold for no time more than anything else does.

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

use support::arguments::{is_smoke, millis, number, words};
use support::bare::{Bare, Token};
use support::contender::{CONTEND, Contender, Way, contend};
use support::monitor::{Commands, count_commands};
use support::outcome::exit_code;
use support::pair::Pair;
use support::placement::Placement;
use support::ratio::{self, Comparison, Spread};
use support::server::Server;
use support::slice::{Outcome, Turn, Window};
use support::times::{FIGURES, Times, count, millis as to_millis, verdict};

const MOST_BETWEEN_PROCESSES: Duration = Duration::from_micros(300);
const MOST_AGAINST_BARE: f64 = 1.5;
/// For how long a lock goes from thread to thread at most, before others have their turn.
const LONGEST_CHAIN: Duration = Duration::from_millis(10);
/// For each acquisition, of threads of one process.
const MOST_COMMANDS: f64 = 1.2;
const LEAST_FAIRNESS: f64 = 0.95;
/// For each time that the lock goes from one process to another.
const MOST_COMMANDS_BETWEEN_PROCESSES: f64 = 8.0;

/// How many turns each contender should have in a slice at least. With fewer, one more or less
/// would look like unfairness.
const TURNS: u32 = 6;

/// A connection alone needs no longer to show its rate.
const BARE_SLICE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Result<(), String> {
    let words = words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let [CONTEND, url, key] = words[..] {
        return contend(url, key);
    }
    let parts: [(&str, Part); 4] = [
        ("pair", Bench::pair),
        ("threads", Bench::threads),
        ("processes", Bench::processes),
        ("controls", Bench::controls),
    ];
    let is_known = |word: &&&str| parts.iter().any(|(name, _)| *name == **word);
    if let Some(word) = words.iter().find(|word| !is_known(word)) {
        return Err(format!(
            "none of pair, threads, processes and controls: {word}"
        ));
    }
    // Looked for before it is taken: a pinned thread may use no other core.
    let placement = Placement::wanted()?;
    let server = Server::start()?;
    placement.take(Some(server.id()));
    println!("{}", server.describe(placement)?);
    let bench = Bench {
        url: server.tcp_url(),
        is_smoke: is_smoke(),
    };
    for (name, part) in parts {
        if words.contains(&name) || (words.is_empty() && name != "controls") {
            part(&bench)?;
        }
    }
    Ok(())
}

type Part = fn(&Bench) -> Result<(), String>;

struct Bench {
    url: String,
    is_smoke: bool,
}

impl Bench {
    fn pair(&self) -> Result<(), String> {
        let size = self.pair_size()?;
        let table = PairTable::begin(size);
        let mut pair = Pair::start(&self.url, "bench:pair")?;
        let result = pair.compare(size, Way::Leasehold);
        // A median of a few says nothing about a hundred microseconds.
        table.row("leasehold", &result, 100 <= size.pairs);
        println!(
            "  {} of {} waits for leasehold were in BLPOP when it was handed on",
            pair.blocked, pair.waits
        );
        Ok(())
    }

    fn pair_size(&self) -> Result<ratio::Size, String> {
        if self.is_smoke {
            return Ok(ratio::Size {
                rounds: 1,
                pairs: 5,
            });
        }
        Ok(ratio::Size {
            rounds: number("LEASEHOLD_BENCH_ROUNDS", 5)?,
            pairs: number("LEASEHOLD_BENCH_PAIRS", 200)?,
        })
    }

    /// One client, and so one process.
    fn threads(&self) -> Result<(), String> {
        let client = Client::open(&self.url).map_err(|error| error.to_string())?;
        let lock = client.lock("bench:threads").build();
        let lock = lock.map_err(|error| error.to_string())?;
        let who: &[usize] = if self.is_smoke { &[4] } else { &[64] };
        self.contest("threads", who, threads_budget, &mut |plan| {
            let mut workers: Vec<_> = (0..plan.who)
                .map(|_| || Turn::at(&lock, plan.hold))
                .collect();
            Ok(Outcome::of_threads(plan.slice, &mut workers))
        })
    }

    fn processes(&self) -> Result<(), String> {
        let who: &[usize] = if self.is_smoke { &[2, 4] } else { &[2, 10, 50] };
        let most = who.iter().copied().max().unwrap_or_default();
        let contenders = (0..most).map(|_| Contender::start(&self.url, "bench:processes"));
        let mut contenders = contenders.collect::<Result<Vec<_>, _>>()?;
        self.contest("processes", who, processes_budget, &mut |plan| {
            let contenders = &mut contenders[..plan.who];
            let window = Window::ahead(plan.slice);
            for contender in &mut *contenders {
                contender.contend(window, plan.hold)?;
            }
            let turns = contenders.iter_mut().map(Contender::turns);
            Ok(Outcome {
                window,
                contenders: turns.collect::<Result<_, _>>()?,
            })
        })
    }

    fn contest(
        &self,
        kind: &str,
        who: &[usize],
        budget: fn(&Contest) -> String,
        run: &mut Run<'_>,
    ) -> Result<(), String> {
        let (rounds, slice, holds): (_, _, &[u64]) = if self.is_smoke {
            (1, Duration::from_millis(100), &[0, 1])
        } else {
            let slice = millis("LEASEHOLD_BENCH_MILLIS", 1_000)?;
            (number("LEASEHOLD_BENCH_ROUNDS", 3)?, slice, &[0, 1, 10])
        };
        let plans = who.iter().flat_map(|who| {
            holds.iter().map(move |hold| {
                let hold = Duration::from_millis(*hold);
                let all = hold * TURNS * u32::try_from(*who).expect("a few");
                let slice = if self.is_smoke { slice } else { slice.max(all) };
                Plan {
                    who: *who,
                    hold,
                    slice,
                }
            })
        });
        let mut contests: Vec<_> = plans.map(Contest::new).collect();
        // In turns, so that all meet the same moods of the machine.
        for round in 0..rounds {
            for contest in &mut contests {
                contest.round(&self.url, round, run)?;
            }
        }
        println!(
            "\n{kind} that want one key: {rounds} rounds of {slice:?} or more each, medians; waits \
             in ms, and the longest of all rounds\n  {:>9} {:>5} {:>8} {:>9}   {:<22} {:>5}   \
             {:^26} {:>9}   {:>12} {:>10}   budget",
            kind,
            "hold",
            "bare/s",
            "leasehold",
            "ratio (least to most)",
            "Jain",
            "waits",
            "longest",
            "commands per",
            "per change",
        );
        println!(
            "  {:>9} {:>5} {:>8} {:>9}   {:<22} {:>5}   {FIGURES} {:>9}   {:>12} {:>10}",
            "", "ms", "", "", "", "", "", "acquisition", "of hands",
        );
        for contest in &contests {
            let budget = if self.is_smoke {
                String::new()
            } else {
                budget(contest)
            };
            contest.print(&budget);
        }
        Ok(())
    }

    /// Sides of which it is known how they compare.
    fn controls(&self) -> Result<(), String> {
        let size = self.pair_size()?;
        let table = PairTable::begin(size);
        for (name, way) in [
            ("the same again", Way::Bare),
            ("a round trip more", Way::Detour),
        ] {
            let mut pair = Pair::start(&self.url, &format!("bench:{way:?}"))?;
            table.row(name, &pair.compare(size, way), false);
        }
        let mut bare = bare(&self.url)?;
        let (cycles, commands) = count_commands(&self.url, || {
            (0..100).for_each(|_| bare.cycle());
            Ok(100)
        })?;
        println!("\n{cycles} cycles of a bare connection, as they are counted: {commands:?}");
        Ok(())
    }
}

struct PairTable;

impl PairTable {
    fn begin(size: ratio::Size) -> Self {
        println!(
            "\nfrom one process to another, in turns with bare sockets: {} rounds of {} pairs; \
             times in ms\n  {:<18} {:^26}   {:^26}   {:<22}   budget",
            size.rounds, size.pairs, "against", "bare", "it", "ratio (least to most)"
        );
        println!("  {:18} {FIGURES}   {FIGURES}", "");
        Self
    }

    fn row(&self, name: &str, result: &Comparison, has_budget: bool) {
        let budget = if has_budget {
            let kept = result.second.p50 <= MOST_BETWEEN_PROCESSES
                && result.ratio.median <= MOST_AGAINST_BARE;
            format!(
                "{MOST_BETWEEN_PROCESSES:?}, {MOST_AGAINST_BARE:.2}: {}",
                verdict(kept)
            )
        } else {
            String::new()
        };
        println!(
            "  {name:<18} {}   {}   {:<22}   {budget}",
            result.first, result.second, result.ratio
        );
    }
}

#[derive(Clone, Copy)]
struct Plan {
    who: usize,
    hold: Duration,
    slice: Duration,
}

/// Lets all contenders of a plan have their slice.
type Run<'a> = dyn FnMut(Plan) -> Result<Outcome, String> + 'a;

/// What came of a plan, round by round.
struct Contest {
    plan: Plan,
    bare: Vec<f64>,
    rates: Vec<f64>,
    fairness: Vec<f64>,
    waits: Vec<Times>,
    counted: Option<Counted>,
}

/// A slice that was watched.
struct Counted {
    commands: Commands,
    acquisitions: u64,
    hand_overs: u64,
}

impl Contest {
    const fn new(plan: Plan) -> Self {
        Self {
            plan,
            bare: Vec::new(),
            rates: Vec::new(),
            fairness: Vec::new(),
            waits: Vec::new(),
            counted: None,
        }
    }

    fn round(&mut self, url: &str, round: usize, run: &mut Run<'_>) -> Result<(), String> {
        // Which goes first changes with each round.
        if round.is_multiple_of(2) {
            self.bare_slice(url)?;
            self.slice(run)?;
        } else {
            self.slice(run)?;
            self.bare_slice(url)?;
        }
        if self.counted.is_none() {
            let (outcome, commands) = count_commands(url, || run(self.plan))?;
            self.counted = Some(Counted {
                commands,
                acquisitions: outcome.acquisitions(),
                hand_overs: outcome.hand_overs()?,
            });
        }
        Ok(())
    }

    fn slice(&mut self, run: &mut Run<'_>) -> Result<(), String> {
        let outcome = run(self.plan)?;
        // For its check alone.
        outcome.hand_overs()?;
        self.rates.push(outcome.rate());
        self.fairness.push(outcome.fairness());
        self.waits.push(outcome.waits());
        Ok(())
    }

    fn bare_slice(&mut self, url: &str) -> Result<(), String> {
        let slice = self.plan.slice.min(BARE_SLICE);
        let mut bare = bare(url)?;
        let mut worker = || bare.turn(self.plan.hold);
        let outcome = Outcome::of_threads(slice, std::slice::from_mut(&mut worker));
        self.bare.push(outcome.rate());
        Ok(())
    }

    fn ratio(&self) -> Spread {
        let pairs = self.rates.iter().zip(&self.bare);
        Spread::of(pairs.map(|(own, bare)| own / bare).collect())
    }

    fn median_fairness(&self) -> f64 {
        Spread::of(self.fairness.clone()).median
    }

    fn counted(&self) -> &Counted {
        self.counted.as_ref().expect("it has had a round")
    }

    fn print(&self, budget: &str) {
        let counted = self.counted();
        let longest = self.waits.iter().map(|waits| waits.max).max();
        println!(
            "  {:>9} {:>5} {:>8.0} {:>9.0}   {:<22} {:>5.3}   {} {:>9.1}   {:>12.2} {:>10.2}   \
             {budget}\n  {:>9} {}",
            self.plan.who,
            self.plan.hold.as_millis(),
            Spread::of(self.bare.clone()).median,
            Spread::of(self.rates.clone()).median,
            self.ratio(),
            self.median_fairness(),
            Times::median(&self.waits),
            to_millis(longest.unwrap_or_default()),
            counted.each_acquisition(),
            counted.each_hand_over(),
            "",
            counted.sent(),
        );
    }
}

impl Counted {
    fn all(&self) -> f64 {
        count(self.commands.values().sum())
    }

    fn each_acquisition(&self) -> f64 {
        self.all() / count(self.acquisitions)
    }

    /// Those of the acquisitions that changed no hands left out, which are two each: the holder was
    /// back before anybody else was there. Without limit if the lock has never changed hands.
    fn each_hand_over(&self) -> f64 {
        let returns = self.acquisitions.saturating_sub(self.hand_overs);
        (self.all() - 2.0 * count(returns)) / count(self.hand_overs)
    }

    /// Which commands they were, of each acquisition.
    fn sent(&self) -> String {
        let commands = self.commands.iter();
        let each = commands.map(|(name, times)| {
            let each = count(*times) / count(self.acquisitions);
            format!("{name} {each:.3}")
        });
        format!(
            "acquisitions {}, changes of hands {}; {}",
            self.acquisitions,
            self.hand_overs,
            each.collect::<Vec<_>>().join(", ")
        )
    }
}

/// Who holds for as long as a lock may go from thread to thread gives it back for all each time,
/// which takes two commands by rule.
fn threads_budget(contest: &Contest) -> String {
    if LONGEST_CHAIN <= contest.plan.hold {
        let kept = LEAST_FAIRNESS <= contest.median_fairness();
        return format!("Jain {LEAST_FAIRNESS}: {}", verdict(kept));
    }
    let kept = contest.counted().each_acquisition() <= MOST_COMMANDS
        && LEAST_FAIRNESS <= contest.median_fairness();
    format!(
        "{MOST_COMMANDS} commands, Jain {LEAST_FAIRNESS}: {}",
        verdict(kept)
    )
}

fn processes_budget(contest: &Contest) -> String {
    let kept = contest.counted().each_hand_over() <= MOST_COMMANDS_BETWEEN_PROCESSES;
    format!(
        "{MOST_COMMANDS_BETWEEN_PROCESSES} per change: {}",
        verdict(kept)
    )
}

fn bare(url: &str) -> Result<Bare, String> {
    Bare::connect(url, "bench:ofasocket", Token::Fresh).map_err(|error| error.to_string())
}
