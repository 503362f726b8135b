//! No server in reach.

use std::thread;
use std::time::Instant;

use leasehold::LeaseState;

use super::{BUDGET, KEY, assert_all_differ, for_each_of_the_family, ms};
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::{TIMEOUT, client_with, lock, records_set, take};

#[test]
fn a_refused_connection_is_unavailable_at_once_or_when_the_budget_ends() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.refuse_connections();
    for_each_of_the_family(|acquire| {
        let lock = lock(&proxy.url(), KEY);
        let begun = Instant::now();
        let error = acquire.call_in_vain(lock);
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(KEY), None));
        assert!(!acquire.has_budget || BUDGET <= begun.elapsed());
    });
}

#[test]
fn a_silent_server_is_unavailable_within_the_bound() {
    let server = Server::start();
    for_each_of_the_family(|acquire| {
        let proxy = Proxy::to(&server);
        proxy.swallow_everything();
        let lock = client_with(&proxy.url(), TIMEOUT).lock(KEY).build();
        let error = acquire.call_in_vain(lock.unwrap());
        // Nothing but the opening of a link was ever sent.
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!(records_set(&proxy.commands()), [""; 0]);
    });
}

#[test]
fn a_server_that_falls_silent_leaves_an_unknown_within_the_bound() {
    let server = Server::start();
    for_each_of_the_family(|acquire| {
        let proxy = Proxy::to(&server);
        let key = format!("order:{:?}", thread::current().id());
        let lock = client_with(&proxy.url(), TIMEOUT).lock(&*key).build();
        let lock = lock.unwrap();
        // The link is open.
        take(&lock).release().unwrap();
        proxy.swallow_everything();
        let error = acquire.call_in_vain(lock);
        assert!(error.is_unknown(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(&*key), None));
        assert_all_differ(&records_set(&proxy.commands()));
    });
}

#[test]
fn a_wait_with_a_budget_outlives_a_silence() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.swallow_everything();
    let lock = client_with(&proxy.url(), ms(150)).lock(KEY).build();
    let attempt = thread::spawn(move || lock.unwrap().acquire_timeout(PATIENCE));
    eventually("it has tried again and again", PATIENCE, || {
        3 <= proxy.connections()
    });
    proxy.heal();
    let lease = attempt.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
    assert_eq!(lease.state(), LeaseState::Held);
}

#[test]
fn a_wait_with_a_budget_outlives_the_restart_of_the_server() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    take(&lock).release().unwrap();
    server.kill();
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    server.restart();
    let lease = attempt.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}

#[test]
fn a_wait_with_a_budget_outlives_refused_connections() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.refuse_connections();
    let lock = lock(&proxy.url(), KEY);
    let error = lock.acquire_timeout(ms(50)).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
    proxy.heal();
    let lease = attempt.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}
