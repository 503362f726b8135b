//! Hand-overs whose reply does not come, and which can be settled.

use leasehold::{Client, LeaseState};

use super::{
    HandOver, assert_holds, assert_is_given_back, given_and_set, hand_over, hand_overs,
    is_hand_over, is_released, waits_for, with_or_without_fence,
};
use crate::queue::KEY;
use crate::support::{Held, Proxy, RuleHandle, Server};
use crate::wire::settling;

/// What becomes of the command on its way.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Swallowed,
    ResetBefore,
    Held,
    ReplyDropped,
    ResetAfter,
    ReplyHeld,
}

impl Fault {
    const ALL: [Self; 6] = [
        Self::Swallowed,
        Self::ResetBefore,
        Self::Held,
        Self::ReplyDropped,
        Self::ResetAfter,
        Self::ReplyHeld,
    ];

    fn has_run(self) -> bool {
        matches!(
            self,
            Self::ReplyDropped | Self::ResetAfter | Self::ReplyHeld
        )
    }

    fn meet(self, proxy: &Proxy) -> Rule {
        let once = hand_over().once();
        match self {
            Self::Swallowed => Rule::Done(proxy.swallow(once)),
            Self::ResetBefore => Rule::Done(proxy.reset_before(once)),
            Self::Held => Rule::Held(proxy.hold(once)),
            Self::ReplyDropped => Rule::Done(proxy.drop_reply(once)),
            Self::ResetAfter => Rule::Done(proxy.reset_after(once)),
            Self::ReplyHeld => Rule::Held(proxy.hold_reply(once)),
        }
    }
}

enum Rule {
    Done(RuleHandle),
    Held(Held),
}

/// No command but the one that was lost was to set this token.
#[track_caller]
fn assert_set_once(proxy: &Proxy, token: &str) {
    let commands = proxy.commands();
    let sets = |words: &&Vec<String>| match words[0].as_str() {
        "SET" => words[2] == token,
        "EVALSHA" | "EVAL" if is_hand_over(words) => given_and_set(words).1 == token,
        // What takes a fenced lock, and what waits for one, plain or fenced.
        "EVALSHA" | "EVAL" if super::is_script(words, &[("2", 8), ("2", 10), ("3", 11)]) => {
            words.iter().any(|word| word == token)
        }
        _ => false,
    };
    assert_eq!(commands.iter().filter(sets).count(), 1);
}

fn stats_of(client: &Client) -> (u64, u64, u64) {
    let stats = client.stats();
    (stats.unknown_resolved, stats.unknown_unresolved, stats.lost)
}

#[test]
fn a_hand_over_that_is_lost_at_any_point_is_settled() {
    for fault in Fault::ALL {
        for fenced in [false, true] {
            let server = Server::start();
            let proxy = Proxy::to(&server);
            let client = settling(&proxy.url());
            let lock = with_or_without_fence(&client, fenced);
            let rule = fault.meet(&proxy);
            let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
            assert_eq!(handed.watch.state(), LeaseState::Released);
            let lease = handed.heir.value();
            assert_holds(&server, &lease);
            handed.release.value().unwrap();
            assert_eq!(lease.fence().is_some(), fenced);
            assert!(!fenced || handed.watch.fence() < lease.fence());
            assert_eq!(
                fault.has_run(),
                lease.token().expose() == handed.offered,
                "{fault:?}"
            );
            assert_set_once(&proxy, &handed.offered);
            // The one that was not set is gone as well, by the predecessor's own release.
            assert_eq!(is_released(&proxy, handed.given.expose()), !fault.has_run());
            assert_eq!(proxy.count("CLIENT KILL"), 1);
            assert_eq!(stats_of(&client), (1, 0, 0), "{fault:?}");
            match rule {
                Rule::Done(rule) => assert_eq!(rule.hits(), 1),
                Rule::Held(held) => {
                    // The server has ended that connection; a reply has nobody to go to.
                    assert_eq!(held.deliver(), fault.has_run());
                }
            }
            assert_holds(&server, &lease);
            lease.release().unwrap();
            assert_eq!(server.get(KEY), None);
        }
    }
}

#[test]
fn a_hand_over_that_is_lost_twice_over_is_settled() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = settling(&proxy.url());
    let lock = with_or_without_fence(&client, false);
    proxy.drop_reply(hand_over().once());
    // The question what came of it goes unanswered in its turn.
    let renewal = crate::support::Matcher::when(|words| super::is_script(words, &[("1", 6)]));
    let second = proxy.drop_reply(renewal.once());
    let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
    let lease = handed.heir.value();
    handed.release.value().unwrap();
    assert_eq!(second.hits(), 1);
    assert_eq!(lease.token().expose(), handed.offered);
    assert_holds(&server, &lease);
    lease.release().unwrap();
}

#[test]
fn others_in_line_wait_until_it_is_settled_and_come_in_their_order() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for fault in [Fault::Swallowed, Fault::ReplyDropped] {
        let client = settling(&proxy.url());
        let lock = with_or_without_fence(&client, false);
        let _rule = fault.meet(&proxy);
        let handed = HandOver::begin(&server, &proxy, &lock, waits_for(&lock));
        let next = crate::queue::in_line({
            let lock = lock.clone();
            move || crate::wire::take(&lock)
        });
        let lease = handed.heir.value();
        assert_holds(&server, &lease);
        lease.release().unwrap();
        let lease = next.value();
        assert_holds(&server, &lease);
        handed.release.value().unwrap();
        lease.release().unwrap();
        assert_is_given_back(&server);
    }
    assert!(2 <= hand_overs(&proxy).len());
}
