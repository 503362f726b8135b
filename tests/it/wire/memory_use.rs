//! Heap allocations of a cycle, and what is left of many.

use std::fs;
use std::thread;
use std::time::Duration;

use leasehold::{Client, Lease, LockBuilder};

use super::take;
use crate::links::patient;
use crate::support::children::{self, Child};
use crate::support::{PATIENCE, Server};

#[test]
fn a_cycle_allocates_at_most_four_times_however_many_leases_live() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock("order:1").build().unwrap();
    let hundred_cycles = || {
        for _ in 0..100 {
            take(&lock).release().unwrap();
        }
    };
    hundred_cycles();
    let alone = allocation_counter::measure(hundred_cycles);
    assert!(alone.count_total <= 400, "{alone:?}");
    assert_eq!(alone.count_current, 0, "{alone:?}");
    let crowd: Vec<Lease> = (0..500)
        .map(|n| take(&client.lock(format!("crowd:{n}")).build().unwrap()))
        .collect();
    let crowded = allocation_counter::measure(hundred_cycles);
    assert!(crowded.count_total <= alone.count_total, "{crowded:?}");
    drop(crowd);
}

#[test]
fn a_cycle_allocates_at_most_four_times_while_threads_queue_for_a_link() {
    const EACH: u64 = 300;
    let server = Server::start();
    let client = Client::builder(&server.url());
    let client = client.max_links(1).build().unwrap();
    let cycles = |key: &str| {
        let lock = client.lock(key).build().unwrap();
        allocation_counter::measure(|| (0..EACH).for_each(|_| take(&lock).release().unwrap()))
    };
    let crowd = || {
        thread::scope(|scope| {
            let cycles = &cycles;
            let threads = ["a", "b", "c", "d"].map(|key| scope.spawn(move || cycles(key)));
            threads.map(|thread| thread.join().unwrap())
        })
    };
    // The queue itself grows once.
    crowd();
    for counted in crowd() {
        assert!(counted.count_total <= 4 * EACH, "{counted:?}");
    }
}

#[test]
fn a_lease_that_was_released_leaves_nothing_behind() {
    let server = Server::start();
    for callbacks in ["", "with callbacks"] {
        let variables = [("URL", &*server.unix_url()), ("CALLBACKS", callbacks)];
        let role = "wire::memory_use::cycles_and_says_by_how_much_it_has_grown";
        let mut child = Child::run(role, &variables);
        // Without its server a child that hangs would be waited for no longer than this.
        let grown: u64 = child.expect_line(6 * PATIENCE).parse().unwrap();
        assert!(child.wait(PATIENCE).success());
        // 10 bytes a cycle; what a schedule keeps for one entry alone is more than that.
        assert!(grown <= 1_000, "grown by {grown} kB {callbacks}");
    }
}

#[test]
fn cycles_and_says_by_how_much_it_has_grown() {
    const CYCLES: u32 = 100_000;
    let Some(parent) = children::parent() else {
        return;
    };
    let client = patient(&parent.var("URL"));
    // Renewed, if it came to that: long before, it has been released.
    let plain = |key| client.lock(key).ttl(Duration::from_secs(600));
    let with_callbacks = |lock: LockBuilder| lock.on_danger(|_| {}).on_lost(|_| {});
    let lock = if parent.var("CALLBACKS").is_empty() {
        plain("order:1")
    } else {
        with_callbacks(plain("order:1"))
    };
    let lock = lock.build().unwrap();
    // One that lives all the while, so that the background has something to do.
    let other = take(&with_callbacks(plain("order:2")).build().unwrap());
    let cycles = |count| (0..count).for_each(|_| take(&lock).release().unwrap());
    cycles(CYCLES / 10);
    let before = resident_kilobytes();
    cycles(CYCLES);
    let after = resident_kilobytes();
    other.release().unwrap();
    parent.say(&after.saturating_sub(before).to_string());
}

fn resident_kilobytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse().unwrap()
}
