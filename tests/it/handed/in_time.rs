//! Heirs whose time is up while it is not settled whether they have the lock.

use std::time::Instant;

use leasehold::{Canceller, Error, Lease, Lock};

use super::{
    HandOver, assert_holds, assert_is_given_back, hand_over, is_released, with_or_without_fence,
};
use crate::queue::{KEY, ms};
use crate::support::{Held, Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::{SLACK, TIMEOUT, settling};

/// How an heir comes to the end of its wait.
#[derive(Clone, Copy, Debug)]
enum End {
    Budget,
    Cancelled,
}

const ENDS: [End; 2] = [End::Budget, End::Cancelled];

/// A hand-over whose heir wants to go before it is settled.
struct Scene {
    server: Server,
    proxy: Proxy,
    client: leasehold::Client,
    canceller: Canceller,
    end: End,
}

impl Scene {
    fn new(end: End) -> Self {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = settling(&proxy.url());
        Self {
            server,
            proxy,
            client,
            canceller: Canceller::new(),
            end,
        }
    }

    /// The call of the heir, which gives up in its own way.
    fn heir(&self, lock: &Lock) -> impl Fn() -> Result<Option<Lease>, Error> + Send + Sync + use<> {
        let (lock, canceller, end) = (lock.clone(), self.canceller.clone(), self.end);
        move || match end {
            End::Budget => lock.acquire_timeout(ms(700)).map(Some),
            End::Cancelled => {
                let deadline = Instant::now() + 6 * PATIENCE;
                lock.acquire_cancellable(Some(deadline), &canceller)
            }
        }
    }

    /// A hand-over that cannot be settled before the test says so, the heir being gone by then.
    fn too_late(&self, fenced: bool) -> (HandOver<()>, Held, Result<Option<Lease>, Error>) {
        let lock = with_or_without_fence(&self.client, fenced);
        let handed = HandOver::begin(&self.server, &self.proxy, &lock, self.heir(&lock));
        let handshake = self.proxy.hold(Matcher::command("CLIENT INFO").once());
        if matches!(self.end, End::Cancelled) {
            self.canceller.cancel();
        }
        let begun = Instant::now();
        let result = handed.heir.value();
        let took = begun.elapsed();
        assert!(took < ms(700) + TIMEOUT + SLACK, "{took:?}");
        let handed = HandOver {
            given: handed.given,
            watch: handed.watch,
            release: handed.release,
            offered: handed.offered,
            heir: crate::waiting::Aside::start(|| ()),
        };
        (handed, handshake, result)
    }
}

/// It may have a record, and must not say that it has none.
#[track_caller]
fn assert_does_not_guess(result: Result<Option<Lease>, Error>) {
    match result {
        Ok(taken) => panic!("nobody can know this: {taken:?}"),
        Err(error) => assert!(error.is_unknown(), "{error:?}"),
    }
}

#[test]
fn an_heir_whose_budget_ends_gets_what_is_settled_within_a_command_timeout() {
    for fenced in [false, true] {
        let scene = Scene::new(End::Budget);
        let lock = with_or_without_fence(&scene.client, fenced);
        let held = scene.proxy.hold(hand_over().once());
        // Given up after half a second: its reply is what comes too late, or not.
        let lock_of_heir = lock.clone();
        let handed = HandOver::begin(&scene.server, &scene.proxy, &lock, move || {
            let begun = Instant::now();
            let result = lock_of_heir.acquire_timeout(ms(150));
            (result, begun.elapsed())
        });
        let sent = Instant::now();
        eventually("the heir's budget is over", PATIENCE, || {
            ms(150) < sent.elapsed()
        });
        held.send();
        let (result, took) = handed.heir.value();
        handed.release.value().unwrap();
        let lease = result.unwrap();
        assert!(ms(150) <= took);
        assert_holds(&scene.server, &lease);
        lease.release().unwrap();
        assert_eq!(scene.server.get(KEY), None);
    }
}

#[test]
fn an_heir_cancelled_meanwhile_gives_back_what_it_gets_and_ends_without() {
    for fenced in [false, true] {
        let scene = Scene::new(End::Cancelled);
        let lock = with_or_without_fence(&scene.client, fenced);
        let held = scene.proxy.hold(hand_over().once());
        let handed = HandOver::begin(&scene.server, &scene.proxy, &lock, scene.heir(&lock));
        scene.canceller.cancel();
        held.send();
        assert!(handed.heir.value().unwrap().is_none());
        handed.release.value().unwrap();
        assert_eq!(scene.server.get(KEY), None);
        assert_eq!(scene.client.stats().unknown_unresolved, 0);
    }
}

#[test]
fn an_heir_that_has_gone_too_early_does_not_guess_and_its_record_is_given_back() {
    for end in ENDS {
        for fenced in [false, true] {
            let scene = Scene::new(end);
            scene.proxy.drop_reply(hand_over().once());
            let (handed, handshake, result) = scene.too_late(fenced);
            assert_eq!(scene.server.get(KEY).as_ref(), Some(&handed.offered));
            handshake.send();
            handed.release.value().unwrap();
            // Long before it would run out.
            assert_is_given_back(&scene.server);
            assert!(is_released(&scene.proxy, &handed.offered));
            assert_does_not_guess(result);
        }
    }
}

#[test]
fn an_heir_that_has_gone_before_it_is_settled_as_not_his_leaves_the_release_to_the_giver() {
    for end in ENDS {
        let scene = Scene::new(end);
        scene.proxy.swallow(hand_over().once());
        let (handed, handshake, result) = scene.too_late(false);
        assert_eq!(
            scene.server.get(KEY).as_deref(),
            Some(handed.given.expose())
        );
        handshake.send();
        handed.release.value().unwrap();
        assert_eq!(scene.server.get(KEY), None);
        assert_does_not_guess(result);
    }
}

#[test]
fn those_behind_an_heir_that_has_gone_come_when_it_is_settled() {
    for has_run in [false, true] {
        let scene = Scene::new(End::Budget);
        if has_run {
            scene.proxy.drop_reply(hand_over().once());
        } else {
            scene.proxy.swallow(hand_over().once());
        }
        let lock = with_or_without_fence(&scene.client, false);
        let handed = HandOver::begin(&scene.server, &scene.proxy, &lock, scene.heir(&lock));
        let handshake = scene.proxy.hold(Matcher::command("CLIENT INFO").once());
        let next = crate::queue::in_line(super::waits_for(&lock));
        let _ = handed.heir.value();
        handshake.send();
        let lease = next.value();
        assert_holds(&scene.server, &lease);
        handed.release.value().unwrap();
        lease.release().unwrap();
        assert_is_given_back(&scene.server);
    }
}
