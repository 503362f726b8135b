//! What other processes do for the tests. Each is a test that returns at once unless it was
//! started as a child, see [`children`](crate::support::children).

use std::time::Duration;

use crate::contention::{Pace, Tally};
use crate::support::children;

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
