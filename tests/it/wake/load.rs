//! What waiting costs: the processor, the server, and as many of them as there may be.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{AMPLE, KEY, hold, let_pass, lock, ms, wait_until_blocked};
use crate::support::children::Child;
use crate::support::{Monitor, PATIENCE, Server, eventually};
use crate::waiting::Aside;

/// The time that a process has had of the processors.
fn used(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Behind the name, which is in brackets and may hold anything: user and system time are the
    // 14th and 15th of all fields, in hundredths of a second.
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u64 = [fields[11], fields[12]]
        .map(|field| field.parse::<u64>().unwrap())
        .iter()
        .sum();
    ms(10 * ticks)
}

#[test]
fn a_process_that_waits_uses_no_processor_to_speak_of_and_asks_the_server_seldom() {
    const WATCHED: Duration = ms(3000);
    let server = Server::start();
    let holder = hold(&server);
    let url = server.url();
    for threads in ["1", "16"] {
        let variables = [("URL", url.as_str()), ("THREADS", threads)];
        let mut waiter = Child::run("children::waits_for_the_lock", &variables);
        assert_eq!(waiter.expect_line(PATIENCE), "waiting");
        wait_until_blocked(&server, 1);
        let monitor = Monitor::on(&server);
        let (begun, before) = (Instant::now(), used(waiter.id()));
        let_pass(WATCHED);
        let (took, used) = (begun.elapsed(), used(waiter.id()) - before);
        let commands = monitor.commands().len();
        println!("{threads} threads: {used:?} and {commands} commands in {took:?}");
        assert!(
            used * 100 < took * 3,
            "{threads} threads: {used:?} of {took:?}"
        );
        // A sleep and a look each 0.9 s.
        let most = 3 * (took.as_millis() as usize / 1000 + 1);
        assert!(
            commands <= most,
            "{threads} threads: {commands} in {took:?}"
        );
        assert_ne!(commands, 0);
        waiter.kill();
        wait_until_blocked(&server, 0);
    }
    holder.verify().unwrap();
}

/// So many clients take the lock again and again for up to 10 ms; gives the commands of clients
/// per acquisition.
#[track_caller]
fn commands_per_hand_over(clients: usize) -> f64 {
    const WATCHED: Duration = ms(1500);
    let server = Server::start();
    let over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicUsize::new(0));
    let holder = hold(&server);
    let waiters: Vec<_> = (0..clients)
        .map(|own| {
            let lock = lock(&server.url());
            let (over, taken) = (Arc::clone(&over), Arc::clone(&taken));
            Aside::start(move || {
                let mut hold = own as u64;
                while !over.load(Ordering::Relaxed) {
                    let lease = lock.acquire_timeout(AMPLE).unwrap();
                    hold = (hold + 3) % 11;
                    let_pass(ms(hold));
                    taken.fetch_add(1, Ordering::Relaxed);
                    lease.release().unwrap();
                }
            })
        })
        .collect();
    // All links are open then, and the scripts are loaded.
    wait_until_blocked(&server, clients);
    holder.release().unwrap();
    eventually("it goes round", PATIENCE, || {
        clients < taken.load(Ordering::Relaxed)
    });
    let monitor = Monitor::on(&server);
    let before = taken.load(Ordering::Relaxed);
    let_pass(WATCHED);
    let hand_overs = taken.load(Ordering::Relaxed) - before;
    let commands = monitor.commands().len();
    over.store(true, Ordering::Relaxed);
    for waiter in waiters {
        waiter.value();
    }
    assert_eq!(server.get(KEY), None);
    println!("{clients} clients: {commands} commands for {hand_overs} hand-overs");
    assert!(20 < hand_overs, "{hand_overs}");
    commands as f64 / hand_overs as f64
}

#[test]
fn a_hand_over_between_many_costs_the_server_as_little_as_one_between_two() {
    for clients in [2, 50] {
        let commands = commands_per_hand_over(clients);
        assert!(commands <= 8.0, "{commands} with {clients} clients");
    }
}
