//! Holders that die: nobody releases, and nobody wakes.

use std::thread;
use std::time::{Duration, Instant};

use super::{AMPLE, FOREIGN, KEY, THEIRS, Waiter, lock, ms, wait_until_blocked};
use crate::links::patient;
use crate::support::children::Child;
use crate::support::{PATIENCE, Server};
use crate::waiting::Aside;

/// How late a waiter may be who has looked at the time that was left.
const LATE: Duration = ms(100);

/// Waits for a record that nobody gives back; gives by how much it was late.
fn lateness(server: &Server, (key, record): (&str, &str), ttl: Duration) -> Duration {
    let lock = patient(&server.url()).lock(key).build().unwrap();
    lock.try_acquire().unwrap().unwrap().release().unwrap();
    let begun = Instant::now();
    let millis = ttl.as_millis().to_string();
    server.cmd(&["SET", key, record, "PX", &millis]);
    let lease = lock.acquire_timeout(AMPLE).unwrap();
    let late = begun.elapsed().saturating_sub(ttl);
    lease.release().unwrap();
    late
}

/// Some of the tries are allowed to meet a busy machine.
#[track_caller]
fn assert_mostly_in_time(what: &str, tries: &[Duration], wanted: usize) {
    let in_time = tries.iter().filter(|late| **late <= LATE).count();
    assert!(wanted <= in_time, "{what}: late by {tries:?}");
}

#[test]
fn the_lock_of_a_dead_holder_is_taken_when_its_time_is_up() {
    let server = Server::start();
    let ttls = [20, 50, 105, 111, 120, 180, 250, 400, 950, 1050, 1500].map(|ttl| (ttl, THEIRS));
    let foreign = [60, 300, 1100].map(|ttl| (ttl, FOREIGN));
    let ttls = ttls.into_iter().chain(foreign);
    thread::scope(|scope| {
        for (ttl, record) in ttls {
            let server = &server;
            scope.spawn(move || {
                let key = format!("order:{ttl}");
                let mut tries = Vec::new();
                while tries.len() < 6 && tries.iter().filter(|late| **late <= LATE).count() < 2 {
                    tries.push(lateness(server, (&key, record), ms(ttl)));
                }
                assert_mostly_in_time(&key, &tries, 2);
            });
        }
    });
}

/// Nobody has woken it, and it has looked several times before.
#[test]
fn one_who_waits_for_seconds_is_in_time_as_well() {
    let server = Server::start();
    let tries: Vec<_> = thread::scope(|scope| {
        let waits: Vec<_> = (0..3)
            .map(|own| {
                let (server, key) = (&server, format!("order:{own}"));
                scope.spawn(move || lateness(server, (&key, THEIRS), ms(5000)))
            })
            .collect();
        waits.into_iter().map(|wait| wait.join().unwrap()).collect()
    });
    assert_mostly_in_time("of 5 s", &tries, 1);
}

#[test]
fn the_lock_of_a_killed_process_is_taken_when_its_time_is_up() {
    let server = Server::start();
    let url = server.url();
    let mut tries = Vec::new();
    while tries.len() < 4 && !tries.iter().any(|late| *late <= LATE) {
        let mut holder = Child::run("children::holds_the_lock", &[("URL", &url), ("TTL", "900")]);
        assert_eq!(holder.expect_line(PATIENCE), "holding");
        let waiter = Waiter::start(&patient(&url), |lock| lock.acquire());
        wait_until_blocked(&server, 1);
        holder.kill();
        // What it had sent has been run.
        let begun = Instant::now();
        let left = u64::try_from(server.pttl(KEY)).unwrap();
        let (lease, _) = waiter.lease();
        tries.push(begun.elapsed().saturating_sub(ms(left)));
        lease.release().unwrap();
    }
    assert_mostly_in_time("of a killed process", &tries, 1);
}

/// What is asleep until a holder's time is up finds out that it was given more.
#[test]
fn a_holder_that_renews_is_waited_for() {
    let server = Server::start();
    let holder = patient(&server.url()).lock(KEY).ttl(ms(400)).build();
    let lease = holder.unwrap().acquire_timeout(PATIENCE).unwrap();
    let lock = lock(&server.url());
    let waiter = Aside::start(move || lock.acquire_timeout(ms(1500)));
    assert!(waiter.value().unwrap_err().is_timeout());
    lease.check().unwrap();
    lease.release().unwrap();
}
