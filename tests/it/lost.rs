//! Leases that come to their end: by the clock, by others, by the server's word.

mod renewal;
mod shown;

use std::thread;
use std::time::Duration;

use leasehold::{Client, Lease, LeaseState, LockBuilder};

use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually, logs};
use crate::wire::{lock, take};

const KEY: &str = "order:1";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A lock without renewal, for leases that end soon.
fn brief(client: &Client, key: &str, ttl: Duration) -> LockBuilder {
    client.lock(key).ttl(ttl).without_renewal()
}

/// A lease that has expired while another acquisition holds the lock; and that one.
fn expired_and_retaken(server: &Server, key: &str, seen_to_expire: bool) -> (Lease, Lease) {
    let old = take(&brief(&patient(&server.url()), key, ms(30)).build().unwrap());
    eventually("the old record expires", PATIENCE, || {
        server.get(key).is_none()
    });
    if seen_to_expire {
        assert_eq!(old.state(), LeaseState::Lost);
    }
    (old, take(&lock(&server.url(), key)))
}

#[test]
fn the_release_of_an_expired_and_retaken_lock_is_lost_and_the_new_record_stands() {
    let server = Server::start();
    for (key, seen_to_expire) in [("lost:unseen", false), ("lost:seen", true)] {
        let mark = logs::mark();
        let (old, new) = expired_and_retaken(&server, key, seen_to_expire);
        let error = old.release().unwrap_err();
        assert!(error.is_lost(), "{error:?}");
        assert_eq!((error.key(), error.may_hold_until()), (Some(key), None));
        assert_eq!(server.get(key).as_deref(), Some(new.token().expose()));
        assert!(20_000 < server.pttl(key));
        assert_eq!(new.state(), LeaseState::Held);
        the_log_says_once_that_it_is_lost(mark, key);
        new.release().unwrap();
    }
}

#[test]
fn the_drop_of_an_expired_and_retaken_lock_leaves_the_new_record_alone() {
    let server = Server::start();
    for (key, seen_to_expire) in [("lost:drop-unseen", false), ("lost:drop-seen", true)] {
        let mark = logs::mark();
        let (old, new) = expired_and_retaken(&server, key, seen_to_expire);
        drop(old);
        assert_eq!(server.get(key).as_deref(), Some(new.token().expose()));
        assert!(20_000 < server.pttl(key));
        the_log_says_once_that_it_is_lost(mark, key);
        new.release().unwrap();
    }
}

#[track_caller]
fn the_log_says_once_that_it_is_lost(mark: logs::Mark, key: &str) {
    let said = logs::containing(mark, &format!("`{key}`"));
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_eq!(said[0].level, log::Level::Warn);
    assert!(said[0].text.contains("lost"), "{said:?}");
}

#[test]
fn a_lease_goes_from_held_through_danger_to_lost_by_the_clock_alone() {
    let server = Server::start();
    let danger = ms(1_200);
    let lock = brief(&patient(&server.url()), KEY, ms(2_400)).danger(danger);
    let lease = take(&lock.build().unwrap());
    let watch = lease.watch();
    let mut seen = Vec::new();
    let mut last = Duration::MAX;
    eventually("the lease is lost", PATIENCE, || {
        // In this order: whoever finds the record gone finds the lease lost.
        let is_gone = server.get(KEY).is_none();
        let before = lease.remaining();
        let state = lease.state();
        let (check, is_held) = (lease.check(), lease.is_held());
        let (of_watch, check_of_watch) = (watch.state(), watch.check());
        let after = lease.remaining();
        assert!(after <= before && before <= last);
        assert!(!is_gone || state == LeaseState::Lost);
        match state {
            LeaseState::Held => assert!(danger < before),
            LeaseState::Danger => assert!(after <= danger),
            LeaseState::Lost => assert_eq!(after, Duration::ZERO),
            LeaseState::Released => panic!("nobody has released it"),
        }
        // The clock goes on between two questions; what was the same after is right for all.
        if lease.state() == state {
            for check in [check, check_of_watch] {
                match state {
                    LeaseState::Held => check.unwrap(),
                    LeaseState::Danger => assert!(check.unwrap_err().is_endangered()),
                    _ => assert!(check.unwrap_err().is_lost()),
                }
            }
            assert_eq!(of_watch, state);
            assert_eq!(is_held, state != LeaseState::Lost);
        }
        if seen.last() != Some(&state) {
            seen.push(state);
        }
        last = after;
        state == LeaseState::Lost
    });
    assert_eq!(
        seen,
        [LeaseState::Held, LeaseState::Danger, LeaseState::Lost]
    );
}

#[test]
fn a_lost_lease_stays_lost_though_its_record_still_stands() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = brief(&patient(&proxy.url()), KEY, ms(800)).build().unwrap();
    let lease = take(&lock);
    // Somebody prolongs the record by hand: the server would confirm a renewal.
    server.cmd(&["PEXPIRE", KEY, "60000"]);
    eventually("the deadline passes", PATIENCE, || {
        lease.state() == LeaseState::Lost
    });
    let sent = proxy.commands().len();
    assert!(lease.renew().unwrap_err().is_lost());
    assert!(lease.ensure(ms(1)).unwrap_err().is_lost());
    assert!(lease.verify().unwrap_err().is_lost());
    assert!(lease.check().unwrap_err().is_lost());
    assert_eq!(proxy.commands().len(), sent, "there is nothing to ask for");
    assert_eq!(lease.state(), LeaseState::Lost);
    assert_eq!(
        server.get(KEY).as_deref(),
        Some(lease.token().expose()),
        "and it is still there to be released"
    );
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_record_that_somebody_deletes_is_lost() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    let lease = take(&lock);
    lease.verify().unwrap();
    server.cmd(&["DEL", KEY]);
    assert_eq!(
        lease.state(),
        LeaseState::Held,
        "no clock can tell it, the server can"
    );
    assert!(lease.verify().unwrap_err().is_lost());
    assert_eq!(lease.state(), LeaseState::Lost);
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert!(lease.release().unwrap_err().is_lost());

    let lease = take(&lock);
    server.cmd(&["DEL", KEY]);
    assert!(lease.renew().unwrap_err().is_lost());
    assert_eq!(lease.state(), LeaseState::Lost);
    assert_eq!(server.get(KEY), None, "a renewal makes nothing anew");

    let lease = take(&lock);
    server.cmd(&["DEL", KEY]);
    assert!(lease.release().unwrap_err().is_lost());
}

#[test]
fn a_record_that_somebody_overwrites_is_lost_and_theirs_stands() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    let overwrite = |value: &str| server.cmd(&["SET", KEY, value, "PX", "60000"]);
    let lease = take(&lock);
    // The token alone is not the record: it is compared as a whole.
    let longer = format!("{} and more", lease.token().expose());
    overwrite(&longer);
    assert!(lease.verify().unwrap_err().is_lost());
    assert_eq!(lease.state(), LeaseState::Lost);
    assert!(lease.release().unwrap_err().is_lost());
    assert_eq!(server.get(KEY), Some(longer));
    server.cmd(&["DEL", KEY]);

    let lease = take(&lock);
    overwrite("theirs");
    assert!(lease.renew().unwrap_err().is_lost());
    drop(lease);
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
    server.cmd(&["DEL", KEY]);

    let lease = take(&lock);
    server.cmd(&["DEL", KEY]);
    server.cmd(&["RPUSH", KEY, "a list"]);
    assert!(lease.verify().unwrap_err().is_lost());
    assert!(lease.release().unwrap_err().is_lost());
    assert!(30_000 < server.pttl(KEY) || server.pttl(KEY) == -1);
}

#[test]
fn a_watch_follows_its_lease_from_another_thread_to_the_end() {
    let server = Server::start();
    let lock = lock(&server.url(), KEY);
    for by_drop in [false, true] {
        let lease = take(&lock);
        let watch = lease.watch();
        assert_eq!(watch.state(), LeaseState::Held);
        watch.check().unwrap();
        assert!(watch.remaining() <= ms(29_698) && ms(20_000) < watch.remaining());
        let elsewhere = thread::spawn({
            let watch = watch.clone();
            move || {
                eventually("the lease is released", PATIENCE, || {
                    watch.state() == LeaseState::Released
                });
            }
        });
        if by_drop {
            drop(lease);
        } else {
            lease.release().unwrap();
        }
        elsewhere.join().unwrap();
        assert_eq!(watch.state(), LeaseState::Released);
        assert_eq!(watch.remaining(), Duration::ZERO);
        assert!(watch.check().unwrap_err().is_lost());
    }
    let lease = take(&lock);
    let watch = lease.watch();
    server.cmd(&["DEL", KEY]);
    assert!(lease.verify().is_err());
    assert_eq!(watch.state(), LeaseState::Lost);
}
