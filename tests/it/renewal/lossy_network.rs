//! A network that loses replies and connections now and then, and a client whose counters add up.

use std::time::{Duration, Instant};

use super::{KEY, count, is_release, is_renewal, ms, release, renewal, undisturbed};
use crate::support::{Faults, Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::{acquisition, client_with, take};

const LONG: Duration = Duration::from_secs(5);

#[test]
fn a_section_of_five_seconds_under_a_lease_of_500_ms_survives_lost_replies_and_resets() {
    let server = Server::start();
    undisturbed(|| section_of_five_seconds(&server));
}

fn section_of_five_seconds(server: &Server) -> Result<(), String> {
    let proxy = Proxy::to(server);
    let client = client_with(&proxy.url(), ms(1_000));
    let lock = client.lock(KEY).ttl(ms(500)).renew_every(ms(50));
    let lease = take(&lock.build().unwrap());
    let faults = Faults::seeded(13).drop_replies(0.05).resets(0.03);
    let faulty = proxy.random_faults(renewal(), faults);
    // A link whose handshake loses a reply is as good as none.
    let handshakes = Matcher::command("CLIENT INFO");
    let unopened = proxy.random_faults(handshakes, Faults::seeded(3).drop_replies(0.3));
    let begun = Instant::now();
    eventually("the section ends", LONG + PATIENCE, || {
        !lease.is_held() || LONG <= begun.elapsed()
    });
    if !lease.is_held() {
        let (after, stats) = (begun.elapsed(), client.stats());
        return Err(format!("lost after {after:?}: {stats:?}"));
    }
    proxy.heal();
    lease.release().unwrap();
    let stats = client.stats();
    let hits = faulty.hits() as u64;
    let sent = count(&proxy.commands(), is_renewal) as u64;
    let unopened = unopened.hits();
    println!("{sent} sent, {hits} faults, {unopened} links not opened, {stats:?}");
    assert!(2 < hits, "{hits} faults in {sent} renewals prove nothing");
    // Each that was sent has been counted once, and those that could not be sent as failed. One
    // may have been on its way when the lease was released, and is nobody's any more.
    let (ok, failed) = (stats.renewals_ok, stats.renewals_failed);
    assert!(sent <= ok + failed + 1, "{sent} sent, {stats:?}");
    assert!(ok + hits <= sent, "{sent} sent, {hits} faults, {stats:?}");
    assert!(hits <= failed + 1, "{hits} faults, {stats:?}");
    assert!(0 < stats.reconnects, "{stats:?}");
    let ends = (stats.acquired, stats.released, stats.lost);
    assert_eq!(ends, (1, 1, 0), "{stats:?}");
    assert_eq!(stats.unknown_unresolved, 0);
    Ok(())
}

#[test]
fn every_lease_and_every_unknown_of_a_lossy_network_is_counted_once() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), ms(100));
    let lock = client.lock(KEY).ttl(ms(3_000)).build().unwrap();
    let faults = |seed| Faults::seeded(seed).drop_replies(0.08).resets(0.04);
    let acquisitions = proxy.random_faults(acquisition(), faults(5));
    let releases = proxy.random_faults(release(), faults(6));
    let (mut acquired, mut contended, mut unknown) = (0, 0, 0);
    let (mut released, mut lost) = (0, 0);
    for _ in 0..200 {
        match lock.try_acquire() {
            Ok(Some(lease)) => {
                acquired += 1;
                match lease.release() {
                    Ok(()) => released += 1,
                    Err(error) if error.is_lost() => lost += 1,
                    Err(error) => {
                        assert!(error.is_unknown(), "{error:?}");
                        unknown += 1;
                    }
                }
            }
            Ok(None) => contended += 1,
            Err(error) if error.is_unknown() => unknown += 1,
            Err(error) => assert!(error.is_unavailable(), "{error:?}"),
        }
    }
    let stats = client.stats();
    println!("{stats:?}");
    assert!(5 < acquisitions.hits() && 5 < releases.hits());
    assert!(100 < acquired && 0 < stats.unknown_resolved);
    assert_eq!((stats.acquired, stats.released), (acquired, released));
    assert_eq!(stats.lost, lost);
    assert_eq!(stats.contended, contended);
    assert_eq!(stats.unknown_unresolved, unknown);
    assert!(acquired as usize <= count(&proxy.commands(), is_release));
}
