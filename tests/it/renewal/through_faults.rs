//! Faults of the network that a lease outlives: replies that are lost or late, links that break,
//! ports that refuse, handshakes that hang.

use std::thread;
use std::time::Duration;

use leasehold::{Client, Lease, LeaseState};

use super::{KEY, count, is_renewal, lives_for, ms, renewal, renewal_of, renewed};
use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually, logs};
use crate::wire::{client_with, take};

/// A lease of 3 s that is renewed every 300 ms, which is also what an attempt waits for.
fn lease_of_3_s(client: &Client, key: &str) -> Lease {
    let lock = client.lock(key).ttl(ms(3_000)).danger(ms(500));
    take(&lock.renew_every(ms(300)).build().unwrap())
}

#[test]
fn a_lease_outlives_replies_that_are_lost_and_links_that_break() {
    type Fault = fn(&Proxy);
    let faults: [(&str, Fault); 4] = [
        ("a lost reply", |proxy| {
            drop(proxy.drop_reply(renewal().once()))
        }),
        ("a reset before", |proxy| {
            drop(proxy.reset_before(renewal().once()))
        }),
        ("a reset after", |proxy| {
            drop(proxy.reset_after(renewal().once()))
        }),
        ("a reset of all that is open", Proxy::reset_all),
    ];
    thread::scope(|scope| {
        for (name, cause) in faults {
            scope.spawn(move || outlives(name, cause));
        }
    });
}

fn outlives(name: &str, cause: fn(&Proxy)) {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    let lease = lease_of_3_s(&client, KEY);
    renewed(&client, &lease, 1);
    let connections = proxy.connections();
    cause(&proxy);
    // Longer than its ttl.
    lives_for(&lease, ms(3_200));
    let stats = client.stats();
    assert!(5 < stats.renewals_ok, "{name}: {stats:?}");
    assert!(connections < proxy.connections(), "{name}: on a new link");
    assert!(0 < stats.reconnects, "{name}: {stats:?}");
    lease.release().unwrap();
}

#[test]
fn the_first_retry_of_a_renewal_whose_reply_is_lost_is_made_at_once_on_a_new_link() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    // With the next renewal due long after its deadline it lives by the retry alone.
    let lock = client.lock(KEY).ttl(ms(3_000)).danger(ms(500));
    let lease = take(&lock.renew_every(ms(1_500)).build().unwrap());
    let lost = proxy.drop_reply(renewal_of(&lease).once());
    lost.wait();
    assert!(lease.remaining() < ms(1_500));
    renewed(&client, &lease, 1);
    assert!(ms(1_500) < lease.remaining());
    // One for the caller, one on which the reply was lost, one for the retry.
    assert!(3 <= proxy.connections());
    assert!(0 < client.stats().renewals_failed);
    lease.release().unwrap();
}

#[test]
fn a_server_that_cannot_be_reached_is_tried_again_and_not_hammered() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    let lease = lease_of_3_s(&client, KEY);
    // What is tried for is a link, and not one for each.
    let other = |number: u64| {
        let lock = client.lock(format!("other:{number}")).ttl(ms(6_000));
        take(&lock.danger(ms(500)).renew_every(ms(600)).build().unwrap())
    };
    let others: Vec<Lease> = (0..50).map(other).collect();
    renewed(&client, &lease, 1);
    // It is accepted and reset, which can be counted.
    proxy.reset_before(Matcher::any());
    proxy.reset_all();
    let connections = proxy.connections();
    lives_for(&lease, ms(1_500));
    let tries = proxy.connections() - connections;
    // After 10 ms, 20, 40, 80, 160, and every 300 ms from there on; each pause may be half of it.
    assert!((3..=20).contains(&tries), "{tries} tries");
    assert!(others.iter().all(Lease::is_held));
    proxy.heal();
}

#[test]
fn a_port_that_refuses_is_one_failure_and_is_found_again_when_it_opens() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let (key, mark) = ("order:refused", logs::mark());
    let client = client_with(&proxy.url(), ms(1_000));
    let lease = lease_of_3_s(&client, key);
    renewed(&client, &lease, 1);
    let failed = client.stats().renewals_failed;
    proxy.refuse_connections();
    proxy.reset_all();
    lives_for(&lease, ms(1_500));
    // One may have been on its way to the link that was reset; what is tried for from there on
    // is a link, and no renewal.
    let failed = client.stats().renewals_failed - failed;
    assert!((1..=3).contains(&failed), "{failed} failures");
    let mut said = logs::containing(mark, key);
    said.retain(|record| record.target == "leasehold::renew");
    assert!((1..=3).contains(&said.len()), "{said:#?}");
    proxy.heal();
    renewed(&client, &lease, 3);
    assert!(ms(2_000) < lease.remaining());
    lease.release().unwrap();
}

#[test]
fn an_overdue_reply_for_one_lease_does_not_cost_the_others_theirs() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(1_000));
    // It waits for 200 ms and they for a second; all are due at the same time, and it first.
    let short = client.lock(KEY).ttl(ms(2_000)).danger(ms(100));
    let short = take(&short.renew_every(ms(1_000)).build().unwrap());
    let other = |number: u64| {
        let lock = client.lock(format!("other:{number}"));
        take(&lock.renew_every(ms(1_000)).build().unwrap())
    };
    let others: Vec<Lease> = (0..150).map(other).collect();
    let held = proxy.hold_reply(renewal_of(&short).once());
    held.wait();
    eventually("its attempt has had its time", PATIENCE, || {
        0 < client.stats().renewals_failed
    });
    assert!(held.deliver());
    // Its own late answer counts and is not counted.
    eventually("the others are renewed", PATIENCE, || {
        150 <= client.stats().renewals_ok
    });
    let stats = client.stats();
    assert!(stats.renewals_failed < 100, "{stats:?}");
    let sent = count(&proxy.commands(), is_renewal);
    assert!(sent < 200, "{sent} renewals were sent for 151 leases");
    assert!(others.iter().all(|lease| lease.state() == LeaseState::Held));
    assert_eq!(short.state(), LeaseState::Held);
}

#[test]
fn an_overdue_reply_does_not_keep_other_leases_from_being_renewed_meanwhile() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let blocking = lease_of_3_s(&client, KEY);
    let held = proxy.hold_reply(renewal_of(&blocking).once());
    held.wait();
    let lock = client.lock("other").ttl(ms(1_000)).renew_every(ms(200));
    let lease = take(&lock.build().unwrap());
    lives_for(&lease, ms(2_500));
    assert_eq!(held.count(), 1, "the first link hears nothing yet");
    blocking.release().unwrap();
    lease.release().unwrap();
}

#[test]
fn a_handshake_that_hangs_holds_up_no_lease_whose_link_works() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    // Opening a link may take ten seconds.
    let client = patient(&proxy.url());
    let lock = client.lock(KEY).ttl(ms(1_200)).danger(ms(100));
    let lease = take(&lock.renew_every(ms(200)).build().unwrap());
    renewed(&client, &lease, 1);
    let handshakes = proxy.hold(Matcher::command("CLIENT INFO"));
    for _ in 0..4 {
        let opened = proxy.connections();
        let held = proxy.hold_reply(renewal_of(&lease).once());
        held.wait();
        // With its link in doubt another one is tried for.
        eventually("a link is being opened", ms(1_000), || {
            opened < proxy.connections()
        });
        assert!(held.deliver());
        renewed(&client, &lease, 2);
    }
    assert!(0 < handshakes.count());
    lives_for(&lease, ms(1_500));
    lease.release().unwrap();
}

#[test]
fn a_handshake_that_is_slow_delays_a_first_renewal_and_no_more() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    // From now on a link takes longer to open than an attempt waits for its reply.
    proxy.delay_replies(ms(150));
    let lock = client.lock(KEY).ttl(ms(2_000)).danger(ms(200));
    let lease = take(&lock.renew_every(ms(300)).build().unwrap());
    lives_for(&lease, ms(2_500));
    let stats = client.stats();
    assert!(2 < stats.renewals_ok, "{stats:?}");
    lease.release().unwrap();
}

#[test]
fn a_trickle_of_replies_is_as_good_as_whole_ones() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    proxy.trickle_replies(1, Duration::from_micros(200));
    let lock = client.lock(KEY).ttl(ms(1_500)).renew_every(ms(200));
    let lease = take(&lock.build().unwrap());
    lives_for(&lease, ms(1_800));
    assert!(3 < client.stats().renewals_ok);
    lease.release().unwrap();
}
