//! Heap allocations of a cycle.

use std::thread;

use leasehold::{Client, Lease};

use super::take;
use crate::links::patient;
use crate::support::Server;

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
