//! A lease that comes back from its danger zone, and one that goes there again: each stay is told
//! once.

use std::time::Instant;

use leasehold::{Client, DangerCause, LeaseState};

use super::{Gate, OpenedAtLast, What, block, heard, ms, soon_in_danger};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::{client_with, take};

fn each_of_two_silences_is_told_once(
    silence: impl Fn(&Server, &Proxy),
    end: impl Fn(&Server, &Proxy),
) {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    // A whole second to come back in, of which an attempt takes 200 ms.
    let (lock, ear) = heard(client.lock("order:1").ttl(ms(2_000)).danger(ms(1_000)));
    let lock = lock.build().unwrap();
    let lease = take(&lock);
    for _ in 0..2 {
        silence(&server, &proxy);
        let danger = ear.next();
        assert_eq!(danger.danger().0, DangerCause::Unconfirmed);
        assert!(lease.check().unwrap_err().is_endangered());
        end(&server, &proxy);
        eventually("the lease is held again", PATIENCE, || {
            lease.state() != LeaseState::Danger
        });
        assert_eq!(lease.state(), LeaseState::Held);
        assert_eq!(danger.watch.state(), LeaseState::Held, "as its watch says");
        lease.check().unwrap();
    }
    lease.release().unwrap();
    drop(lock);
    assert_eq!(ear.rest().len(), 0, "two stays, two notices");
    let stats = client.stats();
    assert_eq!((stats.danger, stats.lost, stats.released), (2, 0, 1));
    assert_eq!(server.get("order:1"), None);
}

#[test]
fn a_stopped_server_that_runs_on_before_the_deadline_gives_the_lease_back_each_time() {
    each_of_two_silences_is_told_once(|server, _| server.stop(), |server, _| server.cont());
}

#[test]
fn a_network_that_comes_back_before_the_deadline_gives_the_lease_back_each_time() {
    each_of_two_silences_is_told_once(
        |_, proxy| proxy.swallow_everything(),
        |_, proxy| proxy.heal(),
    );
}

#[test]
fn a_stay_in_the_danger_zone_is_told_once_however_many_renewals_fail_in_it() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    let (lock, ear) = heard(client.lock("order:1").ttl(ms(1_500)).danger(ms(1_000)));
    let lock = lock.build().unwrap();
    let lease = take(&lock);
    proxy.answer("EVALSHA", "-BUSY for a while\r\n");
    ear.next().danger();
    let failed = client.stats().renewals_failed;
    eventually("more renewals fail", PATIENCE, || {
        failed + 3 <= client.stats().renewals_failed
    });
    proxy.heal();
    drop(lease);
    drop(lock);
    let rest = ear.rest();
    assert!(
        rest.iter()
            .all(|notice| matches!(notice.what, What::Lost(_))),
        "{rest:?}"
    );
    assert_eq!(client.stats().danger, 1);
}

#[test]
fn a_renewal_by_hand_ends_a_stay_and_the_next_one_is_told() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock("order:1").ttl(ms(3_000)).without_renewal();
    // In danger after 68 ms, and then for 2.9 s.
    let (lock, ear) = heard(lock.danger(ms(2_900)));
    let lock = lock.build().unwrap();
    let lease = take(&lock);
    let begun = Instant::now();
    for _ in 0..5 {
        assert_eq!(ear.next().danger().0, DangerCause::Unrenewed);
        lease.renew().unwrap();
    }
    ear.next().danger();
    let took = begun.elapsed();
    assert!(
        took < ms(2_900),
        "each of 68 ms, told when it began: {took:?}"
    );
    lease.release().unwrap();
    drop(lock);
    assert_eq!(ear.rest().len(), 0);
    assert_eq!(client.stats().danger, 6);
}

#[test]
fn a_notice_that_had_to_wait_for_a_thread_is_not_given_for_another_stay() {
    let server = Server::start();
    let client = patient(&server.url());
    let gate = Gate::default();
    let opened = OpenedAtLast(gate.clone());
    let blocked = block(&client, 64, &gate);
    let lock = client.lock("order:1").ttl(ms(10_000)).without_renewal();
    let (lock, ear) = heard(lock.danger(ms(9_800)));
    let lock = lock.build().unwrap();
    let lease = take(&lock);
    for _ in 0..3 {
        eventually("the danger zone", PATIENCE, || {
            lease.state() == LeaseState::Danger
        });
        // A notice that is queued behind the blocked ones: nobody can see it from here, and a
        // later one of another lease would be behind it.
        is_looked_at(&client);
        lease.renew().unwrap();
        assert_eq!(lease.state(), LeaseState::Held);
    }
    eventually("the danger zone", PATIENCE, || {
        lease.state() == LeaseState::Danger
    });
    is_looked_at(&client);
    opened.0.open();
    ear.next().danger();
    // It is queued behind all that were queued for this one.
    let (last, heard_last) = heard(soon_in_danger(&client, "last"));
    let last = take(&last.build().unwrap());
    heard_last.next().danger();
    lease.release().unwrap();
    drop(lock);
    assert_eq!(ear.rest().len(), 0, "one stay, one notice");
    drop((last, blocked));
}

/// Returns when the watch has looked at everything that was due: it looks in order of time, and
/// this one is later.
fn is_looked_at(client: &Client) {
    let before = client.stats().danger;
    let lease = take(
        &soon_in_danger(client, "looked at")
            .on_danger(|_| {})
            .build()
            .unwrap(),
    );
    eventually("the watch counts its danger", PATIENCE, || {
        before < client.stats().danger
    });
    lease.release().unwrap();
}
