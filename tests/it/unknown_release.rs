//! Releases whose outcome does not come back.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LeaseState};

use crate::support::{Held, Matcher, PATIENCE, Proxy, Server, eventually, logs, within};
use crate::wire::{SLACK, assert_nothing_unconditional, client_with, lock, settling, take};

const KEY: &str = "order:1";

/// The timeouts of the clients here that run into their bounds.
const SHORT: Duration = Duration::from_millis(250);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// τ + connect timeout + 2 × command timeout.
fn bound_of_release(ttl: Duration) -> Duration {
    SHORT.min(ttl / 10) + SHORT + SHORT * 2
}

/// A lease of a client with short timeouts.
fn lease_for(url: &str, ttl: Duration) -> Lease {
    let lock = client_with(url, SHORT).lock(KEY).ttl(ttl);
    take(&lock.build().unwrap())
}

/// A lease of a client that soon gives a reply up for lost, and settles it.
fn settling_lease(url: &str) -> Lease {
    take(&settling(url).lock(KEY).build().unwrap())
}

/// The release is back within its bound and not settled; the last instant at which the record can
/// stand.
#[track_caller]
fn assert_unknown_within(bound: Duration, lease: Lease) -> Instant {
    let error = within(bound + SLACK, move || lease.release()).unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(!error.is_lost() && !error.is_unavailable(), "{error:?}");
    assert_eq!(error.key(), Some(KEY));
    error.may_hold_until().expect("a release has a bound")
}

/// Until the record is gone: nobody sees it later than `last`.
#[track_caller]
fn watch_the_record_until_it_is_gone(server: &Server, last: Instant) {
    eventually("the record is gone", PATIENCE, || {
        let asked = Instant::now();
        let stands = server.get(KEY).is_some();
        assert!(!stands || asked <= last, "it stands after `may_hold_until`");
        !stands
    });
}

#[test]
fn a_lost_reply_to_a_release_is_settled() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = settling(&proxy.url());
    let lock = client.lock(KEY).build().unwrap();
    proxy.drop_reply(Matcher::evalsha().nth(1));
    proxy.reset_after(Matcher::evalsha().nth(3));
    for resolved in 1..=2 {
        let lease = take(&lock);
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
        let stats = client.stats();
        assert_eq!((stats.released, stats.lost), (resolved, 0));
        assert_eq!(
            (stats.unknown_resolved, stats.unknown_unresolved),
            (resolved, 0)
        );
        assert_eq!(proxy.count("EVALSHA") as u64, 2 * resolved);
    }
    assert_nothing_unconditional(&proxy.commands());
}

#[test]
fn a_lost_reply_to_a_drop_is_settled_and_nothing_is_logged_as_a_warning() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let mark = logs::mark();
    let key = "unknown_release:drop";
    let lease = take(&settling(&proxy.url()).lock(key).build().unwrap());
    proxy.drop_reply(Matcher::evalsha().once());
    drop(lease);
    assert_eq!(server.get(key), None);
    let said = logs::containing(mark, key);
    assert!(
        said.iter().all(|line| log::Level::Warn < line.level),
        "{said:?}"
    );
}

/// A release whose first reply is lost, stopped before it opens the link to settle it on.
fn release_about_to_settle(
    proxy: &Proxy,
    lease: Lease,
) -> (Held, thread::JoinHandle<Result<(), Error>>) {
    proxy.drop_reply(Matcher::evalsha().once());
    let handshake = proxy.hold(Matcher::command("CLIENT INFO").once());
    let release = thread::spawn(move || lease.release());
    handshake.wait();
    (handshake, release)
}

#[test]
fn a_lost_reply_to_a_release_is_settled_though_another_holds_the_lock_by_then() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock_of_others = lock(&server.url(), KEY);
    let lease = settling_lease(&proxy.url());
    let (handshake, release) = release_about_to_settle(&proxy, lease);
    let other = take(&lock_of_others);
    handshake.send();
    release.join().unwrap().unwrap();
    assert_eq!(server.get(KEY).as_deref(), Some(other.token().expose()));
    assert!(20_000 < server.pttl(KEY));
    other.release().unwrap();
}

#[test]
fn a_server_that_was_started_anew_proves_nothing_by_what_it_does_not_have() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lease = settling_lease(&proxy.url());
    let held = proxy.hold(Matcher::evalsha().once());
    let release = thread::spawn(move || lease.release());
    held.wait();
    // It has lost the record, and might have another time come back with it.
    server.restart();
    let error = release.join().unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
}

#[test]
fn after_the_deadline_a_lost_reply_proves_nothing_any_more() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = settling(&proxy.url()).lock(KEY).ttl(ms(2_000));
    let lock = lock.without_renewal().build().unwrap();
    let overdue = || {
        let lease = take(&lock);
        eventually("the deadline is near", PATIENCE, || {
            lease.remaining() < ms(500)
        });
        // The server has prolonged the record, and the holder does not know: it stands longer
        // than the lease, so that there is something to be released.
        let unconfirmed = proxy.drop_reply(Matcher::evalsha());
        lease.renew().unwrap_err();
        unconfirmed.end();
        eventually("the deadline passes", PATIENCE, || {
            lease.state() == LeaseState::Lost
        });
        assert!(server.get(KEY).is_some());
        lease
    };
    let lease = overdue();
    proxy.drop_reply(Matcher::evalsha().once());
    // Gone by our hand, or expired before and taken by others: nobody can tell.
    let error = lease.release().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_eq!(server.get(KEY), None);
    // Without a lost reply there is nothing to doubt.
    overdue().release().unwrap();
}

#[test]
fn a_release_from_a_stopped_server_is_unknown_within_the_bound() {
    let server = Server::start();
    let ttl = ms(30_000);
    let lease = lease_for(&server.url(), ttl);
    let held_until = Instant::now() + lease.remaining();
    server.stop();
    let last = assert_unknown_within(bound_of_release(ttl), lease);
    assert!(held_until < last, "the server's expiry is later than ours");
    server.cont();
    // The release was on its way all the time.
    watch_the_record_until_it_is_gone(&server, last);
}

#[test]
fn a_drop_from_a_stopped_server_is_back_within_the_bound_and_says_so() {
    let server = Server::start();
    let (ttl, mark, key) = (ms(30_000), logs::mark(), "unknown_release:stopped");
    let lock = client_with(&server.url(), SHORT).lock(key).ttl(ttl);
    let lease = take(&lock.build().unwrap());
    server.stop();
    within(bound_of_release(ttl) + SLACK, move || drop(lease));
    server.cont();
    let said = logs::containing(mark, key);
    assert!(
        said.iter().any(|line| line.level == log::Level::Warn),
        "{said:?}"
    );
}

#[test]
fn a_drop_from_a_silent_server_is_back_within_the_bound() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let ttl = ms(30_000);
    let lease = lease_for(&proxy.url(), ttl);
    proxy.swallow_everything();
    within(bound_of_release(ttl) + SLACK, move || drop(lease));
    assert!(server.get(KEY).is_some());
}

#[test]
fn the_record_of_an_unknown_release_stands_no_longer_than_it_says() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let ttl = ms(3_000);
    let lease = lease_for(&proxy.url(), ttl);
    let latest = Instant::now() + ttl * 2;
    proxy.swallow_everything();
    let last = assert_unknown_within(bound_of_release(ttl), lease);
    assert!(last < latest, "a bound, and not any instant");
    assert!(server.get(KEY).is_some(), "nothing has reached it");
    watch_the_record_until_it_is_gone(&server, last);
}

#[test]
fn a_renewal_that_lands_after_the_release_is_covered_by_what_it_says() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let ttl = ms(1_700);
    let lease = lease_for(&proxy.url(), ttl);
    let renewal = proxy.hold(Matcher::evalsha().once());
    proxy.swallow(Matcher::evalsha());
    let error = lease.renew().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert_eq!(lease.state(), LeaseState::Held);
    let last = assert_unknown_within(bound_of_release(ttl), lease);
    // Now it lands, as late as it can and still finds the record.
    eventually("the record is about to expire", PATIENCE, || {
        server.pttl(KEY) < 100
    });
    assert!(renewal.deliver());
    watch_the_record_until_it_is_gone(&server, last);
}

#[test]
fn a_renewal_that_was_to_settle_the_acquisition_and_lands_late_is_covered_too() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let timeout = ms(100);
    let lock = client_with(&proxy.url(), timeout).lock(KEY).ttl(ms(1_500));
    let lock = lock.build().unwrap();
    proxy.drop_reply(Matcher::command("SET").once());
    let renewal = proxy.hold(Matcher::evalsha().once());
    let lease = take(&lock);
    proxy.swallow(Matcher::evalsha());
    let last = assert_unknown_within(timeout * 4, lease);
    eventually("the record is about to expire", PATIENCE, || {
        server.pttl(KEY) < 100
    });
    assert!(renewal.deliver());
    watch_the_record_until_it_is_gone(&server, last);
}

#[test]
fn a_held_release_never_runs_once_it_is_fenced_off() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lease = settling_lease(&proxy.url());
    let held = proxy.hold(Matcher::evalsha().once());
    lease.release().unwrap();
    assert_eq!(proxy.count("CLIENT KILL"), 1);
    let other = take(&lock(&server.url(), KEY));
    assert!(!held.deliver(), "the server ran it");
    assert_eq!(server.get(KEY).as_deref(), Some(other.token().expose()));
    assert_nothing_unconditional(&proxy.commands());
}

#[test]
fn a_held_release_that_lands_late_deletes_nothing_foreign() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    let lease = settling_lease(&proxy.url());
    let held = proxy.hold(Matcher::evalsha().once());
    lease.release().unwrap();
    let other = take(&lock(&server.url(), KEY));
    assert!(held.deliver(), "there was no barrier");
    assert_eq!(server.get(KEY).as_deref(), Some(other.token().expose()));
    assert!(20_000 < server.pttl(KEY));
    other.release().unwrap();
}

#[test]
fn a_release_through_refused_connections_is_unknown_within_the_bound() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let ttl = ms(2_000);
    let lease = lease_for(&proxy.url(), ttl);
    proxy.refuse_connections();
    proxy.reset_all();
    let last = assert_unknown_within(bound_of_release(ttl), lease);
    watch_the_record_until_it_is_gone(&server, last);
}

#[test]
fn a_release_outlives_a_short_outage() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lease = take(&lock(&proxy.url(), KEY));
    proxy.refuse_connections();
    proxy.reset_all();
    let release = thread::spawn(move || lease.release());
    proxy.heal();
    release.join().unwrap().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_release_that_the_server_does_not_run_is_tried_again() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = lock(&proxy.url(), KEY);
    for reply in [
        "-BUSY later\r\n",
        "-LOADING later\r\n",
        "-NOREPLICAS no\r\n",
    ] {
        let lease = take(&lock);
        proxy.answer(Matcher::evalsha().first(2), reply);
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
    }
}

#[test]
fn an_unknown_release_whose_right_is_taken_away_stays_unknown() {
    let user = "user app on >secret ~order:* +set +eval +evalsha +get +del +pexpire +pttl +role";
    let server = Server::with(&[user]);
    let proxy = Proxy::to(&server);
    let lease = settling_lease(&proxy.url_as("app", "secret"));
    proxy.swallow(Matcher::evalsha().once());
    server.cmd(&["ACL", "SETUSER", "app", "-evalsha", "-eval"]);
    let error = lease.release().unwrap_err();
    assert!(error.is_unknown(), "it may have run before: {error:?}");
    assert!(error.may_hold_until().is_some());
}
