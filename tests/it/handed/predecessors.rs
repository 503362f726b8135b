//! What the one who hands a lock on is left with: nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::LeaseState;

use super::{HandOver, assert_holds, hand_over, waits_for, with_or_without_fence};
use crate::links::patient;
use crate::queue::{KEY, ms};
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::take;

#[test]
fn whoever_hands_a_lock_on_does_not_hold_it_from_before_that_is_sent() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for fenced in [false, true] {
        let lock = with_or_without_fence(&patient(&proxy.url()), fenced);
        let held = proxy.hold(hand_over().once());
        let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
        assert_eq!(handed.watch.state(), LeaseState::Released);
        assert_eq!(handed.watch.wait_danger(PATIENCE), LeaseState::Released);
        assert!(held.deliver());
        let lease = handed.heir.value();
        handed.release.value().unwrap();
        assert_eq!(handed.watch.state(), LeaseState::Released);
        assert!(handed.watch.remaining().is_zero());
        assert_holds(&server, &lease);
        lease.release().unwrap();
    }
}

#[test]
fn whoever_hands_a_lock_on_is_told_of_no_loss() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let told = Arc::new(AtomicUsize::new(0));
    let [lost, danger] = [Arc::clone(&told), Arc::clone(&told)];
    let first = client.lock(KEY).ttl(ms(900)).without_renewal();
    let first = first
        .on_lost(move |_| {
            lost.fetch_add(1, Ordering::SeqCst);
        })
        .on_danger(move |_| {
            danger.fetch_add(1, Ordering::SeqCst);
        });
    let first = first.build().unwrap();
    let heir = client.lock(KEY).build().unwrap();
    let handed = HandOver::begin(&server, &proxy, &first, waits_for(&heir));
    let lease = handed.heir.value();
    handed.release.value().unwrap();
    // Beyond what it would have held it for.
    let begun = std::time::Instant::now();
    eventually("its time is over", PATIENCE, || ms(1_200) < begun.elapsed());
    assert_eq!(told.load(Ordering::SeqCst), 0);
    assert_holds(&server, &lease);
    assert_eq!(client.stats().lost, 0);
    lease.release().unwrap();
}

/// One that was sent in time and comes when it is over: no fault of a network makes a renewal take
/// less time than a lock may be handed on for, so that the test sends it.
#[test]
fn a_renewal_of_the_predecessor_that_lands_late_changes_nothing_of_the_heirs() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for fenced in [false, true] {
        let lock = with_or_without_fence(&patient(&proxy.url()), fenced);
        let lease = take(&lock);
        lease.renew().unwrap();
        lease.release().unwrap();
        let commands = proxy.commands();
        let is_renewal = |words: &&Vec<String>| super::is_script(words, &[("1", 6)]);
        let mut renewal = commands.iter().rfind(is_renewal).unwrap().clone();
        let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
        let lease = handed.heir.value();
        handed.release.value().unwrap();
        renewal[4] = String::from(handed.given.expose());
        renewal[5] = String::from("90000");
        let renewal: Vec<&str> = renewal.iter().map(String::as_str).collect();
        assert_eq!(server.cmd(&renewal), redis::Value::Int(-1));
        assert_holds(&server, &lease);
        let left = server.pttl(KEY);
        assert!(left <= 30_000, "{left}");
        lease.release().unwrap();
        // Nor does it make a record where there is none.
        assert_eq!(server.cmd(&renewal), redis::Value::Int(0));
        assert_eq!(server.get(KEY), None);
    }
}
