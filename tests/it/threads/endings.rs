//! Until when the threads are there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{Client, Lease};
use parking_lot::Mutex;

use super::{CALL, LINGER, LINK, RENEW, SLACK, WATCH, alone, count, names, threads};
use crate::danger::{Gate, OpenedAtLast, block, ms};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::{client_with, take};

/// A lease that needs a thread of each kind, for which they are there.
fn with_all_threads(client: &Client, key: &str) -> Lease {
    let lock = client.lock(key).on_danger(|_| {}).on_lost(|_| {});
    let lease = take(&lock.build().unwrap());
    eventually("all are there", PATIENCE, || {
        names() == [CALL, RENEW, WATCH]
    });
    lease
}

/// Waits until there are none, and returns how long that took.
#[track_caller]
fn until_all_have_ended() -> Duration {
    let begun = Instant::now();
    eventually("all have ended", PATIENCE, || names().is_empty());
    begun.elapsed()
}

#[test]
fn the_threads_stay_for_two_seconds_after_the_last_lease_and_come_back_for_the_next() {
    alone(&[], || {
        let server = Server::start();
        let client = patient(&server.url());
        let lease = with_all_threads(&client, "order:1");
        let begun = Instant::now();
        lease.release().unwrap();
        let released = Instant::now();
        until_all_have_ended();
        let (most, least) = (begun.elapsed(), released.elapsed());
        assert!(LINGER <= most, "a cycle now and then starts none: {most:?}");
        assert!(least < LINGER + SLACK, "{least:?}");

        let lock = client.lock("order:2").ttl(ms(300)).on_lost(|_| {});
        let lease = take(&lock.build().unwrap());
        let renewals = client.stats().renewals_ok;
        eventually("the next lease is renewed", PATIENCE, || {
            renewals + 3 < client.stats().renewals_ok
        });
        lease.check().unwrap();
        lease.release().unwrap();
    });
}

#[test]
fn the_threads_stay_for_as_long_as_a_lease_does_though_nothing_is_due() {
    alone(&[], || {
        let server = Server::start();
        let client = patient(&server.url());
        let first = with_all_threads(&client, "order:1");
        let before = threads();
        let second = with_all_threads(&client, "order:2");
        second.release().unwrap();
        let end = Instant::now() + LINGER + SLACK;
        eventually("more than the time to linger", PATIENCE, || {
            assert_eq!(threads(), before);
            end < Instant::now()
        });
        first.release().unwrap();
    });
}

#[test]
fn the_threads_end_at_once_with_the_last_client_and_lease_in_whatever_order_these_go() {
    alone(&[], || {
        let server = Server::start();
        for lease_first in [true, false] {
            let client = patient(&server.url());
            let lease = with_all_threads(&client, "order:1");
            if lease_first {
                drop(lease);
                assert_eq!(names(), [CALL, RENEW, WATCH], "they linger");
                drop(client);
            } else {
                drop(client);
                assert_eq!(names(), [CALL, RENEW, WATCH], "a lease is held");
                lease.check().unwrap();
                drop(lease);
            }
            let took = until_all_have_ended();
            assert!(took < SLACK, "{took:?}");
        }
    });
}

#[test]
fn the_threads_end_at_once_though_the_server_is_silent_and_the_opener_within_its_timeout() {
    alone(&[], || {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = client_with(&proxy.url(), ms(1_500));
        let lock = client.lock("order:1").ttl(ms(300)).on_danger(|_| {});
        let lock = lock.build().unwrap();
        let lease = take(&lock);
        proxy.swallow_everything();
        eventually("a link is being opened", PATIENCE, || 0 < count(LINK));
        eventually("it is lost", PATIENCE, || !lease.is_held());
        // Not dropped, which would take the time of a release.
        drop((lease.detach(), lock, client));
        let begun = Instant::now();
        eventually("only openers are left", PATIENCE, || {
            names().iter().all(|name| name == LINK)
        });
        let took = begun.elapsed();
        assert!(took < SLACK, "{took:?}");
        until_all_have_ended();
        let took = begun.elapsed();
        assert!(took < ms(1_500) + SLACK, "{took:?}");
    });
}

#[test]
fn a_callback_that_drops_the_last_client_ends_the_threads_and_its_own() {
    alone(&[], || {
        let server = Server::start();
        for of_danger in [true, false] {
            let client = patient(&server.url());
            let slot: Arc<Mutex<Option<(Client, Lease)>>> = Arc::default();
            let inner = Arc::clone(&slot);
            let act = move || {
                eventually("the client is there", PATIENCE, || inner.lock().is_some());
                let handles = inner.lock().take();
                drop(handles);
            };
            let lock = client.lock("order:1").danger(ms(400)).max_hold(ms(500));
            let lock = if of_danger {
                lock.on_danger(move |_| act())
            } else {
                lock.on_lost(move |_| act())
            };
            let lease = take(&lock.build().unwrap());
            *slot.lock() = Some((client, lease));
            eventually("the handles are taken", PATIENCE, || slot.lock().is_none());
            let took = until_all_have_ended();
            assert!(took < SLACK, "{took:?}");
            assert_eq!(server.get("order:1"), None, "it was released");
        }
    });
}

#[test]
fn a_callback_thread_that_is_blocked_when_the_client_goes_ends_with_its_callback() {
    alone(&[], || {
        let server = Server::start();
        let client = patient(&server.url());
        let gate = Gate::default();
        let opened = OpenedAtLast(gate.clone());
        drop(block(&client, 2, &gate));
        drop(client);
        eventually("the others have ended", PATIENCE, || {
            names() == [CALL, CALL]
        });
        opened.0.open();
        let took = until_all_have_ended();
        assert!(took < SLACK, "{took:?}");
    });
}
