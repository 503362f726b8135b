//! A service: threads that take turns at one job, and a shutdown in good order.
//!
//! `cargo run --example service`: on a server of its own, or on `LEASEHOLD_URL`.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

mod support;

use std::process::{ExitCode, id};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Canceller, Client, Error, Lease, Lock};
use support::{Outcome, Server, claim, finish};

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Outcome {
    let (server, begun) = (Server::start()?, Instant::now());
    let client = Client::open(server.url())?;
    let (lock, stop) = (&lock_of_the_job(&client)?, &Canceller::new());
    thread::scope(|scope| {
        let workers = [1, 2, 3].map(|worker| scope.spawn(move || work(worker, lock, stop)));
        thread::park_timeout(Duration::from_secs(2)); // in truth: until SIGTERM
        stop.cancel(); // who waits is called off, who works ends its turn
        let mut ends = workers.into_iter().map(|worker| worker.join());
        ends.try_for_each(|end| end.map_err(|_| "a worker panicked")?)
    })?;
    claim(begun.elapsed() < Duration::from_secs(5), "it ends soon")?;
    let stats = client.stats();
    println!("shut down: {stats:?}");
    let ends = stats.released + stats.lost + stats.unknown_unresolved;
    claim((1..=ends).contains(&stats.acquired), "each lease has ended")
}

/// The one place that says how the job is locked, since all who do it have to agree.
fn lock_of_the_job(client: &Client) -> Result<Lock, Error> {
    let lock = client.lock("leasehold:service").ttl(Duration::from_secs(5));
    lock.label(format!("process {}", id())) // for people who ask who has it
        // These run on other threads, also while a worker is stuck: the place for an alert.
        .on_danger(|danger| println!("DANGER {}: {}", danger.key(), danger.cause()))
        .on_lost(|loss| println!("LOST {}: {}", loss.key(), loss.cause()))
        .build()
}

/// With a deadline in place of `None`, the wait outlasts outages too.
fn work(worker: usize, lock: &Lock, stop: &Canceller) -> Outcome {
    while let Some(lease) = lock.acquire_cancellable(None, stop)? {
        println!("worker {worker} has the lock");
        let turn = turn(&lease);
        match lease.release() {
            // What was done is done. Others wait until the record is deleted, or expires.
            Err(error) if error.is_unknown() => println!("goes on, though {error}"),
            // Somebody else may have been at it too: what was done has to be looked at.
            Err(error) if error.is_lost() => println!("WORKED WITHOUT THE LOCK: {error}"),
            released => released?,
        }
        turn?;
        thread::park_timeout(Duration::from_millis(250)); // until its next turn
    }
    Ok(())
}

fn turn(lease: &Lease) -> Outcome {
    static AT_WORK: AtomicBool = AtomicBool::new(false);
    for _ in 0..5 {
        match lease.check() {
            Err(error) if error.is_endangered() => break, // begin nothing new
            checked => checked?,
        }
        claim(!AT_WORK.swap(true, SeqCst), "the holder is alone")?;
        thread::park_timeout(Duration::from_millis(20)); // the side effect
        AT_WORK.store(false, SeqCst);
    }
    Ok(())
}
