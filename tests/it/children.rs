//! What other processes do for the tests. Each is a test that returns at once unless it was
//! started as a child, see [`children`](crate::support::children).

use std::thread;
use std::time::Duration;

use crate::contention::{Pace, Tally};
use crate::links::patient;
use crate::support::{PATIENCE, children};

/// One of the contenders for the lock.
#[test]
fn adds_under_the_lock() {
    let Some(parent) = children::parent() else {
        return;
    };
    let millis = |name| Duration::from_millis(parent.var(name).parse().unwrap());
    let pace = Pace {
        times: parent.var("TIMES").parse().unwrap(),
        hold: millis("HOLD"),
        budget: millis("BUDGET"),
        timeout: millis("TIMEOUT"),
        ttl: millis("TTL"),
    };
    let lock = pace.lock(&parent.var("URL"));
    let tally = Tally::at(parent.var("DIRECTORY"));
    parent.say("ready");
    parent.hear();
    parent.say(&pace.contend(&lock, &tally).to_string());
}

/// Waits for the lock, with one thread or several, until it is killed.
#[test]
fn waits_for_the_lock() {
    let Some(parent) = children::parent() else {
        return;
    };
    let client = patient(&parent.var("URL"));
    let threads = std::env::var("THREADS").map_or(1, |threads| threads.parse().unwrap());
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let lock = client.lock("order:1").build().unwrap();
            thread::spawn(move || lock.acquire().map(drop))
        })
        .collect();
    parent.say("waiting");
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
}

/// Takes the lock and holds it until it is killed.
#[test]
fn holds_the_lock() {
    let Some(parent) = children::parent() else {
        return;
    };
    let ttl = Duration::from_millis(parent.var("TTL").parse().unwrap());
    let client = patient(&parent.var("URL"));
    let lock = client.lock("order:1").ttl(ttl).build().unwrap();
    let lease = lock.acquire_timeout(PATIENCE).unwrap();
    parent.say("holding");
    parent.hear();
    drop(lease);
}
