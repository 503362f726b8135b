//! Hand-overs that the server does not do: an ordinary release is due, and the heir goes to the
//! server itself.

use super::{
    HandOver, assert_holds, assert_is_given_back, hand_over, hand_overs, is_released, waits_for,
    with_or_without_fence,
};
use crate::links::patient;
use crate::queue::{KEY, ms};
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::wire::settling;

#[test]
fn a_hand_over_that_is_not_run_falls_back_to_a_release() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for reply in [
        "-NOPERM this user has no permissions\r\n",
        "-BUSY later\r\n",
        "-LOADING later\r\n",
        "-READONLY not here\r\n",
        "-OOM command not allowed\r\n",
        "-NOREPLICAS no\r\n",
    ] {
        for fenced in [false, true] {
            let client = patient(&proxy.url());
            let lock = with_or_without_fence(&client, fenced);
            let rule = proxy.answer(hand_over().once(), reply);
            let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
            let lease = handed.heir.value();
            assert_eq!(rule.hits(), 1);
            handed.release.value().unwrap();
            assert_holds(&server, &lease);
            assert!(is_released(&proxy, handed.given.expose()), "{reply}");
            assert_eq!(client.stats().unknown_unresolved, 0);
            lease.release().unwrap();
        }
    }
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_hand_over_into_full_memory_falls_back_to_a_release() {
    for fenced in [false, true] {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = patient(&proxy.url());
        let lock = with_or_without_fence(&client, fenced);
        let held = proxy.hold(hand_over().once());
        let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
        held.wait();
        server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        assert!(held.deliver());
        handed.release.value().unwrap();
        assert_eq!(server.get(KEY), None, "it was given back all the same");
        server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
        let lease = handed.heir.value();
        assert_holds(&server, &lease);
        assert!(!fenced || handed.watch.fence() < lease.fence());
        lease.release().unwrap();
        assert_eq!(client.stats().unknown_unresolved, 0);
    }
}

#[test]
fn a_server_that_has_forgotten_the_script_is_told_it_again() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for fenced in [false, true] {
        let client = patient(&proxy.url());
        let lock = with_or_without_fence(&client, fenced);
        let held = proxy.hold(hand_over().once());
        let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
        held.wait();
        server.cmd(&["SCRIPT", "FLUSH"]);
        assert!(held.deliver());
        let lease = handed.heir.value();
        handed.release.value().unwrap();
        assert_eq!(lease.token().expose(), handed.offered);
        assert!(!is_released(&proxy, handed.given.expose()));
        assert_holds(&server, &lease);
        lease.release().unwrap();
    }
}

#[test]
fn a_lock_that_is_gone_or_anothers_is_not_handed_on_and_the_release_says_so() {
    for fenced in [false, true] {
        for another in [false, true] {
            let server = Server::start();
            let proxy = Proxy::to(&server);
            let client = patient(&proxy.url());
            let lock = with_or_without_fence(&client, fenced);
            let held = proxy.hold(hand_over().once());
            let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
            held.wait();
            if another {
                server.cmd(&["SET", KEY, "somebody else's", "PX", "1500"]);
            } else {
                server.cmd(&["DEL", KEY]);
            }
            assert!(held.deliver());
            let error = handed.release.value().unwrap_err();
            assert!(error.is_lost(), "{error:?}");
            if another {
                assert_eq!(server.get(KEY).as_deref(), Some("somebody else's"));
            }
            let lease = handed.heir.value();
            assert_holds(&server, &lease);
            lease.release().unwrap();
            assert_is_given_back(&server);
            let stats = client.stats();
            assert_eq!((stats.lost, stats.unknown_unresolved), (1, 0));
        }
    }
}

#[test]
fn a_lease_that_is_over_is_not_handed_on() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    // It is over before the time in which it may be handed on is.
    let first = client.lock(KEY).ttl(ms(10)).danger(ms(1)).without_renewal();
    let first = first.build().unwrap();
    let heir = with_or_without_fence(&client, false);
    for _ in 0..10 {
        let holder = crate::queue::somebody_else(&server);
        let wait = crate::queue::in_front(&server, {
            let first = first.clone();
            move || {
                let lease = first.acquire_timeout(PATIENCE)?;
                let watch = lease.watch();
                eventually("it is over", PATIENCE, || {
                    watch.state() == leasehold::LeaseState::Lost
                });
                lease.release()
            }
        });
        let behind = crate::queue::in_line(waits_for(&heir));
        holder.release().unwrap();
        // A wait that gets no more than its danger zone is another story.
        let _ = wait.value();
        behind.value().release().unwrap();
    }
    assert_eq!(hand_overs(&proxy), []);
}

/// The heir's record has run out before anybody could ask for it: the lock was handed on all the
/// same, and the one who did it had it until then.
#[test]
fn a_lost_reply_about_a_short_lease_does_not_make_the_release_a_loss() {
    for fenced in [false, true] {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = settling(&proxy.url());
        let first = with_or_without_fence(&client, fenced);
        let heir = client
            .lock(KEY)
            .ttl(ms(150))
            .danger(ms(10))
            .without_renewal();
        let heir = if fenced { heir.fenced() } else { heir };
        let heir = heir.build().unwrap();
        proxy.drop_reply(hand_over().once());
        let handed = HandOver::begin(&server, &proxy, &first, waits_for(&heir));
        if let Err(error) = handed.release.value() {
            assert!(error.is_unknown(), "it was not lost: {error:?}");
        }
        let lease = handed.heir.value();
        assert_eq!(client.stats().lost, 0);
        drop(lease);
        assert_is_given_back(&server);
    }
}
