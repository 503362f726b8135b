//! Many threads, and a network that loses hand-overs: never two holders, and nobody is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::Client;

use super::{hand_over, is_release, with_or_without_fence};
use crate::queue::KEY;
use crate::support::{Faults, Matcher, PATIENCE, Proxy, Server, eventually};
use crate::waiting::Aside;

const THREADS: usize = 12;
const TIMES: usize = 25;

/// What is shared by those who must not be there together.
#[derive(Default)]
struct Room {
    inside: AtomicUsize,
    fence: AtomicU64,
    failed: AtomicUsize,
}

/// A client that gives a reply up soon, and settles it as soon as it can.
fn client(proxy: &Proxy) -> Client {
    let client = Client::builder(&proxy.url()).connect_timeout(PATIENCE);
    let client = client.command_timeout(Duration::from_millis(150));
    client.build().unwrap()
}

fn contend(fenced: bool, has_barrier: bool, seed: u64) {
    let server = Arc::new(Server::start());
    let proxy = Proxy::to(&server);
    if !has_barrier {
        proxy.answer("CLIENT KILL", "-NOPERM no rights\r\n");
    }
    let faults = Faults::seeded(seed);
    let handed = proxy.random_faults(hand_over(), faults.clone().drop_replies(0.04).resets(0.04));
    let released = proxy.random_faults(
        Matcher::when(is_release),
        faults.drop_replies(0.02).resets(0.02),
    );
    let client = client(&proxy);
    let room = Arc::new(Room::default());
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let lock = with_or_without_fence(&client, fenced);
            let (room, server) = (Arc::clone(&room), Arc::clone(&server));
            Aside::start(move || {
                let mut taken = 0;
                while taken < TIMES {
                    let lease = match lock.acquire_timeout(PATIENCE) {
                        Ok(lease) => lease,
                        Err(error) => {
                            let again = error.is_unknown() || error.is_unavailable();
                            assert!(again || error.is_timeout(), "{error:?}");
                            room.failed.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                    };
                    assert_eq!(room.inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                    if let Some(fence) = lease.fence() {
                        let last = room.fence.swap(fence, Ordering::SeqCst);
                        assert!(last < fence, "{last} and then {fence}");
                    }
                    if taken % 5 == 0 {
                        let record = server.get(KEY);
                        assert_eq!(record.as_deref(), Some(lease.token().expose()));
                    }
                    taken += 1;
                    assert!(lease.is_held(), "a pause longer than the lease: {lease:?}");
                    assert_eq!(room.inside.fetch_sub(1, Ordering::SeqCst), 1);
                    if let Err(error) = lease.release() {
                        assert!(error.is_unknown(), "{error:?}");
                        room.failed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.value_within(6 * PATIENCE);
    }
    let stats = client.stats();
    println!(
        "{} and {} faults, {} calls failed, {} hand-overs: {stats:?}",
        handed.hits(),
        released.hits(),
        room.failed.load(Ordering::SeqCst),
        super::hand_overs(&proxy).len()
    );
    assert!(0 < handed.hits());
    assert_eq!(stats.acquired, (THREADS * TIMES) as u64);
    assert_eq!(stats.lost, 0);
    // With a barrier nothing stays unknown.
    assert!(!has_barrier || stats.unknown_unresolved == 0, "{stats:?}");
    // Whatever is left of them is deleted long before its 30 s are over.
    handed.end();
    released.end();
    eventually("no record is left", PATIENCE, || server.get(KEY).is_none());
}

#[test]
fn hand_overs_lost_at_random_and_settled_never_let_two_inside() {
    contend(false, true, 11);
}

#[test]
fn fenced_hand_overs_lost_at_random_and_settled_never_let_two_inside() {
    contend(true, true, 12);
}

#[test]
fn hand_overs_lost_at_random_without_a_barrier_never_let_two_inside() {
    contend(false, false, 13);
}

#[test]
fn fenced_hand_overs_lost_at_random_without_a_barrier_never_let_two_inside() {
    contend(true, false, 14);
}
