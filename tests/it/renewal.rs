//! Leases that are kept in the background: for how long, through what, and until when.

mod foreign_hands;
mod in_step;
mod long_lives;
mod lossy_network;
mod lost_for_good;
mod refusals;
mod replicas;
mod restarts;
mod through_faults;
mod urgent;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, DangerCause, Lease, LockBuilder, LossCause};
use parking_lot::{Condvar, Mutex};

use crate::support::{Matcher, PATIENCE, Script, eventually};

const KEY: &str = "order:1";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn is_renewal(words: &[String]) -> bool {
    Script::Renew.is_called(words)
}

fn is_release(words: &[String]) -> bool {
    Script::Release.is_called(words)
}

/// Whether it is about a record that somebody has: its token is what the script is given first.
fn is_of_a_holder(words: &[String]) -> bool {
    is_renewal(words) || is_release(words) || Script::Adopt.is_called(words)
}

fn renewal() -> Matcher {
    Matcher::when(is_renewal)
}

fn renewal_of(lease: &Lease) -> Matcher {
    renewal().with_arg(lease.token().expose())
}

fn release() -> Matcher {
    Matcher::when(is_release)
}

fn count(commands: &[Vec<String>], wanted: impl Fn(&[String]) -> bool) -> usize {
    commands.iter().filter(|words| wanted(words)).count()
}

/// What a holder was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Danger(DangerCause),
    Lost(LossCause),
}

/// A lock whose leases tell this receiver of their danger and of their loss.
fn telling(lock: LockBuilder) -> (LockBuilder, Receiver<Told>) {
    let (told, heard) = channel();
    let lost = told.clone();
    // The receiver is gone only where the test is over.
    let lock = lock
        .on_danger(move |danger| told.send(Told::Danger(danger.cause())).unwrap_or_default())
        .on_lost(move |loss| lost.send(Told::Lost(loss.cause())).unwrap_or_default());
    (lock, heard)
}

/// The cause of the loss, whatever dangers precede it.
#[track_caller]
fn loss_heard(heard: &Receiver<Told>) -> LossCause {
    let mut told = Vec::new();
    loop {
        match heard.recv_timeout(PATIENCE) {
            Ok(Told::Lost(cause)) => return cause,
            Ok(danger) => told.push(danger),
            Err(_) => panic!("nobody was told of a loss; what was told: {told:?}"),
        }
    }
}

/// Asserts that the lease is held for all of `span`.
#[track_caller]
pub(crate) fn lives_for(lease: &Lease, span: Duration) {
    throughout(span, || {
        assert!(lease.is_held(), "it is {:?}", lease.state());
    });
}

/// Runs `look` every millisecond for `span`.
#[track_caller]
fn throughout(span: Duration, mut look: impl FnMut()) {
    let begun = Instant::now();
    eventually("the time passes", span + PATIENCE, || {
        look();
        span <= begun.elapsed()
    });
}

/// Returns when `more` renewals have been confirmed, during which the lease is held.
#[track_caller]
pub(crate) fn renewed(client: &Client, lease: &Lease, more: u64) {
    let wanted = client.stats().renewals_ok + more;
    eventually("renewals are confirmed", PATIENCE, || {
        assert!(lease.is_held(), "it is {:?}", lease.state());
        wanted <= client.stats().renewals_ok
    });
}

/// Runs a test of leases that are shorter than a pause of a busy machine. One that fails is
/// believed if the machine has not paused meanwhile; else it is run again.
fn undisturbed(test: impl Fn() -> Result<(), String>) {
    for _ in 0..10 {
        let (result, pause) = witnessed(&test);
        match result {
            Ok(()) => return,
            Err(fault) => assert!(ms(30) < pause, "{fault}; the longest pause was {pause:?}"),
        }
    }
    panic!("the machine was never quiet for long enough");
}

/// The longest time by which a thread that wanted to run every five milliseconds was late.
fn witnessed<T>(test: impl FnOnce() -> T) -> (T, Duration) {
    let ended = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        let witness = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            let mut over = ended.0.lock();
            while !*over {
                let wanted = Instant::now() + ms(5);
                ended.1.wait_until(&mut over, wanted);
                longest = longest.max(Instant::now().saturating_duration_since(wanted));
            }
            longest
        });
        let result = catch_unwind(AssertUnwindSafe(test));
        // Also where the test has failed: the witness would be waited for without end.
        *ended.0.lock() = true;
        ended.1.notify_all();
        let result = result.unwrap_or_else(|panic| resume_unwind(panic));
        (result, witness.join().unwrap())
    })
}
