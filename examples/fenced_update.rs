//! A write that comes too late is refused by the database: fences in an SQL `UPDATE`.
//!
//! Ada is stopped between her last check and her write, for longer than her lease.
//!
//! `cargo run --example fenced_update`: on a server of its own, or on `LEASEHOLD_URL`.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

mod support;

use std::process::ExitCode;
use std::time::Duration;

use leasehold::{Client, Lease};
use rusqlite::{Connection, named_params};
use support::{Outcome, Server, claim, finish};

const TABLE: &str = "
    CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER NOT NULL);
    INSERT INTO account VALUES (1, 100, 0);";

/// `<=` and not `<`: the holder itself may write often. No row changed means *stop*.
const UPDATE: &str = "UPDATE account SET balance = :balance, fence = :fence
    WHERE id = :id AND fence <= :fence";

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Outcome {
    let server = Server::start()?;
    let lock = Client::open(server.url())?.lock("leasehold:account:1");
    let lock = lock.ttl(Duration::from_millis(200)).without_renewal();
    let lock = lock.fenced().build()?;
    let database = Connection::open_in_memory()?;
    database.execute_batch(TABLE)?;

    let ada = lock.acquire_timeout(Duration::from_secs(5))?;
    println!("Ada has the lock, and is paused before she writes.");
    let bob = lock.acquire_timeout(Duration::from_secs(5))?;
    println!("Her lease has run out: Bob has the lock, and writes twice.");
    claim(write(&database, &bob, 110)?, "Bob's first write counts")?;
    claim(write(&database, &bob, 120)?, "Bob's second write counts")?;
    println!("Ada goes on where she was, and writes without asking her lease.");
    claim(!write(&database, &ada, 90)?, "Ada's write is refused")?;

    let balance: i64 = database.query_row("SELECT balance FROM account", [], |row| row.get(0))?;
    println!("The balance is {balance}, as Bob left it.");
    claim(balance == 120, "the balance is as Bob left it")
}

/// Whether the write counted; if not, the writer is no longer the holder and must stop.
fn write(database: &Connection, lease: &Lease, balance: i64) -> Outcome<bool> {
    let fence = i64::try_from(lease.fence().ok_or("the lock is not fenced")?)?;
    let values = named_params! { ":id": 1, ":balance": balance, ":fence": fence };
    let rows = database.execute(UPDATE, values)?;
    println!("  balance = {balance} with fence {fence}: {rows} row(s) changed");
    Ok(rows == 1)
}
