//! Which lease needs which threads.

use leasehold::LockBuilder;

use super::{CALL, LINK, RENEW, WATCH, alone, count, names, threads};
use crate::danger::{Gate, OpenedAtLast, block, ms};
use crate::links::patient;
use crate::support::{PATIENCE, Server, eventually};
use crate::wire::take;

#[test]
fn a_client_has_no_thread_before_a_lease_needs_it_and_then_those_it_needs() {
    alone(&[], || {
        let server = Server::start();
        type Options = fn(LockBuilder) -> LockBuilder;
        let cases: [(Options, &[&str]); 6] = [
            (|lock| lock.without_renewal(), &[]),
            (|lock| lock, &[RENEW]),
            (|lock| lock.without_renewal().max_hold(ms(50_000)), &[RENEW]),
            (
                |lock| lock.without_renewal().on_danger(|_| {}),
                &[CALL, WATCH],
            ),
            (
                |lock| lock.without_renewal().on_lost(|_| {}),
                &[CALL, WATCH],
            ),
            (|lock| lock.on_danger(|_| {}), &[CALL, RENEW, WATCH]),
        ];
        for (case, (options, expected)) in cases.into_iter().enumerate() {
            let client = patient(&server.url());
            client.ping().unwrap();
            let lock = options(client.lock("order:1").ttl(ms(60_000)));
            let lock = lock.build().unwrap();
            assert_eq!(names(), Vec::<String>::new(), "{case}: nothing is held yet");
            let lease = take(&lock);
            // A thread has its starter's name until it gives itself its own.
            eventually(&format!("{case}: {expected:?}"), PATIENCE, || {
                names() == expected
            });
            lease.release().unwrap();
            drop((lock, client));
            eventually("all have ended", PATIENCE, || names().is_empty());
        }
    });
}

#[test]
fn a_lone_holders_cycles_start_no_thread_beyond_the_first_of_each_kind() {
    alone(&[], || {
        let server = Server::start();
        let client = patient(&server.url());
        let lock = client.lock("order:1").on_danger(|_| {}).on_lost(|_| {});
        let lock = lock.build().unwrap();
        take(&lock).release().unwrap();
        eventually("all have their names", PATIENCE, || {
            names() == [CALL, RENEW, WATCH]
        });
        let first = threads();
        for cycle in 0..1_000 {
            let lease = take(&lock);
            assert_eq!(threads(), first, "in cycle {cycle}");
            lease.release().unwrap();
            assert_eq!(threads(), first, "after cycle {cycle}");
        }
    });
}

#[test]
fn many_leases_share_one_thread_that_renews_and_one_that_watches() {
    alone(&[], || {
        let server = Server::start();
        let client = patient(&server.url());
        let leases: Vec<_> = (0..300)
            .map(|own| {
                let lock = client.lock(format!("order:{own}")).ttl(ms(6_000));
                take(&lock.renew_every(ms(1_000)).on_lost(|_| {}).build().unwrap())
            })
            .collect();
        eventually("all have been renewed", PATIENCE, || {
            300 <= client.stats().renewals_ok
        });
        eventually("nobody opens a link any more", PATIENCE, || {
            !names().iter().any(|name| name == LINK)
        });
        assert_eq!(names(), [CALL, RENEW, WATCH]);
        drop(leases);
    });
}

#[test]
fn a_second_callback_thread_comes_when_the_first_is_busy_and_not_before() {
    alone(&[], || {
        let server = Server::start();
        let client = patient(&server.url());
        let gate = Gate::default();
        let _opened = OpenedAtLast(gate.clone());
        let mut leases = Vec::new();
        for busy in 1..=3 {
            leases.extend(block(&client, 1, &gate));
            assert_eq!(count(CALL), busy, "one for each that blocks");
        }
        gate.open();
        drop(leases);
    });
}
