//! First come, first served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{KEY, in_front, in_line, lock, ms, somebody_else};
use crate::links::patient;
use crate::support::{Monitor, PATIENCE, Server, eventually};
use crate::wire::take;

/// How long each holds: so briefly that the lock is handed on, and so long that it is not.
const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(12)];

#[test]
fn threads_take_the_lock_in_the_order_in_which_they_came() {
    let server = Server::start();
    for hold in HOLDS {
        for fenced in [false, true] {
            let client = patient(&server.url());
            let lock = client.lock(KEY);
            let lock = if fenced { lock.fenced() } else { lock };
            let lock = lock.build().unwrap();
            let holder = take(&lock);
            let order = Arc::new(Mutex::new(Vec::new()));
            let waits: Vec<_> = (0..20)
                .map(|number| {
                    let (lock, order) = (lock.clone(), Arc::clone(&order));
                    in_line(move || {
                        let lease = take(&lock);
                        order.lock().push((number, lease.fence()));
                        let until = Instant::now() + hold;
                        eventually("the work is done", PATIENCE, || until <= Instant::now());
                        lease.release().unwrap();
                    })
                })
                .collect();
            holder.release().unwrap();
            waits.into_iter().for_each(|wait| wait.value());
            let (order, fences): (Vec<_>, Vec<_>) = order.lock().iter().copied().unzip();
            assert_eq!(order, (0..20).collect::<Vec<_>>());
            assert!(!fenced || fences.is_sorted_by(|one, next| one < next));
            assert_eq!(server.get(KEY), None);
            let stats = client.stats();
            assert_eq!((stats.acquired, stats.released, stats.lost), (21, 21, 0));
            assert_eq!((stats.timed_out, stats.unknown_unresolved), (0, 0));
        }
    }
}

#[test]
fn whoever_waits_in_memory_sends_nothing() {
    let server = Server::start();
    let client = patient(&server.url());
    let holder = take(&lock(&client));
    let monitor = Monitor::on(&server);
    let waits: Vec<_> = (0..10)
        .map(|_| {
            let lock = lock(&client);
            in_line(move || take(&lock).release().unwrap())
        })
        .collect();
    let sent = monitor.commands();
    assert!(sent.is_empty(), "{sent:?}");
    holder.release().unwrap();
    waits.into_iter().for_each(|wait| wait.value());
}

#[test]
fn only_the_one_in_front_waits_at_the_server() {
    let server = Server::start();
    let holder = somebody_else(&server);
    let client = patient(&server.url());
    let monitor = Monitor::on(&server);
    let waits: Vec<_> = (0..10)
        .map(|number| {
            let lock = lock(&client);
            let work = move || take(&lock).release().unwrap();
            if number == 0 {
                in_front(&server, work)
            } else {
                in_line(work)
            }
        })
        .collect();
    monitor.clear();
    // Long enough for everybody to look once, who looks once a second.
    let until = Instant::now() + ms(1_500);
    eventually("a while passes", PATIENCE, || until <= Instant::now());
    let of_clients = monitor.commands();
    let blocking = monitor.count("BLPOP");
    assert!(
        of_clients.len() <= 6 && blocking <= 3,
        "one waits at the server: {of_clients:?}"
    );
    holder.release().unwrap();
    waits.into_iter().for_each(|wait| wait.value());
}

#[test]
fn one_attempt_does_not_wait_in_line() {
    let server = Server::start();
    let client = patient(&server.url());
    let holder = take(&lock(&client));
    let first = {
        let lock = lock(&client);
        in_line(move || take(&lock))
    };
    let monitor = Monitor::on(&server);
    for attempt in [
        || |lock: &leasehold::Lock| lock.try_acquire().unwrap().is_none(),
        || {
            |lock: &leasehold::Lock| {
                lock.acquire_timeout(Duration::ZERO)
                    .unwrap_err()
                    .is_timeout()
            }
        },
    ] as [fn() -> fn(&leasehold::Lock) -> bool; 2]
    {
        monitor.clear();
        assert!(attempt()(&lock(&client)));
        let commands = monitor.commands();
        assert_eq!(commands.len(), 1, "{commands:?}");
    }
    // Nor does it go before others when the lock is free.
    holder.release().unwrap();
    let lease = first.value();
    assert!(lock(&client).try_acquire().unwrap().is_none());
    lease.release().unwrap();
}

#[test]
fn those_who_want_another_key_or_another_client_stand_in_no_line_of_ours() {
    let server = Server::start();
    let client = patient(&server.url());
    let holder = take(&lock(&client));
    let wait = {
        let lock = lock(&client);
        in_line(move || take(&lock).release().unwrap())
    };
    take(&client.lock("order:2").build().unwrap())
        .release()
        .unwrap();
    let other = patient(&server.url());
    let elsewhere = in_front(&server, {
        let lock = lock(&other);
        move || take(&lock).release().unwrap()
    });
    holder.release().unwrap();
    wait.value();
    elsewhere.value();
}

#[test]
fn one_who_comes_while_others_wait_does_not_overtake_them() {
    let server = Server::start();
    let client = patient(&server.url());
    let order = Arc::new(Mutex::new(Vec::new()));
    let holder = somebody_else(&server);
    let wait = |name: &'static str| {
        let (lock, order) = (lock(&client), Arc::clone(&order));
        move || {
            let lease = take(&lock);
            order.lock().push(name);
            lease.release().unwrap();
        }
    };
    let first = in_front(&server, wait("first"));
    let second = in_line(wait("second"));
    holder.release().unwrap();
    // It comes at any moment of the others' turns.
    wait("late")();
    first.value();
    second.value();
    assert_eq!(order.lock()[..2], ["first", "second"]);
}
