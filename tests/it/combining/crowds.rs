//! Many threads, few links.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leasehold::{Client, Lock};

use super::lock;
use crate::links::patient;
use crate::renewal::{lives_for, renewed};
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::waiting::Aside;
use crate::wire::take;

fn few_links(url: &str, most: usize) -> Client {
    let builder = Client::builder(url).max_links(most);
    let builder = builder.connect_timeout(PATIENCE).command_timeout(PATIENCE);
    builder.build().unwrap()
}

/// Cycles in so many threads at the same time, each on a key of its own; what `each` says of a
/// thread's own cycles.
fn crowd<T: Send>(threads: usize, client: &Client, each: impl Fn(&Lock) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let (start, each) = (&start, &each);
        let threads: Vec<_> = (0..threads)
            .map(|own| {
                let lock = lock(client, &format!("order:{own}"));
                scope.spawn(move || {
                    start.wait();
                    each(&lock)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("see above"))
            .collect()
    })
}

#[test]
fn two_hundred_and_fifty_six_threads_have_no_more_than_the_links_they_are_allowed() {
    const CYCLES: u64 = 20;
    let server = Server::start();
    for (client, most) in [
        (patient(&server.url()), 8),
        (few_links(&server.url(), 3), 3),
    ] {
        let accepted = || {
            let info = server.cmd(&["INFO", "stats"]);
            let redis::Value::BulkString(info) = info else {
                panic!("INFO answers with a text");
            };
            let info = String::from_utf8_lossy(&info).into_owned();
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("total_connections_received:"));
            line.unwrap().trim().parse::<usize>().unwrap()
        };
        let before = accepted();
        let most_at_a_time = crowd(256, &client, |lock| {
            let mut most = 0;
            for cycle in 0..CYCLES {
                let lease = take(lock);
                if cycle == CYCLES / 2 && lock.key().ends_with("00") {
                    most = server.clients().len();
                }
                lease.release().unwrap();
            }
            most
        });
        // Each question is a connection of its own: those of this test, and the second count.
        let asked = most_at_a_time.iter().filter(|most| 0 < **most).count();
        assert_eq!(asked, 2);
        let opened = accepted() - before - asked - 1;
        assert!((1..=most).contains(&opened), "{opened} links");
        let most_at_a_time = most_at_a_time.into_iter().max().unwrap();
        assert!(most_at_a_time <= most, "{most_at_a_time} at a time");
        let stats = client.stats();
        let cycles = 256 * CYCLES;
        assert_eq!((stats.acquired, stats.released), (cycles, cycles));
        assert_eq!((stats.reconnects, stats.unknown_resolved), (0, 0));
        drop(client);
        eventually("its links are closed", PATIENCE, || {
            server.clients().is_empty()
        });
    }
}

#[test]
fn a_cycle_in_a_crowd_allocates_no_more_than_one_alone() {
    const THREADS: usize = 32;
    const CYCLES: u64 = 200;
    let server = Server::start();
    let client = few_links(&server.url(), 2);
    let cycles = |lock: &Lock| {
        let cycles = || (0..CYCLES).for_each(|_| take(lock).release().unwrap());
        // The thread's own place in line is made once.
        cycles();
        allocation_counter::measure(cycles).count_total
    };
    // So is the room for a batch.
    crowd(THREADS, &client, cycles);
    let total: u64 = crowd(THREADS, &client, cycles).into_iter().sum();
    let all = THREADS as u64 * CYCLES;
    println!("{total} allocations in {all} cycles");
    assert!(total <= 4 * all, "{total} allocations in {all} cycles");
}

#[test]
fn a_lease_is_renewed_while_all_links_that_callers_share_hang() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = few_links(&proxy.url(), 2);
    let kept = client.lock("kept").ttl(Duration::from_millis(1_200));
    let kept = kept.renew_every(Duration::from_millis(200));
    let lease = take(&kept.build().unwrap());
    renewed(&client, &lease, 1);
    let held = proxy.hold_reply(Matcher::command("SET").first(2));
    let hanging: Vec<_> = (0..8)
        .map(|own| {
            let lock = lock(&client, &format!("order:{own}"));
            Aside::start(move || lock.try_acquire())
        })
        .collect();
    eventually("both links hang", PATIENCE, || held.count() == 2);
    let connections = proxy.connections();
    lives_for(&lease, Duration::from_millis(2_500));
    let stats = client.stats();
    assert!(5 < stats.renewals_ok, "{stats:?}");
    assert_eq!((held.count(), proxy.connections()), (2, connections));
    (0..2).for_each(|_| assert!(held.deliver()));
    for caller in hanging {
        caller.value().unwrap().unwrap().release().unwrap();
    }
    lease.release().unwrap();
    let stats = client.stats();
    assert_eq!((stats.lost, stats.unknown_resolved), (0, 0));
    assert_eq!((stats.reconnects, stats.unknown_unresolved), (0, 0));
}
