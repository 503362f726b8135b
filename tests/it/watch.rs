//! What a lease's view tells worker threads, and when.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Client, LeaseState, Lock};

use crate::support::{PATIENCE, Server, within};

const SLACK: Duration = Duration::from_millis(500);

fn lock(server: &Server, ttl: Duration) -> Lock {
    Client::open(&server.url())
        .unwrap()
        .lock("order:1")
        .ttl(ttl)
        .without_renewal()
        .build()
        .unwrap()
}

#[test]
fn a_waiter_for_danger_hears_of_it_before_the_lease_is_lost_though_the_server_hangs() {
    let server = Server::start();
    let lease = lock(&server, Duration::from_millis(1_500))
        .acquire()
        .unwrap();
    let deadline = Instant::now() + lease.remaining();
    server.stop();
    let state = lease.watch().wait_danger(PATIENCE);
    assert_eq!(state, LeaseState::Danger);
    assert!(Instant::now() < deadline);
    assert!(Duration::ZERO < lease.remaining());
    server.cont();
    lease.release().unwrap();
}

#[test]
fn a_wait_for_danger_ends_with_its_timeout_while_the_lease_is_held() {
    let server = Server::start();
    let lease = lock(&server, Duration::from_secs(60)).acquire().unwrap();
    let begun = Instant::now();
    let timeout = Duration::from_millis(50);
    assert_eq!(lease.watch().wait_danger(timeout), LeaseState::Held);
    let took = begun.elapsed();
    assert!(timeout <= took && took < timeout + SLACK, "{took:?}");
    let at_once = lease.watch().wait_danger(Duration::ZERO);
    assert_eq!(at_once, LeaseState::Held);
}

#[test]
fn a_waiter_for_danger_is_woken_by_the_release_and_by_a_proven_loss() {
    let server = Server::start();
    for released in [true, false] {
        let lease = lock(&server, Duration::from_secs(60)).acquire().unwrap();
        let watch = lease.watch();
        let waiter = thread::spawn(move || watch.wait_danger(Duration::MAX));
        let ending = if released {
            lease.release().unwrap();
            LeaseState::Released
        } else {
            server.cmd(&["DEL", "order:1"]);
            assert!(lease.verify().unwrap_err().is_lost());
            LeaseState::Lost
        };
        let seen = within(PATIENCE, move || waiter.join().unwrap());
        assert_eq!(seen, ending);
    }
}

#[test]
fn a_renewal_moves_the_danger_zone_on_under_a_waiter() {
    let server = Server::start();
    let ttl = Duration::from_millis(900);
    let lease = lock(&server, ttl).acquire().unwrap();
    let watch = lease.watch();
    let begun = Instant::now();
    let waiter = thread::spawn(move || (watch.wait_danger(PATIENCE), Instant::now()));
    let half = lease.watch().wait_danger(Duration::from_millis(300));
    assert_eq!(half, LeaseState::Held);
    lease.renew().unwrap();
    let (state, woken) = waiter.join().unwrap();
    assert_eq!(state, LeaseState::Danger);
    // Without the renewal the danger zone would have begun after some 590 ms.
    assert!(Duration::from_millis(800) < woken - begun);
}
