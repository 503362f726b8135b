//! From a release to the next holder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{
    AMPLE, FOREIGN, KEY, NOTICED, THEIRS, Waiter, hold, let_pass, lock, lock_of, ms,
    wait_until_blocked,
};
use crate::links::patient;
use crate::support::children::Child;
use crate::support::{Matcher, Monitor, PATIENCE, Proxy, Server};
use crate::waiting::{Aside, SLACK};

/// Nobody would notice a release so soon by himself: that takes half a second in the mean.
const AT_ONCE: Duration = ms(250);

#[test]
fn a_release_wakes_the_one_who_waits() {
    let server = Server::start();
    let mut at_once = 0;
    for _ in 0..7 {
        let holder = hold(&server);
        let waiter = Waiter::start(&patient(&server.url()), |lock| lock.acquire());
        wait_until_blocked(&server, 1);
        let released = Instant::now();
        holder.release().unwrap();
        let (lease, warnings) = waiter.lease();
        at_once += usize::from(released.elapsed() < AT_ONCE);
        assert!(warnings.is_empty(), "{warnings:?}");
        lease.release().unwrap();
    }
    // A busy machine may be late with some of them.
    assert!(4 <= at_once, "{at_once} of 7");
}

#[test]
fn a_release_wakes_one_and_lets_the_others_sleep() {
    const WAITERS: usize = 12;
    let server = Server::start();
    let holder = hold(&server);
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = lock(&server.url());
            Aside::start(move || lock.acquire_timeout(AMPLE)?.release())
        })
        .collect();
    wait_until_blocked(&server, WAITERS);
    let monitor = Monitor::on(&server);
    let begun = Instant::now();
    holder.release().unwrap();
    for waiter in waiters {
        waiter.value().unwrap();
    }
    let took = begun.elapsed();
    let of_scripts = monitor.commands_of_scripts();
    let pushes = of_scripts.iter().filter(|words| words[0] == "LPUSH");
    assert!(pushes.count() <= WAITERS + 1);
    // Each looks by itself once in 0.9 s, or somewhat later, and once when it is woken. A herd
    // would look 66 times more.
    let looks = monitor.count("EVALSHA") - (WAITERS + 1);
    let own = WAITERS * (1 + took.as_millis() as usize / 900);
    assert!(looks <= WAITERS + own, "{looks} looks in {took:?}");
}

/// Of its command that is under way nothing more is heard, as it is of a machine that fails.
#[test]
fn a_woken_process_that_is_killed_costs_the_next_a_second_at_most() {
    let server = Server::start();
    for _ in 0..8 {
        let proxy = Proxy::to(&server);
        let holder = hold(&server);
        let variables = [("URL", proxy.url())];
        let variables = variables
            .each_ref()
            .map(|(name, url)| (*name, url.as_str()));
        let mut first = Child::run("children::waits_for_the_lock", &variables);
        assert_eq!(first.expect_line(PATIENCE), "waiting");
        wait_until_blocked(&server, 1);
        let held = proxy.hold(Matcher::any_of(&["SET", "EVALSHA"]));
        let second = Waiter::start(&patient(&server.url()), |lock| lock.acquire());
        wait_until_blocked(&server, 2);
        let released = Instant::now();
        holder.release().unwrap();
        held.wait();
        // Who was asleep first is woken, unless his time was over in this very moment.
        let was_woken = server.get(KEY).is_none();
        let killed = Instant::now();
        first.kill();
        let (lease, _) = second.lease();
        let took = killed.elapsed();
        lease.release().unwrap();
        if was_woken && AT_ONCE < took {
            assert!(took < NOTICED + SLACK, "{took:?}");
            println!("taken {:?} after the release", released.elapsed());
            return;
        }
    }
    panic!("in none of 8 rounds was it the one to be killed who was woken");
}

#[test]
fn a_deletion_by_hand_is_noticed_within_a_second() {
    let server = Server::start();
    for expiry in [&["PX", "600000"] as &[&str], &[]] {
        server.cmd(&[&["SET", KEY, THEIRS], expiry].concat());
        let waiter = Waiter::start(&patient(&server.url()), |lock| lock.acquire());
        wait_until_blocked(&server, 1);
        let deleted = Instant::now();
        server.cmd(&["DEL", KEY]);
        let (lease, _) = waiter.lease();
        let took = deleted.elapsed();
        assert!(took < NOTICED + SLACK, "{took:?}");
        lease.release().unwrap();
    }
}

/// Nobody is woken by it.
#[test]
fn who_waits_for_a_client_that_only_deletes_looks_often() {
    let server = Server::start();
    let mut at_once = 0;
    for expiry in [&["PX", "600000"] as &[&str], &[]].repeat(4) {
        let proxy = Proxy::to(&server);
        server.cmd(&[&["SET", KEY, FOREIGN], expiry].concat());
        let waiter = Waiter::start(&patient(&proxy.url()), |lock| lock.acquire());
        waiter.is_waiting();
        let deleted = Instant::now();
        server.cmd(&["DEL", KEY]);
        let (lease, warnings) = waiter.lease();
        at_once += usize::from(deleted.elapsed() < AT_ONCE);
        // Of a record that never goes by itself.
        assert!(
            warnings.len() <= usize::from(expiry.is_empty()),
            "{warnings:?}"
        );
        assert_eq!(proxy.count("BLPOP"), 0);
        lease.release().unwrap();
    }
    assert!(5 <= at_once, "{at_once} of 8");
}

/// Who has held it last, again and again.
fn takes_it_again_and_again(
    lock: leasehold::Lock,
    name: u8,
    (over, order): (Arc<AtomicBool>, Arc<Mutex<Vec<u8>>>),
) {
    while !over.load(Ordering::Relaxed) {
        let lease = lock.acquire_timeout(AMPLE).unwrap();
        order.lock().push(name);
        // Long enough for the other to be waiting.
        let_pass(ms(3));
        lease.release().unwrap();
    }
}

#[test]
fn two_clients_that_want_it_all_the_time_take_turns() {
    let server = Server::start();
    let over = Arc::new(AtomicBool::new(false));
    let order = Arc::new(Mutex::new(Vec::new()));
    let clients: Vec<_> = (0..2)
        .map(|name| {
            let lock = lock(&server.url());
            let shared = (Arc::clone(&over), Arc::clone(&order));
            Aside::start(move || takes_it_again_and_again(lock, name, shared))
        })
        .collect();
    let begun = Instant::now();
    crate::support::eventually("it has changed hands often", 6 * PATIENCE, || {
        300 <= order.lock().len()
    });
    let took = begun.elapsed();
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.value();
    }
    let order = order.lock();
    let changes = order.windows(2).filter(|two| two[0] != two[1]).count();
    println!(
        "{changes} changes in {} acquisitions, {took:?}",
        order.len()
    );
    // Who comes to wait only after a release has not been waiting, and is not let go first.
    assert!(
        order.len() * 3 / 4 <= changes,
        "{changes} of {}",
        order.len()
    );
}

/// A client owes others only the first try, and only for a second.
#[test]
fn who_has_let_others_go_first_takes_the_lock_when_they_do_not() {
    let server = Server::start();
    let client = patient(&server.url());
    let lease = lock_of(&client).acquire_timeout(PATIENCE).unwrap();
    // It has waited, and has gone.
    let budget = ms(200);
    let impatient = lock(&server.url()).acquire_timeout(budget);
    assert!(impatient.unwrap_err().is_timeout());
    lease.release().unwrap();
    let begun = Instant::now();
    let lease = lock_of(&client).acquire_timeout(AMPLE).unwrap();
    assert!(begun.elapsed() < NOTICED + SLACK, "{:?}", begun.elapsed());
    lease.release().unwrap();
}
