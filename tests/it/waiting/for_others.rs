//! While others hold the lock: releases, expiries, budgets.

use std::time::{Duration, Instant};

use leasehold::{Canceller, Error, Lease, Lock};

use super::{Aside, SLACK, hold, lock, wait_until_waiting};
use crate::bad_input::said;
use crate::links::{HASTE, hasty, patient};
use crate::support::{PATIENCE, Proxy, Server};

type Way = fn(&Lock) -> Result<Lease, Error>;

/// The different ways to wait without a limit that matters.
fn ways_to_wait() -> Vec<Way> {
    vec![
        |lock| lock.acquire(),
        |lock| lock.acquire_timeout(Duration::from_secs(60)),
        |lock| lock.acquire_timeout(Duration::MAX),
        |lock| lock.acquire_deadline(Instant::now() + Duration::from_secs(60)),
        |lock| {
            lock.acquire_cancellable(None, &Canceller::new())
                .map(Option::unwrap)
        },
        |lock| {
            let deadline = Instant::now() + Duration::from_secs(60);
            let taken = lock.acquire_cancellable(Some(deadline), &Canceller::new());
            taken.map(Option::unwrap)
        },
    ]
}

#[test]
fn a_waiter_takes_the_lock_soon_after_its_release() {
    let server = Server::start();
    for wait in ways_to_wait() {
        let holder = hold(&server);
        let client = patient(&server.url());
        let lock = lock(&client);
        let waiter = Aside::start(move || wait(&lock));
        wait_until_waiting(&client);
        let released = Instant::now();
        holder.release().unwrap();
        let lease = waiter.value().unwrap();
        assert!(released.elapsed() < SLACK, "{:?}", released.elapsed());
        assert_eq!(
            server.get("order:1").as_deref(),
            Some(lease.token().expose())
        );
        lease.release().unwrap();
        assert_eq!(client.stats().timed_out, 0);
    }
}

#[test]
fn a_waiter_takes_the_lock_soon_after_the_record_of_a_dead_holder_expires() {
    let server = Server::start();
    for wait in ways_to_wait() {
        let start = Instant::now();
        server.cmd(&["SET", "order:1", "of one who has died", "PX", "200"]);
        let lock = lock(&patient(&server.url()));
        let lease = Aside::start(move || wait(&lock)).value().unwrap();
        let took = start.elapsed();
        assert!(Duration::from_millis(195) < took, "{took:?}");
        assert!(took < Duration::from_millis(200) + SLACK, "{took:?}");
        lease.release().unwrap();
    }
}

#[test]
fn a_foreign_deletion_is_noticed_by_a_waiter() {
    let server = Server::start();
    let client = patient(&server.url());
    for expiry in [&["PX", "600000"] as &[&str], &[]] {
        server.cmd(&[&["SET", "order:1", "a foreign client's"], expiry].concat());
        let lock = lock(&client);
        let waiter = Aside::start(move || lock.acquire());
        wait_until_waiting(&client);
        server.cmd(&["DEL", "order:1"]);
        waiter.value().unwrap().release().unwrap();
    }
}

#[test]
fn a_budget_that_ends_while_others_hold_the_lock_is_a_timeout_in_time() {
    let server = Server::start();
    let holder = hold(&server);
    let client = hasty(&server.url());
    let lock = lock(&client);
    let budget = Duration::from_millis(300);
    let most = budget + HASTE + SLACK;
    let waits: [&dyn Fn() -> Result<(), Error>; 3] = [
        &|| lock.acquire_timeout(budget).map(drop),
        &|| lock.acquire_deadline(Instant::now() + budget).map(drop),
        &|| {
            let deadline = Instant::now() + budget;
            lock.acquire_cancellable(Some(deadline), &Canceller::new())
                .map(drop)
        },
    ];
    for (count, wait) in waits.iter().enumerate() {
        let start = Instant::now();
        let error = wait().unwrap_err();
        let took = start.elapsed();
        assert!(error.is_timeout() && !error.is_unavailable(), "{error:?}");
        assert_eq!(error.key(), Some("order:1"));
        assert_eq!(error.may_hold_until(), None);
        said(&error);
        assert!(budget <= took && took < most, "{took:?}");
        assert_eq!(client.stats().timed_out, count as u64 + 1);
    }
    holder.verify().unwrap();
}

#[test]
fn no_time_at_all_is_enough_for_exactly_one_attempt() {
    let server = Server::start();
    let past = Instant::now();
    let attempt = |way: usize, lock: &Lock| match way {
        0 => lock.acquire_timeout(Duration::ZERO).map(Some),
        1 => lock.acquire_deadline(past).map(Some),
        _ => lock.acquire_cancellable(Some(past), &Canceller::new()),
    };
    for way in 0..3 {
        let holder = hold(&server);
        let proxy = Proxy::to(&server);
        let client = patient(&proxy.url());
        client.ping().unwrap();
        let error = attempt(way, &lock(&client)).unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        assert_eq!((proxy.count("SET"), proxy.count("EVALSHA")), (1, 0));
        holder.release().unwrap();
        let lease = attempt(way, &lock(&client)).unwrap().unwrap();
        assert_eq!(proxy.count("SET"), 2);
        lease.release().unwrap();
    }
}

/// The link is opened for the attempt, as it is for a single try.
#[test]
fn no_time_at_all_is_enough_for_one_attempt_of_a_client_that_has_just_been_opened() {
    let server = Server::start();
    let lease = lock(&patient(&server.url()))
        .acquire_timeout(Duration::ZERO)
        .unwrap();
    let error = lock(&patient(&server.url()))
        .acquire_timeout(Duration::ZERO)
        .unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    lease.release().unwrap();
    let past = Instant::now();
    let lease = lock(&patient(&server.url()))
        .acquire_deadline(past)
        .unwrap();
    lease.release().unwrap();
}

#[test]
fn the_lock_is_not_reentrant() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = lock(&client);
    let lease = lock.acquire_timeout(PATIENCE).unwrap();
    assert!(lock.try_acquire().unwrap().is_none());
    let again = lock.clone().acquire_timeout(Duration::from_millis(100));
    assert!(again.unwrap_err().is_timeout());
    lease.check().unwrap();
    lease.release().unwrap();
    lock.acquire_timeout(PATIENCE).unwrap().release().unwrap();
}
