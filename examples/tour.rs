//! The main job in a few seconds: a lock that is taken, given back, lost and defended, and a
//! holder who is warned in time.
//!
//! Run it with `scripts/try`, or with `cargo run --example tour` where a `redis-server` is
//! installed. It starts a private one and ends it again; `LEASEHOLD_URL=redis://…` names
//! another to use instead. Whatever it tells it has checked: it ends with an error if one
//! thing is not as it says.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/story.rs"]
mod story;
mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, FenceGate, Lease, LeaseState};
use proxy::Way;
use story::{Turn, draw, more, part, say};
use support::{Outcome, Server, claim, finish};

/// Not longer, so that a tour that was killed does not keep the next one waiting.
const TTL: Duration = Duration::from_secs(5);
/// The ttl of a lease that is meant to run out.
const SHORT: Duration = Duration::from_millis(250);
/// The ttl of a lease that outlives its part only if it is renewed.
const LIVELY: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(15);

const WORKERS: usize = 4;
const TURNS: usize = 2;
const WORK: Duration = Duration::from_millis(60);

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Outcome {
    let server = Server::start()?;
    story::begin();
    four_workers_never_overlap(server.url())?;
    a_reply_is_lost(server.url())?;
    a_stale_release_is_refused(server.url())?;
    a_late_writer_is_fenced_off(server.url())?;
    a_frozen_server_delays_no_warning(&server)?;
    part("Each of these was checked while it was told.");
    Ok(())
}

fn four_workers_never_overlap(url: &str) -> Outcome {
    part(format_args!(
        "1. Four workers want one lock, each {TURNS} times."
    ));
    let inside = &AtomicUsize::new(0);
    let mut turns = thread::scope(|scope| {
        let workers: Vec<_> = (1..=WORKERS)
            .map(|worker| scope.spawn(move || work(worker, url, inside)))
            .collect();
        let mut turns = Vec::new();
        for worker in workers {
            turns.extend(worker.join().map_err(|_| "a worker panicked")??);
        }
        Outcome::Ok(turns)
    })?;
    turns.sort_by_key(|turn| turn.from);
    draw(&turns);
    let all = turns.len() == WORKERS * TURNS;
    claim(all, "every worker has its turns")?;
    let apart = turns.is_sorted_by(|one, next| one.to <= next.from);
    claim(apart, "no turn begins before the last one has ended")?;
    more("Never two at once.");
    Ok(())
}

/// One worker, with a client of its own, as another process would have it.
fn work(worker: usize, url: &str, inside: &AtomicUsize) -> Outcome<Vec<Turn>> {
    let client = Client::open(url)?;
    let lock = client.lock("leasehold:tour:workers").ttl(TTL).build()?;
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let lease = lock.acquire_timeout(PATIENCE)?;
        let from = Instant::now();
        let alone = inside.fetch_add(1, Ordering::SeqCst) == 0;
        claim(alone, "a worker that has the lock is alone")?;
        while from.elapsed() < WORK {
            lease.check()?; // before each piece of work; it asks nobody
            thread::park_timeout(WORK / 10);
        }
        inside.fetch_sub(1, Ordering::SeqCst);
        let to = Instant::now();
        lease.release()?;
        turns.push(Turn { worker, from, to });
    }
    Ok(turns)
}

fn a_reply_is_lost(url: &str) -> Outcome {
    part("2. A reply is lost, and the outcome is known all the same.");
    let loss = Arc::new(Loss::default());
    let at_proxy = Arc::clone(&loss);
    let proxied = proxy::start(url, move |way, piece| at_proxy.lets_through(way, piece))?;
    let client = Client::builder(&proxied);
    let client = client.command_timeout(Duration::from_millis(300)).build()?;
    let lock = client.lock("leasehold:tour:reply").ttl(TTL).build()?;

    let lease = lock.acquire_timeout(PATIENCE)?;
    say("it is: the caller has its lease");
    claim(stands(url, &lease)?, "the record is the caller's")?;
    let stats = client.stats();
    claim(loss.happened.load(Ordering::SeqCst), "a reply was lost")?;
    let once = loss.asked.load(Ordering::SeqCst) == 1 && stats.acquired == 1;
    claim(once, "the lock was asked for once, and taken once")?;
    let resolved = (stats.unknown_resolved, stats.unknown_unresolved);
    claim(resolved == (1, 0), "the unknown outcome was resolved")?;

    lease.release()?;
    let left = Client::open(url)?.inspect(lock.key())?;
    claim(left.is_none(), "nothing is left behind")?;
    say("released, and nothing is left on the server");
    let (acquired, resolved) = (stats.acquired, stats.unknown_resolved);
    more(format_args!(
        "Stats: acquired {acquired}, unknown outcomes resolved {resolved}"
    ));
    Ok(())
}

fn a_stale_release_is_refused(url: &str) -> Outcome {
    part("3. A release that comes too late does not take the lock from the next holder.");
    let (stale, next) = paused_past_its_lease(url, "leasehold:tour:stale")?;
    let knows = stale.state() == LeaseState::Lost;
    claim(knows, "the first holder's own clock tells the loss")?;
    say("the first goes on and releases; it is told:");
    let refused = stale
        .release()
        .err()
        .ok_or("a stale release has succeeded")?;
    more(format_args!("“{refused}”"));
    claim(
        refused.is_lost(),
        "a stale release says that the lease is lost",
    )?;
    claim(stands(url, &next)?, "the next holder's record stands")?;
    next.release()?;
    say("the second still has the lock, and gives it back");
    Ok(())
}

fn a_late_writer_is_fenced_off(url: &str) -> Outcome {
    part("4. A lease cannot stop a paused writer. A fence can.");
    let gate = FenceGate::new(); // at the side of what is written to
    let (late, next) = paused_past_its_lease(url, "leasehold:tour:fence")?;
    let fence = |lease: &Lease| lease.fence().ok_or("a fenced lock gave no fence");
    gate.admit(fence(&next)?)?;
    gate.admit(fence(&next)?)?;
    say(format_args!(
        "the second writes twice, with fence {}",
        fence(&next)?
    ));
    say("the first goes on and writes; what it writes to refuses:");
    let stale = gate
        .admit(fence(&late)?)
        .err()
        .ok_or("a late write was admitted")?;
    more(format_args!("“{stale}”"));
    Ok(())
}

fn a_frozen_server_delays_no_warning(server: &Server) -> Outcome {
    part("5. The server is frozen. Both holders are told before their records can expire.");
    let client = Client::open(server.url())?;
    let (telling, told) = mpsc::channel();
    let take = |who: &'static str, ttl: Duration, margin: Duration| {
        let (danger, loss) = (telling.clone(), telling.clone());
        let lock = client.lock(format!("leasehold:tour:{who}"));
        let lock = lock.ttl(ttl).danger(margin).on_danger(move |notice| {
            let (at, left) = (Instant::now(), notice.remaining().as_millis());
            say(format_args!(
                "{who} is in danger: {}; {left} ms left",
                notice.cause()
            ));
            let _ = danger.send((who, LeaseState::Danger, at));
        });
        let lock = lock.on_lost(move |notice| {
            let at = Instant::now();
            say(format_args!("{who} is lost: {}", notice.cause()));
            let _ = loss.send((who, LeaseState::Lost, at));
        });
        lock.build()?.acquire_timeout(PATIENCE)
    };
    let second = take("second", LIVELY * 3 / 2, LIVELY * 2 / 3)?;
    let first = take("first", LIVELY, LIVELY / 3)?;
    let asked = Instant::now();
    let record = client.inspect(first.key())?;
    let left = record.and_then(|record| record.remaining());
    let expires = asked + left.ok_or("the record has no expiry")?;
    if !server.signal("STOP")? {
        say("left out: the server that LEASEHOLD_URL names is not ours to stop");
        return Ok(());
    }
    say("two leases are renewed in the background; now SIGSTOP stops the server");
    for expected in [
        ("first", LeaseState::Danger),
        ("second", LeaseState::Danger),
        ("first", LeaseState::Lost),
    ] {
        let (who, state, at) = told.recv_timeout(PATIENCE)?;
        claim((who, state) == expected, "each is told in its turn")?;
        claim(at < expires, "it is told before a record can expire")?;
    }
    let expires = story::millis(expires);
    more(format_args!(
        "(its record expires at {expires}, not earlier)"
    ));
    server.signal("CONT")?;
    say("SIGCONT lets the server go on");
    while second.state() == LeaseState::Danger {
        thread::park_timeout(Duration::from_millis(1));
    }
    second.check()?;
    let left = second.remaining().as_millis();
    say(format_args!(
        "second is renewed, and out of danger: {left} ms left"
    ));
    claim(
        first.check().is_err_and(|error| error.is_lost()),
        "a loss is final",
    )?;
    Ok(second.release()?)
}

/// Two leases of one lock: the first has run out, the second was taken after it.
fn paused_past_its_lease(url: &str, key: &str) -> Outcome<(Lease, Lease)> {
    let client = Client::open(url)?;
    let lock = |ttl| client.lock(key).ttl(ttl).without_renewal().fenced().build();
    let first = lock(SHORT)?.acquire_timeout(PATIENCE)?;
    say(format_args!(
        "one has the lock for {SHORT:?}, and is paused; another wants it"
    ));
    let second = lock(TTL)?.acquire_timeout(PATIENCE)?;
    say("the first lease has run out, and the second has the lock");
    Ok((first, second))
}

/// Whether the record on the server is that of `lease`.
fn stands(url: &str, lease: &Lease) -> Outcome<bool> {
    let holder = Client::open(url)?.inspect(lease.key())?;
    Ok(holder.is_some_and(|holder| holder.fingerprint() == lease.token().fingerprint()))
}

/// Stands at the proxy of the second part: the reply to the first `SET` is lost.
#[derive(Default)]
struct Loss {
    asked: AtomicUsize,
    happened: AtomicBool,
}

impl Loss {
    fn lets_through(&self, way: Way, piece: &str) -> bool {
        let has = |word: &str| piece.split("\r\n").any(|part| part == word);
        match way {
            Way::ToServer if has("SET") => {
                say("a caller asks for the lock: SET … NX PX");
                self.asked.fetch_add(1, Ordering::SeqCst);
            }
            Way::ToServer if has("KILL") => {
                say("the caller has waited long enough: it opens a second connection, has");
                more("the server kill the first, so that nothing more can come of it, and");
                more("asks with its token whether the lock is its own");
            }
            Way::ToClient if self.loses_this() => {
                let reply = piece.trim_end();
                say(format_args!("the server answers {reply}, which is lost"));
                return false;
            }
            _ => {}
        }
        true
    }

    fn loses_this(&self) -> bool {
        0 < self.asked.load(Ordering::SeqCst) && !self.happened.swap(true, Ordering::SeqCst)
    }
}
