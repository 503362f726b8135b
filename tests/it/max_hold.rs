//! The most that one acquisition may be held: danger and loss come by it, and the lock is given
//! back.

use std::time::Instant;

use leasehold::{DangerCause, LeaseState, LockBuilder, LossCause};

use crate::danger::{SLACK, heard, ms};
use crate::links::patient;
use crate::support::{Monitor, PATIENCE, Proxy, Server, eventually, logs};
use crate::wire::take;

const KEY: &str = "order:1";

/// From the acquisition to the end of a lease that is capped far below its ttl.
fn ends_by_max_hold(options: impl FnOnce(LockBuilder) -> LockBuilder) {
    let server = Server::start();
    let client = patient(&server.url());
    let (max_hold, danger) = (ms(1_000), ms(600));
    let lock = client.lock(KEY).danger(danger).max_hold(max_hold);
    let (lock, ear) = heard(options(lock));
    let lock = lock.build().unwrap();
    let before = Instant::now();
    let lease = take(&lock);
    let after = Instant::now();
    assert!(lease.remaining() <= max_hold, "the first deadline included");
    let told = ear.next();
    let (cause, remaining, why) = told.danger();
    assert_eq!(cause, DangerCause::MaxHold);
    assert!(remaining <= danger && why.is_none(), "{told:?}");
    assert!(
        before + (max_hold - danger) <= told.at && told.at < after + (max_hold - danger) + SLACK
    );
    let loss = ear.next();
    assert_eq!(loss.lost(), LossCause::MaxHold);
    assert!(before + max_hold <= loss.at && loss.at < after + max_hold + SLACK);
    assert_eq!(lease.state(), LeaseState::Lost);
    eventually("the record is gone, long before its ttl", PATIENCE, || {
        server.get(KEY).is_none()
    });
    // Another takes it, and the late release of the old one is no matter to them.
    let next = take(&lock);
    assert!(lease.release().unwrap_err().is_lost());
    assert_eq!(server.get(KEY).as_deref(), Some(next.token().expose()));
    next.release().unwrap();
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.lost, stats.released), (2, 1, 1));
}

#[test]
fn a_renewed_lease_ends_at_max_hold_though_its_ttl_is_longer_and_the_record_is_deleted() {
    ends_by_max_hold(|lock| lock.ttl(ms(60_000)));
}

#[test]
fn an_unrenewed_lease_ends_at_max_hold_though_its_ttl_is_longer_and_the_record_is_deleted() {
    ends_by_max_hold(|lock| lock.ttl(ms(60_000)).without_renewal());
}

#[test]
fn a_fenced_lease_with_a_label_ends_at_max_hold_and_the_record_is_deleted() {
    ends_by_max_hold(|lock| lock.ttl(ms(60_000)).fenced().label("night shift"));
}

#[test]
fn a_lease_whose_danger_would_begin_before_max_hold_by_its_ttl_is_renewed_up_to_max_hold() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).ttl(ms(1_800)).danger(ms(600));
    let (lock, ear) = heard(lock.max_hold(ms(3_000)));
    let lock = lock.build().unwrap();
    let before = Instant::now();
    let lease = take(&lock);
    let told = ear.next();
    assert_eq!(told.danger().0, DangerCause::MaxHold, "{told:?}");
    assert!(before + ms(2_400) <= told.at);
    assert!(2 <= client.stats().renewals_ok);
    let renewals = client.stats().renewals_ok;
    let loss = ear.next();
    assert_eq!(loss.lost(), LossCause::MaxHold);
    assert!(before + ms(3_000) <= loss.at);
    eventually("the record is gone", PATIENCE, || server.get(KEY).is_none());
    assert_eq!(
        client.stats().renewals_ok,
        renewals,
        "none behind the cap is of use"
    );
    drop(lease);
}

#[test]
fn without_renewal_and_with_a_longer_max_hold_danger_and_loss_come_by_the_ttl() {
    let server = Server::start();
    let client = patient(&server.url());
    for max_hold in [None, Some(ms(60_000))] {
        let lock = client.lock(KEY).ttl(ms(900)).danger(ms(600));
        let lock = match max_hold {
            Some(max_hold) => lock.max_hold(max_hold),
            None => lock,
        };
        let (lock, ear) = heard(lock.without_renewal());
        let before = Instant::now();
        let lease = take(&lock.build().unwrap());
        let after = Instant::now();
        let told = ear.next();
        assert_eq!(told.danger().0, DangerCause::Unrenewed);
        // Valid for 889 ms.
        assert!(before + ms(289) <= told.at && told.at < after + ms(289) + SLACK);
        let loss = ear.next();
        assert_eq!(loss.lost(), LossCause::Expired);
        assert!(before + ms(889) <= loss.at && loss.at < after + ms(889) + SLACK);
        drop(lease);
    }
    assert_eq!(client.stats().renewals_ok, 0);
}

#[test]
fn max_hold_gives_the_lock_back_without_callbacks_and_without_anybody_looking() {
    let server = Server::start();
    let client = patient(&server.url());
    let mark = logs::mark();
    for (key, renewed) in [("hold:renewed", true), ("hold:unrenewed", false)] {
        let lock = client.lock(key).danger(ms(100)).max_hold(ms(500));
        let lock = if renewed {
            lock
        } else {
            lock.without_renewal()
        };
        let lease = take(&lock.build().unwrap());
        eventually("the record is gone", PATIENCE, || server.get(key).is_none());
        assert_eq!(client.stats().lost, if renewed { 1 } else { 2 });
        assert_eq!(lease.state(), LeaseState::Lost);
        let lost = logs::containing(mark, &format!("`{key}`"));
        let lost = lost.iter().filter(|line| line.level == log::Level::Warn);
        let lost: Vec<_> = lost.map(|line| line.text.as_str()).collect();
        assert!(lost.len() == 1 && lost[0].contains("max_hold"), "{lost:?}");
        drop(lease);
    }
}

#[test]
fn max_hold_gives_the_lock_back_though_a_renewal_is_on_its_way_at_that_moment() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let lock = client.lock(KEY).ttl(ms(10_000));
    let lock = lock.danger(ms(100)).max_hold(ms(1_000)).build().unwrap();
    let lease = take(&lock);
    // The first deadline stands at the cap, so that nothing is renewed by the background.
    assert!(lease.remaining() <= ms(1_000));
    let held = proxy.hold_reply("EVALSHA");
    let watch = lease.watch();
    let by_hand = std::thread::spawn(move || (lease.renew(), lease));
    held.wait();
    eventually("max_hold is over", PATIENCE, || {
        watch.state() == LeaseState::Lost
    });
    held.end();
    while 0 < held.count() {
        held.deliver();
    }
    let (renewed, lease) = by_hand.join().unwrap();
    assert!(renewed.is_err(), "a lost lease does not come back");
    eventually("the record is gone", PATIENCE, || server.get(KEY).is_none());
    drop(lease);
}

#[test]
fn what_max_hold_deletes_is_its_own_record_and_nobody_elses() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).danger(ms(100)).max_hold(ms(500));
    let lease = take(&lock.without_renewal().build().unwrap());
    server.cmd(&["SET", KEY, "theirs"]);
    let monitor = Monitor::on(&server);
    eventually("a deletion is tried", PATIENCE, || {
        monitor.count("EVALSHA") + monitor.count("EVAL") > 0
    });
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
    assert_eq!(lease.state(), LeaseState::Lost);
    let deleted = monitor.commands_of_scripts();
    assert!(deleted.iter().all(|words| words[0] == "GET"), "{deleted:?}");
    assert!(lease.release().unwrap_err().is_lost());
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
}

#[test]
fn a_lease_that_is_released_before_max_hold_is_over_leaves_nothing_to_do() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).danger(ms(100)).max_hold(ms(600));
    let (lock, ear) = heard(lock.without_renewal());
    let lock = lock.build().unwrap();
    take(&lock).release().unwrap();
    let monitor = Monitor::on(&server);
    let end = Instant::now() + ms(700);
    eventually("max_hold would be over", PATIENCE, || end < Instant::now());
    assert_eq!(monitor.commands(), Vec::<Vec<String>>::new());
    drop(lock);
    assert_eq!(ear.rest().len(), 0);
}

#[test]
fn an_adopter_has_a_max_hold_of_its_own() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).danger(ms(600)).max_hold(ms(700));
    let (lock, ear) = heard(lock);
    let lock = lock.build().unwrap();
    let token = take(&lock).detach();
    let before = Instant::now();
    let lease = lock.adopt(token).unwrap().unwrap();
    assert_eq!(ear.next().danger().0, DangerCause::MaxHold);
    let loss = ear.next();
    assert_eq!(loss.lost(), LossCause::MaxHold);
    assert!(
        before + ms(700) <= loss.at,
        "the first lease is told nothing"
    );
    eventually("the record is gone", PATIENCE, || server.get(KEY).is_none());
    drop(lease);
}
