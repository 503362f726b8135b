//! Whose turn it is when not all can be renewed at once: a lease that can wait less than others
//! does not wait for them, nor for what was begun at their pace.

use std::mem;
use std::time::{Duration, Instant};

use leasehold::{Client, Lease, LeaseState};

use super::{KEY, is_of_a_holder, is_release, ms, renewal, throughout};
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::take;

/// How long an attempt to renew a long lease waits for its reply, and how often it is renewed.
const ATTEMPT: Duration = Duration::from_millis(2_500);

/// More than one link takes before it has answered.
const MANY: usize = 300;

const LONG: Duration = Duration::from_secs(60);

/// A client that has all the time to connect.
fn client_of(proxy: &Proxy, command_timeout: Duration) -> Client {
    let builder = Client::builder(&proxy.url()).connect_timeout(PATIENCE);
    builder.command_timeout(command_timeout).build().unwrap()
}

fn long(client: &Client, key: &str, renew_every: Duration) -> Lease {
    let lock = client.lock(key).ttl(LONG);
    take(&lock.renew_every(renew_every).build().unwrap())
}

fn lease_of(client: &Client, ttl: Duration) -> Lease {
    take(&client.lock(KEY).ttl(ttl).build().unwrap())
}

/// Returns when nothing has confirmed the lease for `renew_every`, so that it is to be renewed.
#[track_caller]
fn falls_due(lease: &Lease, ttl: Duration, renew_every: Duration) {
    let left = ttl - ttl / 100 - ms(2) - renew_every;
    eventually("a renewal falls due", PATIENCE, || lease.remaining() < left);
}

/// Returns when the lease has been renewed, until when it is held.
#[track_caller]
fn lives_to_be_renewed(lease: &Lease) {
    let mut before = lease.remaining();
    eventually("it is renewed", PATIENCE, || {
        assert!(lease.is_held(), "it is {:?}", lease.state());
        let now = lease.remaining();
        mem::replace(&mut before, now) < now
    });
}

#[test]
fn when_a_link_comes_up_the_nearest_deadline_is_seen_to_first_and_a_token_to_reap_last() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_of(&proxy, ms(1_000));
    let orphan = client.lock("orphan").ttl(LONG).without_renewal();
    let orphan = orphan.max_hold(ms(1_000)).danger(ms(100));
    let orphan = take(&orphan.build().unwrap());
    // The less one can wait, the later it falls due.
    let leases = [(60, 1_200), (30, 1_400), (10, 1_600)].map(|(ttl, renew_every)| {
        let (ttl, renew_every) = (Duration::from_secs(ttl), ms(renew_every));
        let lock = client.lock(format!("lease:{ttl:?}")).ttl(ttl);
        let lease = take(&lock.renew_every(renew_every).build().unwrap());
        (lease, ttl, renew_every)
    });
    proxy.refuse_connections();
    proxy.reset_all();
    eventually("a token is to be reaped", PATIENCE, || {
        orphan.state() == LeaseState::Lost
    });
    for (lease, ttl, renew_every) in &leases {
        falls_due(lease, *ttl, *renew_every);
    }
    let before = proxy.commands().len();
    proxy.heal();
    let mut served = Vec::new();
    eventually("all are seen to", PATIENCE, || {
        served = proxy.commands().split_off(before);
        served.retain(|words| is_of_a_holder(words));
        leases.len() < served.len()
    });
    let keys: Vec<&str> = served.iter().map(|words| words[3].as_str()).collect();
    assert_eq!(keys[..4], ["lease:10s", "lease:30s", "lease:60s", "orphan"]);
    assert!(is_release(&served[3]));
}

#[test]
fn a_full_link_that_hangs_for_long_leases_does_not_hang_for_a_short_one() {
    lives_beside_a_full_link_that_hangs(0);
}

#[test]
fn handshakes_that_hang_beside_a_full_link_are_no_failure_of_those_who_wait_for_it() {
    // The first has all of the connect timeout, and the second is soon given up.
    lives_beside_a_full_link_that_hangs(2);
}

fn lives_beside_a_full_link_that_hangs(handshakes: usize) {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_of(&proxy, ATTEMPT);
    // Opening a first link may take two tries on a busy machine, and so bring two links.
    let first = client.lock("first").ttl(ms(1_000)).renew_every(ms(100));
    let first = take(&first.build().unwrap());
    lives_to_be_renewed(&first);
    first.release().unwrap();
    let held = proxy.hold(renewal().once());
    let longs: Vec<Lease> = (0..MANY)
        .map(|own| long(&client, &format!("long:{own}"), ATTEMPT))
        .collect();
    held.wait();
    falls_due(&longs[MANY - 1], LONG, ATTEMPT);
    let hanging = proxy.hold(Matcher::command("CLIENT INFO").first(handshakes));
    // Its deadline comes before their attempts have had their time.
    let short = lease_of(&client, ms(1_500));
    lives_to_be_renewed(&short);
    assert_eq!(held.count(), 1, "the first link hears nothing yet");
    assert_eq!(hanging.count(), handshakes);
    // An attempt for the short one may have been late, for want of a link or of time to run.
    let stats = client.stats();
    assert!(stats.renewals_failed < 10, "{stats:?}");
    assert!(longs.iter().all(Lease::is_held));
    assert!(held.deliver());
}

#[test]
fn tries_that_hang_for_a_long_lease_do_not_hang_for_a_short_one() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_of(&proxy, ms(2_000));
    let long = long(&client, "long", ms(2_000));
    // One that has all of the connect timeout, and the one beside it.
    let hanging = proxy.hold(Matcher::command("CLIENT INFO").first(2));
    eventually("two tries hang", PATIENCE, || hanging.count() == 2);
    let short = lease_of(&client, ms(1_000));
    lives_to_be_renewed(&short);
    assert_eq!(hanging.count(), 2);
    assert_eq!(long.state(), LeaseState::Held);
}

#[test]
fn pauses_that_an_outage_has_made_long_are_cut_short_for_a_lease_that_cannot_wait() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_of(&proxy, ms(2_000));
    let long = long(&client, "long", ms(2_000));
    let outage = proxy.reset_before(Matcher::any());
    // After the ninth try, a second at the least is let pass; after the eighth it may be less.
    eventually("it has been tried nine times", PATIENCE, || {
        9 <= outage.hits()
    });
    proxy.heal();
    // It would be lost before the next try for the long one.
    let short = lease_of(&client, ms(1_000));
    lives_to_be_renewed(&short);
    assert_eq!(long.state(), LeaseState::Held);
}

#[test]
fn the_pace_of_a_short_lease_is_gone_with_it() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_of(&proxy, ms(1_000));
    let long = long(&client, "long", ms(1_000));
    let short = lease_of(&client, ms(300));
    proxy.reset_before(Matcher::any());
    proxy.reset_all();
    eventually("it is lost", PATIENCE, || short.state() == LeaseState::Lost);
    falls_due(&long, LONG, ms(1_000));
    let before = proxy.connections();
    throughout(ms(1_500), || ());
    let tries = proxy.connections() - before;
    // One each half a second to a second, where the short one alone had 33 to 67 of them.
    assert!((1..=10).contains(&tries), "{tries} tries");
    assert_eq!(long.state(), LeaseState::Held);
    proxy.heal();
}

#[test]
fn a_lost_lease_that_its_holder_keeps_is_not_tried_for_any_more() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_of(&proxy, ms(1_000));
    let lease = lease_of(&client, ms(300));
    proxy.reset_before(Matcher::any());
    proxy.reset_all();
    eventually("it is lost", PATIENCE, || lease.state() == LeaseState::Lost);
    let mut last = (proxy.connections(), Instant::now());
    // Many times the longest pause between two tries.
    eventually("no try is made any more", PATIENCE, || {
        let tries = proxy.connections();
        if tries != last.0 {
            last = (tries, Instant::now());
        }
        ms(1_000) < last.1.elapsed()
    });
}
