//! Replies that come too late, or after the wait for them was cancelled.

use std::thread;

use leasehold::{Canceller, Error, LeaseState};

use super::{KEY, assert_all_differ, ms};
use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::{acquisition, client_with, lock, records_set, take};

#[test]
fn a_confirmation_within_the_danger_margin_is_given_back_and_not_handed_out() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(2_000));
    // Valid for 988 ms, of which 800 are danger: 188 ms for the confirmation.
    let lock = client.lock(KEY).ttl(ms(1_000)).danger(ms(800));
    let lock = lock.without_renewal().build().unwrap();
    take(&lock).release().unwrap();
    proxy.delay_replies(ms(250));
    let error = lock.try_acquire().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert_eq!(server.get(KEY), None, "given back");
    // A compare-and-delete was sent for each, so that none may be set again.
    assert_all_differ(&records_set(&proxy.commands()));
    assert_eq!(client.stats().acquired, 1);
}

#[test]
fn a_confirmation_after_the_expiry_is_not_handed_out_and_takes_nothing_from_others() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let brief = patient(&proxy.url()).lock(KEY).ttl(ms(100));
    let brief = brief.without_renewal().build().unwrap();
    let held = proxy.hold_reply(Matcher::command("SET").once());
    let attempt = thread::spawn(move || brief.try_acquire());
    held.wait();
    eventually("the record expires", PATIENCE, || server.get(KEY).is_none());
    let other = take(&lock(&server.url(), KEY));
    held.deliver();
    let outcome = attempt.join().unwrap();
    assert!(
        matches!(&outcome, Ok(None)) || outcome.as_ref().is_err_and(Error::is_unavailable),
        "{outcome:?}"
    );
    assert_eq!(server.get(KEY).as_deref(), Some(other.token().expose()));
    other.release().unwrap();
}

#[test]
fn a_lease_never_outlives_its_record_whatever_delays_the_reply() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let lock = client.lock(KEY).ttl(ms(2_000)).danger(ms(1));
    let lock = lock.without_renewal().build().unwrap();
    let held = proxy.hold_reply(Matcher::command("SET").once());
    let attempt = thread::spawn(move || lock.try_acquire());
    held.wait();
    // The reply is late.
    eventually("time passes", PATIENCE, || server.pttl(KEY) < 1_700);
    held.deliver();
    let lease = attempt.join().unwrap().unwrap().expect("it is free");
    eventually("the record expires", PATIENCE, || {
        let is_gone = server.get(KEY).is_none();
        let is_lost = lease.state() == LeaseState::Lost;
        assert!(is_lost || !is_gone, "it counts from before the command");
        is_gone
    });
}

#[test]
fn a_cancelled_wait_that_had_just_taken_the_lock_gives_it_back() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = lock(&proxy.url(), KEY);
    let canceller = Canceller::new();
    let held = proxy.hold_reply(acquisition());
    let attempt = thread::spawn({
        let canceller = canceller.clone();
        move || lock.acquire_cancellable(None, &canceller)
    });
    held.wait();
    canceller.cancel();
    held.deliver();
    assert!(attempt.join().unwrap().unwrap().is_none());
    assert_eq!(server.get(KEY), None);
    assert_eq!(records_set(&proxy.commands()).len(), 1);
}
