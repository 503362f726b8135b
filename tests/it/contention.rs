//! Many threads and processes on one key, and never two of them at once.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, Lock};

use crate::support::children::Child;
use crate::support::{Faults, PATIENCE, Proxy, Server, eventually};
use crate::waiting::Aside;

/// What they contend for: a number in a file that is read, increased and written back by hand.
/// Two who do that at once lose one of the two; and a file that only one can create tells of
/// them at once.
pub(crate) struct Tally {
    directory: PathBuf,
}

impl Tally {
    pub(crate) fn at(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self { directory }
    }

    /// In the directory that goes when the server goes.
    fn beside(server: &Server) -> Self {
        let tally = Self::at(server.socket().parent().unwrap());
        fs::write(tally.number(), "0").unwrap();
        tally
    }

    fn number(&self) -> PathBuf {
        self.directory.join("number")
    }

    fn read(&self) -> Option<u64> {
        fs::read_to_string(self.number()).ok()?.parse().ok()
    }

    /// Adds one and stays for as long as `hold`. An error says that somebody else was inside.
    fn add_one(&self, hold: Duration) -> Result<(), String> {
        let inside = self.directory.join("inside");
        match fs::File::create_new(&inside) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(String::from("somebody else is inside"));
            }
            Err(error) => panic!("{}: {error}", inside.display()),
        }
        let number = self.read();
        let until = Instant::now() + hold;
        if !hold.is_zero() {
            eventually("the work is done", PATIENCE, || until <= Instant::now());
        }
        let written = number.map(|number| fs::write(self.number(), (number + 1).to_string()));
        // Who has been taken for nobody may have removed it already.
        let removed = fs::remove_file(&inside);
        match (written, removed) {
            (Some(Ok(())), Ok(())) => Ok(()),
            other => Err(format!("somebody else was inside: {other:?}")),
        }
    }
}

/// How a contender waits and works.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) times: usize,
    pub(crate) hold: Duration,
    /// For one wait. A shorter one ends more waits with an outcome that is not known.
    pub(crate) budget: Duration,
    pub(crate) timeout: Duration,
    pub(crate) ttl: Duration,
}

impl Pace {
    pub(crate) fn lock(self, url: &str) -> Lock {
        let client = Client::builder(url)
            .connect_timeout(self.timeout)
            .command_timeout(self.timeout);
        let lock = client.build().unwrap().lock("order:1").ttl(self.ttl);
        lock.build().unwrap()
    }

    /// Takes the lock so many times and adds one each time; gives the number of calls that
    /// went wrong in a way that may be tried again.
    pub(crate) fn contend(self, lock: &Lock, tally: &Tally) -> usize {
        let (mut taken, mut failed) = (0, 0);
        while taken < self.times {
            match lock.acquire_timeout(self.budget) {
                Ok(lease) => {
                    tally.add_one(self.hold).unwrap();
                    // Without that, nothing would have been promised.
                    assert!(lease.is_held(), "a pause longer than the lease: {lease:?}");
                    taken += 1;
                    if let Err(error) = lease.release() {
                        assert!(error.is_unknown(), "{error:?}");
                        failed += 1;
                    }
                }
                Err(error) => {
                    let again = error.is_unknown() || error.is_unavailable() || error.is_timeout();
                    assert!(again, "{error:?}");
                    failed += 1;
                }
            }
        }
        failed
    }
}

/// So many threads of this process, which share a client, and so many processes. Gives the
/// time it took and the number of calls that failed.
fn contend(
    url: &str,
    tally: &Path,
    threads: usize,
    processes: usize,
    pace: Pace,
) -> (Duration, usize) {
    let text = |value: u128| value.to_string();
    let variables = [
        ("URL", String::from(url)),
        ("DIRECTORY", tally.display().to_string()),
        ("TIMES", pace.times.to_string()),
        ("HOLD", text(pace.hold.as_millis())),
        ("BUDGET", text(pace.budget.as_millis())),
        ("TIMEOUT", text(pace.timeout.as_millis())),
        ("TTL", text(pace.ttl.as_millis())),
    ];
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut children: Vec<_> = (0..processes)
        .map(|_| Child::run("children::adds_under_the_lock", &variables))
        .collect();
    for child in &mut children {
        assert_eq!(child.expect_line(PATIENCE), "ready");
    }
    let begun = Instant::now();
    for child in &mut children {
        child.send("go");
    }
    let lock = pace.lock(url);
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (lock, tally) = (lock.clone(), Tally::at(tally));
            thread::spawn(move || pace.contend(&lock, &tally))
        })
        .collect();
    let mut failed = 0;
    for thread in threads {
        failed += thread.join().unwrap();
    }
    for mut child in children {
        failed += child.expect_line(6 * PATIENCE).parse::<usize>().unwrap();
        assert!(child.wait(PATIENCE).success());
    }
    (begun.elapsed(), failed)
}

#[test]
fn twenty_threads_and_four_processes_are_never_inside_at_once() {
    let server = Server::start();
    let tally = Tally::beside(&server);
    // 20 threads and 4 processes make 10,000 together with 416 or 417 each.
    let pace = Pace {
        times: 417,
        hold: Duration::ZERO,
        budget: 6 * PATIENCE,
        timeout: PATIENCE,
        ttl: 3 * PATIENCE,
    };
    let (took, failed) = contend(&server.url(), &tally.directory, 20, 4, pace);
    println!("10,008 acquisitions by 20 threads and 4 processes: {took:?}");
    assert_eq!(tally.read(), Some(24 * 417));
    assert_eq!(failed, 0);
    assert_eq!(server.get("order:1"), None);
}

#[test]
fn lost_replies_and_resets_never_let_two_inside_at_once() {
    let server = Server::start();
    let tally = Tally::beside(&server);
    let proxy = Proxy::to(&server);
    let pace = Pace {
        times: 30,
        hold: Duration::from_millis(5),
        budget: Duration::from_millis(500),
        timeout: Duration::from_millis(200),
        // A reset leaves nothing to be fenced off: where its command has run, the record
        // stands for one ttl. Longer than that costs time, shorter than a pause of the
        // machine costs exclusion.
        ttl: Duration::from_secs(3),
    };
    let faults = Faults::seeded(2026);
    let faults = [
        proxy.random_faults("SET", faults.clone().drop_replies(0.05).resets(0.02)),
        proxy.random_faults("EVALSHA", faults.drop_replies(0.05).resets(0.05)),
    ];
    let (took, failed) = contend(&proxy.url(), &tally.directory, 8, 2, pace);
    let hits: Vec<_> = faults.iter().map(|rule| rule.hits()).collect();
    println!("300 acquisitions through {hits:?} faults, {failed} calls failed: {took:?}");
    assert_eq!(tally.read(), Some(10 * 30));
    assert!(hits.iter().all(|hits| 0 < *hits), "{hits:?}");
}

#[test]
fn without_a_lock_two_are_inside_at_once_and_it_is_seen() {
    let server = Server::start();
    let tally = Arc::new(Tally::beside(&server));
    let over = Arc::new(AtomicBool::new(false));
    let contenders: Vec<_> = (0..8)
        .map(|_| {
            let (tally, over) = (Arc::clone(&tally), Arc::clone(&over));
            Aside::start(move || {
                let mut met = 0;
                while !over.load(Ordering::Relaxed) {
                    met += usize::from(tally.add_one(Duration::ZERO).is_err());
                    over.fetch_or(0 < met, Ordering::Relaxed);
                }
                met
            })
        })
        .collect();
    let met: usize = contenders.into_iter().map(Aside::value).sum();
    assert!(0 < met);
}

#[test]
fn one_who_finds_another_inside_leaves_the_number_alone() {
    let server = Server::start();
    let tally = Tally::beside(&server);
    tally.add_one(Duration::ZERO).unwrap();
    fs::File::create_new(tally.directory.join("inside")).unwrap();
    tally.add_one(Duration::ZERO).unwrap_err();
    assert_eq!(tally.read(), Some(1));
}
