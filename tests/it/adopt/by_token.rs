//! A lock that is released by its token alone, by whoever has it.

use std::time::Duration;

use leasehold::Token;

use super::{KEY, client, lock};
use crate::support::{Matcher, Monitor, PATIENCE, Proxy, Server, eventually, within};
use crate::wire::{SLACK, assert_nothing_unconditional};

/// A token that no record was ever set with.
fn nobodys() -> Token {
    "0123456789abcdef0123456789abcdef01234567".parse().unwrap()
}

#[test]
fn the_token_of_a_lock_releases_it_whoever_took_it() {
    let server = Server::start();
    for label in [None, Some("host a")] {
        let mut given = client(&server.url()).lock(KEY);
        if let Some(label) = label {
            given = given.label(label);
        }
        let token = given.build().unwrap().acquire().unwrap().detach();
        // By its text alone, from a handle that knows of no label.
        let text = token.expose().to_owned();
        let monitor = Monitor::on(&server);
        lock(&server.url()).release(text.parse().unwrap()).unwrap();
        assert_eq!(server.get(KEY), None);
        assert_nothing_unconditional(&monitor.commands());
        // It is no use a second time.
        let error = lock(&server.url()).release(token).unwrap_err();
        assert!(error.is_lost(), "{error:?}");
    }
}

#[test]
fn a_token_that_is_not_the_locks_releases_nothing() {
    let server = Server::start();
    let labelled = client(&server.url()).lock(KEY).label("host a");
    let token = labelled.build().unwrap().acquire().unwrap().detach();
    let (bare, _) = token.expose().split_once(' ').unwrap();
    let lock = lock(&server.url());
    for given in [nobodys(), bare.parse().unwrap()] {
        let error = lock.release(given).unwrap_err();
        assert!(error.is_lost() && !error.is_unknown(), "{error:?}");
        assert_eq!(error.key(), Some(KEY));
        assert_eq!(server.get(KEY).as_deref(), Some(token.expose()));
        assert!(20_000 < server.pttl(KEY));
    }
    server.cmd(&["DEL", KEY]);
    assert!(lock.release(nobodys()).unwrap_err().is_lost());
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_lease_that_was_released_by_its_token_finds_it_lost() {
    let server = Server::start();
    let lease = lock(&server.url()).acquire().unwrap();
    lock(&server.url()).release(lease.token().clone()).unwrap();
    assert!(lease.verify().unwrap_err().is_lost());
    assert!(lease.release().unwrap_err().is_lost());
}

#[test]
fn a_replica_does_not_say_that_a_token_is_not_the_locks() {
    let server = Server::start();
    let token = lock(&server.url()).acquire().unwrap().detach();
    let lock = lock(&server.url());
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    for given in [nobodys(), token.clone()] {
        let error = lock.release(given).unwrap_err();
        assert!(error.is_unknown() && !error.is_lost(), "{error:?}");
        assert_eq!(error.may_hold_until(), None, "its ttl is not known");
    }
    assert_eq!(server.get(KEY).as_deref(), Some(token.expose()));
    server.cmd(&["REPLICAOF", "NO", "ONE"]);
    // What could not be settled is not forgotten.
    eventually("it is released", PATIENCE, || server.get(KEY).is_none());
    assert!(lock.release(nobodys()).unwrap_err().is_lost());
}

#[test]
fn without_the_right_to_role_a_token_is_not_said_to_be_not_the_locks() {
    let user = "user app on >secret ~order:* +set +eval +evalsha +get +del +pexpire +pttl";
    let server = Server::with(&[user]);
    let lock = lock(&server.url_as("app", "secret"));
    server.cmd(&["SET", KEY, "theirs"]);
    let error = lock.release(nobodys()).unwrap_err();
    assert!(error.is_unknown() && !error.is_lost(), "{error:?}");
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
    server.cmd(&["DEL", KEY]);
    // What is found and deleted needs no proof.
    let token = lock.acquire().unwrap().detach();
    lock.release(token).unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_release_by_token_that_never_arrived_is_sent_again() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let token = lock(&server.url()).acquire().unwrap().detach();
    let far = client(&proxy.url());
    let held = proxy.hold(Matcher::evalsha().once());
    far.lock(KEY).build().unwrap().release(token).unwrap();
    assert_eq!(server.get(KEY), None);
    assert_eq!(far.stats().unknown_resolved, 1);
    assert!(!held.deliver(), "the server has ended that connection");
}

#[test]
fn a_release_by_token_whose_reply_is_lost_is_unknown_for_nobody_knows_whose_the_lock_was() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let token = lock(&server.url()).acquire().unwrap().detach();
    proxy.drop_reply(Matcher::evalsha().once());
    let error = lock(&proxy.url()).release(token).unwrap_err();
    assert!(error.is_unknown() && !error.is_lost(), "{error:?}");
    assert_eq!(error.may_hold_until(), None);
    assert_eq!(server.get(KEY), None, "it had done its work");
}

#[test]
fn a_release_by_token_from_a_server_that_is_away_or_refuses_says_so_in_its_time() {
    let server = Server::with(&["user guest on >secret ~* +@connection"]);
    let guest = lock(&server.url_as("guest", "secret"));
    let error = guest.release(nobodys()).unwrap_err();
    assert!(error.is_refused(), "{error:?}");
    let lock = lock(&server.url());
    server.kill();
    // One connect timeout and two command timeouts, and what a starved machine takes.
    let bound = Duration::from_millis(1_000 + 2 * 300) + SLACK;
    let error = within(bound, move || lock.release(nobodys())).unwrap_err();
    assert!(error.is_unknown() && !error.is_lost(), "{error:?}");
}
