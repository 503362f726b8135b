//! While no server is in reach, or one that does not answer.

use std::time::{Duration, Instant};

use leasehold::Client;

use super::{Aside, SLACK, lock, wait_until_waiting};
use crate::bad_input::said;
use crate::links::{HASTE, hasty, patient};
use crate::support::{PATIENCE, Proxy, Server, eventually};

#[test]
fn a_wait_with_a_budget_goes_on_until_the_server_is_back() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.refuse_connections();
    let client = patient(&proxy.url());
    let lock = lock(&client);
    let waiter = Aside::start(move || lock.acquire_timeout(Duration::from_secs(60)));
    // Nothing tells from outside that it has tried; the port must stay closed for a while.
    let closed_until = Instant::now() + Duration::from_millis(100);
    eventually("the port was closed for a while", PATIENCE, || {
        closed_until < Instant::now()
    });
    proxy.heal();
    waiter.value().unwrap().release().unwrap();
}

#[test]
fn an_outage_that_outlasts_the_budget_is_unavailable_and_not_before_its_end() {
    let server = Server::start();
    server.kill();
    let client = hasty(&server.url());
    let lock = lock(&client);
    let budget = Duration::from_millis(300);
    let start = Instant::now();
    let error = lock.acquire_timeout(budget).unwrap_err();
    let took = start.elapsed();
    assert!(error.is_unavailable() && !error.is_timeout(), "{error:?}");
    said(&error);
    let most = budget + HASTE + SLACK;
    assert!(budget <= took && took < most, "{took:?}");
    assert_eq!(client.stats().timed_out, 0);
}

#[test]
fn a_server_that_hangs_does_not_carry_a_wait_past_its_budget() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    // A link that is open, and one that would have to be opened with all the time it wants.
    for ping in [true, false] {
        let client = Client::builder(&proxy.url())
            .connect_timeout(2 * PATIENCE)
            .command_timeout(HASTE)
            .build()
            .unwrap();
        if ping {
            client.ping().unwrap();
        }
        proxy.swallow_everything();
        let lock = lock(&client);
        let budget = Duration::from_millis(300);
        let start = Instant::now();
        let error = lock.acquire_timeout(budget).unwrap_err();
        let took = start.elapsed();
        // Sent and not answered, or not even sent.
        assert!(
            error.is_unknown() == ping && error.is_unavailable() != ping,
            "{error:?}"
        );
        assert_eq!(error.may_hold_until(), None);
        said(&error);
        let most = budget + HASTE + SLACK;
        assert!(budget <= took && took < most, "{took:?}");
        proxy.heal();
    }
}

#[test]
fn a_wait_without_a_budget_does_not_wait_for_a_server_that_is_away() {
    let server = Server::start();
    server.kill();
    let start = Instant::now();
    let error = lock(&patient(&server.url())).acquire().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
}

/// A command was under way when the server went: that is settled for a while before the
/// wait ends.
#[test]
fn a_waiter_whose_server_goes_away_is_told_so_in_the_time_of_one_attempt() {
    let server = Server::start();
    server.cmd(&["SET", "order:1", "a foreign client's"]);
    let client = hasty(&server.url());
    let lock = lock(&client);
    let waiter = Aside::start(move || lock.acquire());
    wait_until_waiting(&client);
    let start = Instant::now();
    server.kill();
    let error = waiter.value().unwrap_err();
    assert!(error.is_unavailable() || error.is_unknown(), "{error:?}");
    let most = 4 * HASTE + SLACK;
    assert!(start.elapsed() < most, "{:?}", start.elapsed());
}
