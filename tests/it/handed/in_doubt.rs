//! Hand-overs of which nobody can learn what became: there is no barrier, or no server.

use std::time::Duration;

use leasehold::{Canceller, Client};

use super::{
    HandOver, assert_holds, assert_is_given_back, hand_over, is_release, is_released, waits_for,
    with_or_without_fence,
};
use crate::queue::{KEY, ms};
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::{client_with, settling};

/// Who may not end other connections, and can do all else.
const USER: &str = "user app on >secret ~order:* +set +eval +evalsha +script +get +del +exists \
                    +pexpire +pttl +time +role +info +lpush +blpop";

const REFUSED: &str = "-NOPERM no rights\r\n";

/// Clients for which there is no barrier.
fn without_a_barrier() -> Vec<(Server, Proxy, Client)> {
    let made = |answer: Option<&str>| {
        let server = Server::with(&[USER]);
        let proxy = Proxy::to(&server);
        let url = match answer {
            Some(command) => {
                proxy.answer(command, REFUSED);
                proxy.url()
            }
            None => proxy.url_as("app", "secret"),
        };
        let client = settling(&url);
        (server, proxy, client)
    };
    vec![
        made(Some("CLIENT KILL")),
        made(Some("CLIENT INFO")),
        made(None),
    ]
}

/// Both tokens go to the reaper, which says so to the server.
#[track_caller]
fn assert_reaped(proxy: &Proxy, tokens: [&str; 2]) {
    for token in tokens {
        eventually("the token is reaped", PATIENCE, || {
            is_released(proxy, token)
        });
    }
}

#[test]
fn a_hand_over_that_did_not_run_is_unknown_and_the_heir_goes_on_with_another_token() {
    for (server, proxy, client) in without_a_barrier() {
        for fenced in [false, true] {
            let lock = with_or_without_fence(&client, fenced);
            let unresolved = client.stats().unknown_unresolved;
            let swallowed = proxy.swallow(hand_over().once());
            let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
            let lease = handed.heir.value();
            assert_eq!(swallowed.hits(), 1);
            assert_holds(&server, &lease);
            assert_ne!(lease.token().expose(), handed.offered);
            assert_ne!(lease.token(), &handed.given);
            assert_eq!(lease.fence().is_some(), fenced);
            assert!(!fenced || handed.watch.fence() < lease.fence());
            assert_reaped(&proxy, [handed.given.expose(), &handed.offered]);
            let error = handed.release.value().unwrap_err();
            assert!(error.is_unknown(), "{error:?}");
            assert!(error.may_hold_until().is_some());
            assert!(unresolved < client.stats().unknown_unresolved);
            assert_holds(&server, &lease);
            lease.release().unwrap();
            assert_is_given_back(&server);
        }
    }
}

#[test]
fn a_hand_over_that_has_run_is_the_heirs_without_a_barrier_too() {
    for (server, proxy, client) in without_a_barrier() {
        for fenced in [false, true] {
            let lock = with_or_without_fence(&client, fenced);
            proxy.drop_reply(hand_over().once());
            let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
            let lease = handed.heir.value();
            handed.release.value().unwrap();
            assert_holds(&server, &lease);
            assert_eq!(lease.token().expose(), handed.offered);
            assert!(!fenced || handed.watch.fence() < lease.fence());
            lease.release().unwrap();
            assert_is_given_back(&server);
        }
    }
}

#[test]
fn a_hand_over_in_doubt_that_lands_after_all_finds_the_heirs_new_lease_and_changes_nothing() {
    for (server, proxy, client) in without_a_barrier() {
        for fenced in [false, true] {
            let lock = with_or_without_fence(&client, fenced);
            let held = proxy.hold(hand_over().once());
            let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
            let lease = handed.heir.value();
            assert_holds(&server, &lease);
            assert!(held.deliver(), "there was no barrier");
            assert_holds(&server, &lease);
            assert!(handed.release.value().unwrap_err().is_unknown());
            lease.release().unwrap();
            assert_is_given_back(&server);
        }
    }
}

/// It lands while the predecessor's record still stands, when nobody waits for it any more.
#[test]
fn a_hand_over_in_doubt_that_lands_late_and_takes_effect_is_undone() {
    for (server, proxy, client) in without_a_barrier() {
        for fenced in [false, true] {
            let lock = with_or_without_fence(&client, fenced);
            let held = proxy.hold(hand_over().once());
            let reaper = proxy.hold(Matcher::when(is_release));
            // `somebody_else` goes to the server directly, so that only releases of ours are held.
            let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
            assert!(handed.release.value().unwrap_err().is_unknown());
            reaper.wait();
            assert_eq!(server.get(KEY).as_deref(), Some(handed.given.expose()));
            assert!(held.deliver(), "there was no barrier");
            assert_eq!(server.get(KEY).as_ref(), Some(&handed.offered));
            reaper.end();
            while 0 < reaper.count() {
                reaper.send();
            }
            // Long before it would run out, which takes 30 s.
            let lease = handed.heir.value();
            assert_holds(&server, &lease);
            assert_ne!(lease.token().expose(), handed.offered);
            lease.release().unwrap();
            assert_is_given_back(&server);
        }
    }
}

/// The timeouts of clients that lose their server.
const SHORT: Duration = Duration::from_millis(250);

/// A hand-over that the proxy has swallowed, and no server in reach from then on.
fn cut_off<T: Send + 'static>(
    server: &Server,
    proxy: &Proxy,
    client: &Client,
    heir: impl Fn() -> T + Send + Sync + 'static,
) -> HandOver<T> {
    let lock = with_or_without_fence(client, false);
    proxy.swallow(hand_over().once());
    let handed = HandOver::begin(server, proxy, &lock, heir);
    proxy.refuse_connections();
    proxy.reset_all();
    handed
}

#[test]
fn a_hand_over_cut_off_from_the_server_is_unknown_to_both_and_leaves_no_record() {
    for budget in [None, Some(ms(3_000))] {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = client_with(&proxy.url(), SHORT);
        let lock = with_or_without_fence(&client, false);
        let handed = cut_off(&server, &proxy, &client, move || match budget {
            Some(budget) => lock.acquire_timeout(budget),
            None => lock.acquire(),
        });
        let error = handed.release.value().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        let until = error.may_hold_until();
        assert!(until.is_some_and(|until| std::time::Instant::now() < until));
        let error = handed.heir.value().unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        assert!(server.get(KEY).is_some(), "nothing has reached it");
        proxy.heal();
        assert_is_given_back(&server);
        for token in [handed.given.expose(), &handed.offered] {
            assert!(is_released(&proxy, token));
        }
    }
}

#[test]
fn a_hand_over_cut_off_for_a_while_does_not_cost_the_heir_its_place() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), SHORT);
    let lock = with_or_without_fence(&client, false);
    let handed = cut_off(&server, &proxy, &client, waits_for(&lock));
    let next = crate::queue::in_line(waits_for(&lock));
    assert!(handed.release.value().unwrap_err().is_unknown());
    proxy.heal();
    let lease = handed.heir.value();
    assert_holds(&server, &lease);
    assert_ne!(lease.token().expose(), handed.offered);
    lease.release().unwrap();
    let lease = next.value();
    assert_holds(&server, &lease);
    lease.release().unwrap();
}

#[test]
fn an_heir_in_doubt_that_is_cancelled_says_that_it_is_unknown() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = client_with(&proxy.url(), SHORT);
    let lock = with_or_without_fence(&client, false);
    let canceller = Canceller::new();
    let handed = cut_off(&server, &proxy, &client, {
        let canceller = canceller.clone();
        move || {
            let deadline = std::time::Instant::now() + 6 * PATIENCE;
            lock.acquire_cancellable(Some(deadline), &canceller)
        }
    });
    assert!(handed.release.value().unwrap_err().is_unknown());
    canceller.cancel();
    let error = handed.heir.value().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
}

#[test]
fn the_record_of_a_hand_over_in_doubt_stands_no_longer_than_it_says() {
    const TTL: Duration = Duration::from_millis(2_000);
    let server = Server::start();
    let proxy = Proxy::to(&server);
    proxy.answer("CLIENT KILL", REFUSED);
    let client = settling(&proxy.url());
    let lock = client.lock(KEY).ttl(TTL).build().unwrap();
    let held = proxy.hold(hand_over().once());
    proxy.swallow(Matcher::when(is_release));
    let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
    let error = handed.release.value().unwrap_err();
    let last = error.may_hold_until().expect("a release has a bound");
    // As late as it can and still find the record that it replaces.
    eventually("the record is about to expire", PATIENCE, || {
        server.pttl(KEY) < 150
    });
    assert!(held.deliver(), "there was no barrier");
    assert_eq!(server.get(KEY).as_ref(), Some(&handed.offered));
    eventually("the record is gone", PATIENCE, || {
        let asked = std::time::Instant::now();
        let stands = server.get(KEY).as_ref() == Some(&handed.offered);
        assert!(!stands || asked <= last, "it stands after `may_hold_until`");
        !stands
    });
    let lease = handed.heir.value();
    assert_ne!(lease.token().expose(), handed.offered);
    assert_holds(&server, &lease);
}
