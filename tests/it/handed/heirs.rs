//! What the heir has: a lease like any other, and its own.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use leasehold::{LeaseState, LossCause};

use super::{HandOver, assert_holds, waits_for, with_or_without_fence};
use crate::links::patient;
use crate::queue::{KEY, in_front, in_line, ms, somebody_else};
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::{settling, take};

#[test]
fn an_heir_has_its_own_token_label_and_ttl() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let first = client.lock(KEY).label("first").build().unwrap();
    let heir = client.lock(KEY).label("heir").ttl(ms(5_000));
    let heir = heir.build().unwrap();
    let handed = HandOver::begin(&server, &proxy, &first, waits_for(&heir));
    let lease = handed.heir.value();
    handed.release.value().unwrap();
    assert_holds(&server, &lease);
    assert_eq!(lease.token().expose(), handed.offered);
    assert_ne!(lease.token(), &handed.given);
    assert_eq!(handed.given.label(), Some("first"));
    assert_eq!(lease.token().label(), Some("heir"));
    let left = server.pttl(KEY);
    assert!(0 < left && left <= 5_000, "{left}");
    // What it relies on ends before the record does.
    assert!(lease.remaining() < ms(4_950) && ms(1_000) < lease.remaining());
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn an_heir_has_a_larger_fence_if_it_wants_one() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for (before, after) in [(true, true), (true, false), (false, true)] {
        let client = patient(&proxy.url());
        let first = with_or_without_fence(&client, before);
        let second = with_or_without_fence(&client, after);
        let handed = HandOver::begin(&server, &proxy, &first, waits_for(&second));
        let lease = handed.heir.value();
        handed.release.value().unwrap();
        assert_holds(&server, &lease);
        let fence = handed.watch.fence();
        assert_eq!((fence.is_some(), lease.fence().is_some()), (before, after));
        if before && after {
            assert!(fence < lease.fence());
            let counter = server.get(&format!("{KEY}:leasehold:fence"));
            assert_eq!(counter, lease.fence().map(|fence| fence.to_string()));
        }
        lease.release().unwrap();
    }
}

#[test]
fn a_hand_over_is_one_command_and_the_heir_sends_none() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for fenced in [false, true] {
        let lock = with_or_without_fence(&patient(&proxy.url()), fenced);
        let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
        let lease = handed.heir.value();
        handed.release.value().unwrap();
        let commands = proxy.commands();
        let handed_on = commands
            .iter()
            .rposition(|words| super::is_hand_over(words));
        assert_eq!(handed_on, Some(commands.len() - 1));
        lease.release().unwrap();
    }
}

#[test]
fn an_heir_is_renewed_in_time() {
    const TTL: Duration = Duration::from_millis(1_500);
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = settling(&proxy.url());
    let lock = client.lock(KEY).ttl(TTL).build().unwrap();
    let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
    let lease = handed.heir.value();
    handed.release.value().unwrap();
    let begun = Instant::now();
    eventually("it has been renewed more than once", PATIENCE, || {
        assert_holds(&server, &lease);
        2 * TTL < begun.elapsed()
    });
    let stats = client.stats();
    assert!(2 <= stats.renewals_ok, "{stats:?}");
    lease.release().unwrap();
}

#[test]
fn an_heir_whose_record_vanishes_is_told() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = settling(&proxy.url());
    let (told, losses) = channel();
    let first = client.lock(KEY).build().unwrap();
    let heir = client.lock(KEY).ttl(ms(3_000)).on_lost(move |loss| {
        let _ = told.send((loss.cause(), loss.fence(), loss.watch().state()));
    });
    let heir = heir.fenced().build().unwrap();
    let handed = HandOver::begin(&server, &proxy, &first, waits_for(&heir));
    let lease = handed.heir.value();
    assert!(losses.try_recv().is_err());
    server.cmd(&["DEL", KEY]);
    assert_eq!(
        losses.recv_timeout(PATIENCE).unwrap(),
        (LossCause::Vanished, lease.fence(), LeaseState::Lost)
    );
    assert!(lease.release().unwrap_err().is_lost());
    assert!(losses.try_recv().is_err(), "told once");
}

#[test]
fn an_heir_is_warned_before_its_deadline_and_told_of_its_end() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let (told, notices) = channel();
    let tell = told.clone();
    let heir = client.lock(KEY).ttl(ms(2_000)).danger(ms(1_000));
    let heir = heir
        .without_renewal()
        .on_danger(move |danger| {
            let _ = told.send(format!(
                "danger {}",
                danger.watch().state() == LeaseState::Danger
            ));
        })
        .on_lost(move |loss| {
            let _ = tell.send(format!("lost {:?}", loss.cause()));
        });
    let heir = heir.build().unwrap();
    let first = client.lock(KEY).build().unwrap();
    let handed = HandOver::begin(&server, &proxy, &first, waits_for(&heir));
    let lease = handed.heir.value();
    assert_eq!(notices.recv_timeout(PATIENCE).unwrap(), "danger true");
    assert_eq!(notices.recv_timeout(PATIENCE).unwrap(), "lost Expired");
    assert!(lease.check().unwrap_err().is_lost());
}

#[test]
fn the_most_an_heir_may_hold_counts_from_the_hand_over() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let heir = client.lock(KEY).max_hold(ms(1_500)).danger(ms(100));
    let heir = heir.build().unwrap();
    let first = client.lock(KEY).build().unwrap();
    let handed = HandOver::begin(&server, &proxy, &first, waits_for(&heir));
    let lease = handed.heir.value();
    assert!(lease.remaining() <= ms(1_500));
    eventually("it is lost", PATIENCE, || !lease.is_held());
    super::assert_is_given_back(&server);
}

#[test]
fn stats_add_up_over_a_chain_of_heirs() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).build().unwrap();
    let holder = somebody_else(&server);
    let work = |lock: &leasehold::Lock| {
        let lock = lock.clone();
        move || take(&lock).release().unwrap()
    };
    let first = in_front(&server, work(&lock));
    let others: Vec<_> = (0..40).map(|_| in_line(work(&lock))).collect();
    holder.release().unwrap();
    first.value();
    others.into_iter().for_each(|other| other.value());
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.released, stats.lost), (41, 41, 0));
    assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (0, 0));
    assert_eq!((stats.timed_out, stats.reconnects), (0, 0));
    assert_eq!(server.get(KEY), None);
}
