//! What those in line are told when the server goes away, or when their time is up.

use std::time::{Duration, Instant};

use leasehold::Client;

use super::{KEY, in_front, in_line, lock, ms, somebody_else};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, within};
use crate::waiting::Aside;
use crate::wire::take;

/// The timeouts of a client here.
const SHORT: Duration = Duration::from_millis(400);

fn client(proxy: &Proxy) -> Client {
    let client = Client::builder(&proxy.url()).connect_timeout(SHORT);
    client.command_timeout(SHORT).build().unwrap()
}

#[test]
fn those_who_do_not_wait_for_a_server_that_is_away_are_told_at_once() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let _holder = somebody_else(&server);
    let client = client(&proxy);
    let waits: Vec<_> = (0..25)
        .map(|number| {
            let lock = lock(&client);
            let work = move || lock.acquire();
            if number == 0 {
                in_front(&server, work)
            } else {
                in_line(work)
            }
        })
        .collect();
    proxy.swallow_everything();
    // One after the other it would be 25 × 400 ms for the connecting alone.
    within(Duration::from_secs(6), move || {
        for (number, wait) in waits.into_iter().enumerate() {
            let error = wait.value().unwrap_err();
            // What the one in front has sent into the silence nobody can know.
            let unknown = number == 0 && error.is_unknown();
            assert!(unknown || error.is_unavailable(), "{error:?}");
            assert_eq!(error.key(), Some(KEY));
        }
    });
}

#[test]
fn those_who_wait_for_the_server_go_on_and_get_the_lock_when_it_is_back() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let holder = somebody_else(&server);
    let client = client(&proxy);
    let patient = |client: &Client| {
        let lock = lock(client);
        move || take(&lock).release().unwrap()
    };
    let first = in_front(&server, patient(&client));
    let hasty = {
        let lock = lock(&client);
        in_line(move || lock.acquire().map(drop))
    };
    let second = in_line(patient(&client));
    proxy.refuse_connections();
    proxy.reset_all();
    let error = hasty.value().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    holder.release().unwrap();
    proxy.heal();
    first.value();
    second.value();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn everybody_whose_budget_ends_in_an_outage_says_unavailable() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let _holder = somebody_else(&server);
    let client = client(&proxy);
    let end = Instant::now() + ms(3_000);
    let waits: Vec<_> = (0..30)
        .map(|number| {
            let lock = lock(&client);
            let work = move || lock.acquire_deadline(end);
            // One is at the server and the others have sent nothing that could go unanswered.
            if number == 0 {
                in_front(&server, work)
            } else {
                in_line(work)
            }
        })
        .collect();
    proxy.refuse_connections();
    proxy.reset_all();
    for (number, wait) in waits.into_iter().enumerate() {
        let error = wait.value().unwrap_err();
        // On a slow machine it was just about to try again.
        let unknown = number == 0 && error.is_unknown();
        assert!(unknown || error.is_unavailable(), "{error:?}");
    }
    assert_eq!(client.stats().timed_out, 0);
}

#[test]
fn everybody_whose_budget_ends_while_it_is_held_says_timeout() {
    let server = Server::start();
    for here in [false, true] {
        let client = patient(&server.url());
        let holder = if here {
            take(&lock(&client))
        } else {
            somebody_else(&server)
        };
        let waits: Vec<_> = (0..20_u64)
            .map(|number| {
                let lock = lock(&client);
                Aside::start(move || {
                    let budget = ms(200 + 10 * number);
                    let begun = Instant::now();
                    (lock.acquire_timeout(budget), budget, begun.elapsed())
                })
            })
            .collect();
        for wait in waits {
            let (result, budget, took) = wait.value();
            let error = result.unwrap_err();
            assert!(error.is_timeout(), "{error:?}");
            assert!(budget <= took, "{took:?} of {budget:?}");
        }
        assert_eq!(client.stats().timed_out, 20);
        holder.release().unwrap();
    }
}

#[test]
fn a_holder_here_shields_those_behind_it_from_an_outage_that_passes() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client(&proxy);
    let holder = take(&lock(&client));
    let wait = {
        let lock = lock(&client);
        in_line(move || lock.acquire().map(|lease| lease.release()))
    };
    proxy.refuse_connections();
    proxy.reset_all();
    holder.renew().unwrap_err();
    proxy.heal();
    holder.release().unwrap();
    wait.value().unwrap().unwrap();
    assert!(
        PATIENCE < ms(30_000),
        "within the ttl nobody else was to be waited for"
    );
}
