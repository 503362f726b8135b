//! Whoever gives up passes its turn on, wherever it stands.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use leasehold::{Canceller, Client, Error, Lease, LeaseState};

use super::{in_front, in_line, lock, ms, somebody_else, wait_until_blocked};
use crate::links::patient;
use crate::support::{PATIENCE, Server};
use crate::waiting::Aside;
use crate::wire::take;

/// A wait that can be cancelled, with or without a deadline far away.
fn cancellable(
    client: &Client,
    canceller: &Canceller,
    has_deadline: bool,
) -> impl FnOnce() -> Result<Option<Lease>, Error> + Send + use<> {
    let (lock, canceller) = (lock(client), canceller.clone());
    let deadline = has_deadline.then(|| Instant::now() + 6 * PATIENCE);
    move || lock.acquire_cancellable(deadline, &canceller)
}

/// A wait that takes what comes.
fn patiently(client: &Client) -> impl FnOnce() -> Lease + Send + use<> {
    let lock = lock(client);
    move || take(&lock)
}

#[track_caller]
fn assert_gets_it(wait: Aside<Lease>) {
    let lease = wait.value();
    lease.verify().unwrap();
    lease.release().unwrap();
}

#[test]
fn one_at_the_server_whose_budget_ends_passes_its_turn() {
    let server = Server::start();
    let holder = somebody_else(&server);
    let client = patient(&server.url());
    let first = in_front(&server, {
        let lock = lock(&client);
        move || lock.acquire_timeout(ms(700))
    });
    let second = in_line(patiently(&client));
    let error = first.value().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    // Now the second one waits there, before the lock comes free.
    wait_until_blocked(&server, 1);
    holder.release().unwrap();
    assert_gets_it(second);
    assert_eq!(client.stats().timed_out, 1);
}

#[test]
fn one_at_the_server_that_is_cancelled_passes_its_turn() {
    let server = Server::start();
    for has_deadline in [false, true] {
        let holder = somebody_else(&server);
        let client = Client::builder(&server.url()).build().unwrap();
        let canceller = Canceller::new();
        let first = in_front(&server, cancellable(&client, &canceller, has_deadline));
        let second = in_line(patiently(&client));
        canceller.cancel();
        assert!(first.value().unwrap().is_none());
        wait_until_blocked(&server, 1);
        holder.release().unwrap();
        assert_gets_it(second);
    }
}

#[test]
fn one_in_memory_that_is_cancelled_ends_at_once() {
    let server = Server::start();
    let client = patient(&server.url());
    let mut took = Duration::ZERO;
    for round in 0..9 {
        let holder = take(&lock(&client));
        let cancellers = [(); 3].map(|()| Canceller::new());
        let mut waits: Vec<_> = cancellers
            .iter()
            .map(|canceller| in_line(cancellable(&client, canceller, round % 2 == 0)))
            .collect();
        let gone = round % 3;
        let begun = Instant::now();
        cancellers[gone].cancel();
        assert!(waits.remove(gone).value().unwrap().is_none());
        took += begun.elapsed();
        assert_eq!(holder.state(), LeaseState::Held);
        cancellers.iter().for_each(Canceller::cancel);
        for wait in waits {
            assert!(wait.value().unwrap().is_none());
        }
        holder.release().unwrap();
    }
    // Who is not told looks after a second.
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn of_three_in_memory_the_two_that_stay_get_the_lock_in_their_order() {
    let server = Server::start();
    let client = patient(&server.url());
    for gone in 0..3 {
        for by_budget in [false, true] {
            let holder = take(&lock(&client));
            let canceller = Canceller::new();
            let mut stay = Vec::new();
            let mut goes = None;
            for place in 0..3 {
                if place != gone {
                    stay.push(in_line(patiently(&client)));
                } else if by_budget {
                    let lock = lock(&client);
                    goes = Some(in_line(move || lock.acquire_timeout(ms(300)).map(Some)));
                } else {
                    goes = Some(in_line(cancellable(&client, &canceller, false)));
                }
            }
            canceller.cancel();
            match goes.unwrap().value() {
                Ok(lease) => assert!(lease.is_none() && !by_budget),
                Err(error) => assert!(error.is_timeout() && by_budget, "{error:?}"),
            }
            holder.verify().unwrap();
            holder.release().unwrap();
            // One after the other: the second can only come when the first has released.
            stay.into_iter().for_each(assert_gets_it);
        }
    }
}

#[test]
fn everybody_in_memory_is_cancelled_at_once_by_one_canceller() {
    let server = Server::start();
    let client = patient(&server.url());
    let holder = take(&lock(&client));
    let canceller = Canceller::new();
    let waits: Vec<_> = (0..50)
        .map(|_| in_line(cancellable(&client, &canceller, false)))
        .collect();
    canceller.cancel();
    for wait in waits {
        assert!(wait.value().unwrap().is_none());
    }
    let last = in_line(patiently(&client));
    holder.release().unwrap();
    assert_gets_it(last);
}

#[test]
fn a_holder_that_panics_leaves_the_lock_to_the_next() {
    let server = Server::start();
    let client = patient(&server.url());
    let holder = take(&lock(&client));
    let panicking: Vec<_> = (0..5)
        .map(|_| {
            let lock = lock(&client);
            in_line(move || {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    let _lease = take(&lock);
                    panic!("on purpose, under the lock");
                }));
                caught.is_err()
            })
        })
        .collect();
    let last = in_line(patiently(&client));
    let caught = catch_unwind(AssertUnwindSafe(move || {
        let _holder = holder;
        panic!("on purpose, with others waiting");
    }));
    assert!(caught.is_err());
    for thread in panicking {
        assert!(thread.value());
    }
    assert_gets_it(last);
    assert_eq!(client.stats().released, 7);
}

#[test]
fn a_crowd_that_gives_up_at_any_moment_leaves_nobody_behind() {
    let server = Server::start();
    let client = Client::builder(&server.url()).build().unwrap();
    let waits: Vec<_> = (0..24_u64)
        .map(|number| {
            let lock = lock(&client);
            Aside::start(move || {
                let mut taken = 0;
                for round in 0..30_u64 {
                    // From nothing at all to more than it takes.
                    let budget = Duration::from_micros((number * 7_919 + round * 104_729) % 20_000);
                    match lock.acquire_timeout(budget) {
                        Ok(lease) => {
                            taken += 1;
                            lease.release().unwrap();
                        }
                        Err(error) => {
                            let is_told = error.is_timeout() || error.is_unavailable();
                            assert!(is_told, "{error:?}");
                        }
                    }
                }
                taken
            })
        })
        .collect();
    let taken: u64 = waits.into_iter().map(Aside::value).sum();
    assert_eq!(server.get(super::KEY), None);
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.released), (taken, taken));
    assert_eq!((stats.lost, stats.unknown_unresolved), (0, 0));
    take(&lock(&client)).release().unwrap();
}
