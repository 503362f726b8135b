//! Confirmations that come after the deadline: they revive nothing. Those that come late but
//! before it count.

use std::thread;
use std::time::Instant;

use leasehold::{LeaseState, LossCause};

use super::{KEY, Told, loss_heard, ms, renewal, renewal_of, telling, throughout};
use crate::links::patient;
use crate::support::{Held, PATIENCE, Proxy, Server, eventually};
use crate::wire::{client_with, take};

/// Lets everything that is held go on.
fn deliver_all(held: &Held) {
    held.end();
    while 0 < held.count() {
        assert!(held.deliver());
    }
}

#[test]
fn confirmations_that_are_delivered_after_the_deadline_revive_nothing() {
    thread::scope(|scope| {
        // Whether somebody has seen the deadline pass before they come, or they come first.
        for is_seen_first in [true, false] {
            scope.spawn(move || revive_nothing(is_seen_first));
        }
    });
}

fn revive_nothing(is_seen_first: bool) {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    // An attempt waits for 300 ms, so that the last one is on its way at the deadline.
    let lock = client.lock(KEY).ttl(ms(3_000)).danger(ms(500));
    let lock = lock.renew_every(ms(600)).build().unwrap();
    let lease = take(&lock);
    let held = proxy.hold_reply(renewal_of(&lease));
    let deadline = Instant::now() + lease.remaining();
    held.wait();
    eventually("the deadline passes", PATIENCE, || {
        deadline < Instant::now() && (!is_seen_first || lease.state() == LeaseState::Lost)
    });
    assert!(1 < held.count(), "the server has confirmed renewals");
    assert!(0 < server.pttl(KEY), "and the record stands");
    deliver_all(&held);
    throughout(ms(400), || {
        assert_eq!(lease.state(), LeaseState::Lost);
        assert!(lease.remaining().is_zero());
    });
    let stats = client.stats();
    assert_eq!((stats.renewals_ok, stats.lost), (0, 1), "{stats:?}");
    assert!(lease.check().unwrap_err().is_lost());
    assert!(lease.renew().unwrap_err().is_lost());
    // It was ours to the end, and is given back.
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
    assert_eq!(client.stats().lost, 1);
}

#[test]
fn a_lost_lease_is_not_renewed_any_more() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    let (lock, heard) = telling(client.lock(KEY).ttl(ms(600)));
    let lease = take(&lock.build().unwrap());
    // Somebody prolongs the record by hand: a renewal would be confirmed.
    server.cmd(&["PEXPIRE", KEY, "60000"]);
    let refused = proxy.answer(renewal(), "-BUSY not now\r\n");
    assert_eq!(loss_heard(&heard), LossCause::Expired);
    refused.end();
    let hits = refused.hits();
    assert!(1 < hits);
    let sent = proxy.commands().len();
    throughout(ms(500), || assert_eq!(lease.state(), LeaseState::Lost));
    // One may have been on its way.
    assert!(proxy.commands().len() <= sent + 1);
    lease.release().unwrap();
}

#[test]
fn a_confirmation_that_comes_late_but_before_the_deadline_counts() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    // An attempt waits for 300 ms, a link for as long as it takes.
    let client = patient(&proxy.url());
    let (lock, heard) = telling(client.lock(KEY).ttl(ms(3_000)).danger(ms(300)));
    let lease = take(&lock.renew_every(ms(600)).build().unwrap());
    let held = proxy.hold_reply(renewal_of(&lease).once());
    // All that come behind it are not answered at all.
    let swallowed = proxy.swallow(renewal_of(&lease));
    held.wait();
    eventually("the attempt has had its time", PATIENCE, || {
        0 < client.stats().renewals_failed
    });
    let before = lease.remaining();
    assert!(held.deliver());
    eventually("the late answer is taken", ms(1_000), || {
        before < lease.remaining()
    });
    let stats = client.stats();
    assert_eq!(stats.renewals_ok, 0, "it was counted as one that failed");
    swallowed.end();
    eventually("it is renewed again", PATIENCE, || {
        assert!(lease.is_held());
        1 < client.stats().renewals_ok
    });
    lease.release().unwrap();
    assert!(!heard.try_iter().any(|told| matches!(told, Told::Lost(_))));
}
