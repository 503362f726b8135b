//! Leases that live much longer than their ttl, whatever else their client is doing.

use std::time::{Duration, Instant};

use leasehold::{Client, Lease, LeaseState};

use super::{KEY, ms, renewal_of, undisturbed};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::{client_with, take};

/// Ten times its ttl.
const LONG: Duration = Duration::from_secs(3);
const SHORT_TTL: Duration = Duration::from_millis(300);

/// Whether a lease of 300 ms lives for seconds, on the server as well.
fn lives_long(server: &Server, lease: &Lease) -> Result<(), String> {
    let begun = Instant::now();
    let mut died = None;
    let mut stands = true;
    eventually("the time passes", LONG + PATIENCE, || {
        died = (!lease.is_held()).then(|| begun.elapsed());
        stands = died.is_some() || server.pttl(KEY) <= 300;
        died.is_some() || !stands || LONG <= begun.elapsed()
    });
    if let Some(died) = died {
        return Err(format!("lost after {died:?}"));
    }
    assert!(stands, "nothing asks for more than its ttl");
    assert_eq!(server.get(KEY).as_deref(), Some(lease.token().expose()));
    Ok(())
}

fn short(client: &Client) -> Lease {
    take(&client.lock(KEY).ttl(SHORT_TTL).build().unwrap())
}

#[test]
fn a_lease_of_300_ms_lives_for_seconds() {
    let server = Server::start();
    undisturbed(|| {
        let client = patient(&server.url());
        let lease = short(&client);
        lives_long(&server, &lease)?;
        let stats = client.stats();
        // It is renewed after a third of its ttl.
        assert!((15..60).contains(&stats.renewals_ok), "{stats:?}");
        assert!(stats.smallest_margin.is_some());
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
        Ok(())
    });
}

#[test]
fn a_lease_of_300_ms_lives_for_seconds_beside_500_others() {
    let server = Server::start();
    undisturbed(|| {
        let client = patient(&server.url());
        // In the schedule before it and after it.
        let other = |number: u64| {
            let lock = client.lock(format!("other:{number}"));
            take(&lock.ttl(ms(3_000 + number)).build().unwrap())
        };
        let mut others: Vec<Lease> = (0..250).map(other).collect();
        let lease = short(&client);
        others.extend((250..500).map(other));
        lives_long(&server, &lease)?;
        let held = |lease: &&Lease| lease.is_held();
        assert_eq!(others.iter().filter(held).count(), 500);
        assert!(500 < client.stats().renewals_ok);
        assert_eq!(client.stats().lost, 0);
        Ok(())
    });
}

#[test]
fn a_lease_of_300_ms_lives_for_seconds_beside_one_of_30_s_whose_replies_are_slow() {
    let server = Server::start();
    undisturbed(|| {
        let proxy = Proxy::to(&server);
        // So long does an attempt for the other one wait.
        let client = client_with(&proxy.url(), ms(1_000));
        let lock = client.lock("slow").ttl(Duration::from_secs(30));
        let slow = take(&lock.renew_every(ms(1_000)).build().unwrap());
        let held = proxy.hold_reply(renewal_of(&slow));
        let lease = short(&client);
        lives_long(&server, &lease)?;
        assert!(
            0 < held.count(),
            "the link has been blocked by a reply that did not come"
        );
        assert_eq!(slow.state(), LeaseState::Held);
        assert!(slow.remaining() < Duration::from_secs(28));
        Ok(())
    });
}

#[test]
fn a_renewal_falls_due_as_often_as_the_lock_says() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock(KEY).ttl(Duration::from_secs(8));
    let lease = take(&lock.renew_every(ms(800)).build().unwrap());
    let begun = Instant::now();
    eventually("three renewals are confirmed", PATIENCE, || {
        3 <= client.stats().renewals_ok
    });
    assert!(ms(2_400) <= begun.elapsed() + ms(5));
    assert!(
        Duration::from_secs(6) < lease.remaining(),
        "they count from when they were sent"
    );
}
