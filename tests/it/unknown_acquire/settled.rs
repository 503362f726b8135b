//! Outcomes that are learned afterwards, behind the barrier.

use std::thread;
use std::time::Instant;

use leasehold::LeaseState;

use super::{FAMILY, KEY, assert_all_differ, ms, settling_lock};
use crate::links::patient;
use crate::support::{Matcher, Proxy, Server};
use crate::wire::{
    TIMEOUT, acquisition, assert_nothing_unconditional, client_with, lock, records_set, settling,
    take,
};

#[test]
fn a_lost_reply_to_set_leaves_the_caller_with_the_lease_once() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        let client = settling(&proxy.url());
        let lock = client.lock(KEY).build().unwrap();
        proxy.drop_reply(Matcher::command("SET").once());
        let before = Instant::now();
        let lease = acquire.call(&lock).unwrap();
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        assert_eq!(proxy.count("CLIENT KILL"), 1);
        assert_eq!(lease.state(), LeaseState::Held);
        // It may count from the confirmation, and never from later than that.
        let at_most = ms(29_698) + before.elapsed();
        assert!(lease.remaining() <= at_most, "{:?}", lease.remaining());
        let stats = client.stats();
        assert_eq!((stats.acquired, stats.unknown_resolved), (1, 1));
        assert_eq!((stats.unknown_unresolved, stats.lost), (0, 0));
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
        assert_nothing_unconditional(&proxy.commands());
    }
}

#[test]
fn a_lost_reply_is_settled_for_a_wait_that_can_be_cancelled_too() {
    let server = Server::start();
    for acquire in &FAMILY[3..] {
        let proxy = Proxy::to(&server);
        // Each step of theirs has one command timeout, the opening of a link included.
        let lock = client_with(&proxy.url(), TIMEOUT * 2)
            .lock(KEY)
            .build()
            .unwrap();
        proxy.drop_reply(Matcher::command("SET").once());
        let lease = acquire.call(&lock).unwrap();
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        lease.release().unwrap();
    }
}

#[test]
fn a_lost_reply_to_a_fenced_acquisition_leaves_lease_and_fence() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        let lock = settling(&proxy.url()).lock(KEY).fenced().build().unwrap();
        proxy.drop_reply(Matcher::evalsha().once());
        let lease = acquire.call(&lock).unwrap();
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        let counter = server.get("order:1:leasehold:fence").unwrap();
        assert_eq!(lease.fence().unwrap().to_string(), counter);
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        lease.release().unwrap();
    }
}

#[test]
fn a_fenced_acquisition_whose_counter_is_gone_is_not_handed_out_without_its_fence() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = settling(&proxy.url()).lock(KEY).fenced().build().unwrap();
    proxy.drop_reply(Matcher::evalsha().once());
    let held = proxy.hold(Matcher::command("CLIENT KILL").once());
    let attempt = thread::spawn(move || lock.try_acquire());
    held.wait();
    server.cmd(&["DEL", "order:1:leasehold:fence"]);
    held.send();
    // Given back, and made again with a token and a fence of its own.
    let lease = attempt.join().unwrap().unwrap().expect("it is free");
    let counter = server.get("order:1:leasehold:fence").unwrap();
    assert_eq!(lease.fence().unwrap().to_string(), counter);
    let records = records_set(&proxy.commands());
    assert_all_differ(&records);
    assert_eq!(records.last().unwrap(), lease.token().expose());
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
}

#[test]
fn a_held_set_leaves_no_record_where_the_barrier_is_allowed() {
    let server = Server::start();
    for fenced in [false, true] {
        let proxy = Proxy::to(&server);
        let lock = settling(&proxy.url()).lock(KEY);
        let lock = if fenced { lock.fenced() } else { lock };
        let lock = lock.build().unwrap();
        let held = proxy.hold(acquisition());
        // Both tries of it are held, so that it gives up.
        let error = lock.try_acquire().unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!(held.count(), 2);
        assert!(!held.deliver() && !held.deliver(), "the server ran one");
        assert_eq!(server.get(KEY), None);
        assert_all_differ(&records_set(&proxy.commands()));
        // And the lock is free at once, with nothing to wait for.
        held.end();
        take(&lock).release().unwrap();
    }
}

#[test]
fn a_held_set_is_made_again_behind_the_barrier_with_another_token() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        let lock = settling_lock(&proxy.url());
        let held = proxy.hold(Matcher::command("SET").once());
        let lease = acquire.call(&lock).unwrap();
        let records = records_set(&proxy.commands());
        assert_eq!(records.len(), 2);
        assert_ne!(records[0], records[1]);
        assert_eq!(lease.token().expose(), records[1]);
        lease.release().unwrap();
        assert!(!held.deliver(), "the server ran it");
        assert_eq!(server.get(KEY), None);
    }
}

#[test]
fn a_held_set_whose_lock_another_took_meanwhile_is_settled_as_held() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock_of_another = lock(&server.url(), KEY);
    let lock = settling_lock(&proxy.url());
    let held = proxy.hold("SET");
    let attempt = thread::spawn(move || lock.try_acquire());
    held.wait();
    let other = take(&lock_of_another);
    assert!(attempt.join().unwrap().unwrap().is_none());
    assert!(!held.deliver());
    assert_eq!(server.get(KEY).as_deref(), Some(other.token().expose()));
}

#[test]
fn a_barrier_stands_though_the_answer_behind_it_was_lost() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let lock = settling_lock(&proxy.url());
    let held = proxy.hold(Matcher::command("SET").once());
    proxy.drop_reply(Matcher::evalsha().once());
    let lease = take(&lock);
    // The connection is dead since the first try; a second one would find nothing to kill.
    assert_eq!(proxy.count("CLIENT KILL"), 1);
    assert_eq!(proxy.count("EVALSHA"), 2);
    assert!(!held.deliver());
    let records = records_set(&proxy.commands());
    assert_eq!(records.len(), 2);
    assert_eq!(records[1], lease.token().expose());
}

#[test]
fn a_link_that_was_reset_while_it_lay_idle_costs_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let lock = client.lock(KEY).build().unwrap();
    for _ in 0..5 {
        take(&lock).release().unwrap();
        proxy.reset_all();
        // The reset is here, on loopback, when the proxy has made it: the command cannot go out.
        let lease = take(&lock);
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        lease.release().unwrap();
    }
    let stats = client.stats();
    assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (0, 0));
    assert_eq!(stats.reconnects, 5);
}

#[test]
fn a_reset_in_place_of_the_reply_is_settled() {
    let server = Server::start();
    for acquire in &FAMILY[..3] {
        let proxy = Proxy::to(&server);
        proxy.reset_after(Matcher::command("SET").once());
        let lock = lock(&proxy.url(), KEY);
        let lease = acquire.call(&lock).unwrap();
        assert_eq!(records_set(&proxy.commands()), [lease.token().expose()]);
        assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
        lease.release().unwrap();
    }
}

#[test]
fn a_reset_before_the_command_is_settled() {
    let server = Server::start();
    for acquire in FAMILY {
        let proxy = Proxy::to(&server);
        proxy.reset_before(Matcher::command("SET").once());
        let lock = lock(&proxy.url(), KEY);
        // The client cannot tell it from a reset that comes after. The server can: the
        // connection is dead, and no record of it is there.
        let lease = acquire.call(&lock).unwrap();
        let records = records_set(&proxy.commands());
        assert_eq!(records.len(), 2);
        assert_ne!(records[0], records[1]);
        assert_eq!(lease.token().expose(), records[1]);
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
    }
}
