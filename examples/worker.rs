//! A worker that asks its lease before each side effect, and stops in the danger zone.
//!
//! What ends its shift is `max_hold`; a server that hangs would end it in the same way.
//!
//! `cargo run --example worker`: on a server of its own, or on `LEASEHOLD_URL`.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

mod support;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use leasehold::{Client, Lease};
use support::{Outcome, Server, claim, finish};

const PIECES: usize = 40;
/// Far less than the danger margin: a piece that was begun is finished while the lease holds.
const PIECE: Duration = Duration::from_millis(40);
const MARGIN: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Outcome {
    let server = Server::start()?;
    let lock = Client::open(server.url())?.lock("leasehold:worker");
    let lock = lock.danger(MARGIN).max_hold(MARGIN + PIECE * 20);
    let lock = lock.on_danger(|danger| println!("  danger: {}", danger.cause()));
    let lock = lock.ttl(Duration::from_secs(3)).build()?;
    let mut done = Vec::new();
    while done.len() < PIECES {
        let lease = lock.acquire_timeout(Duration::from_secs(5))?;
        println!("a shift begins at piece {}", done.len() + 1);
        work(&lease, &mut done)?;
        lease.release()?;
        println!("the lock is given back after piece {}", done.len());
    }
    claim(done.is_sorted(), "each piece is done once, and in its turn")
}

/// Works until all is done or the lease says stop. A loss is an error: another may be at work.
fn work(lease: &Lease, done: &mut Vec<usize>) -> Outcome {
    while done.len() < PIECES {
        match lease.check() {
            Err(error) if error.is_endangered() => {
                println!("  stops: {error}");
                break;
            }
            checked => checked?,
        }
        thread::park_timeout(PIECE);
        done.push(done.len() + 1); // the side effect
        claim(lease.is_held(), "the lease holds until a piece is done")?;
    }
    Ok(())
}
