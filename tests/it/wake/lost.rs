//! Replies that get lost on their way to a waiter, and fences.

use std::time::Instant;

use leasehold::{Client, Lease, Lock};

use super::{AMPLE, FENCE, KEY, Waiter, lock, ms, wait_until_blocked};
use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, RuleHandle, Server};
use crate::waiting::{Aside, SLACK};
use crate::wire::{TIMEOUT, settling};

fn lock_of(client: &Client, fenced: bool) -> Lock {
    let lock = client.lock(KEY);
    let lock = if fenced { lock.fenced() } else { lock };
    lock.build().unwrap()
}

type Loss = fn(&Proxy) -> RuleHandle;

/// The ways to lose what the server has answered to the next try, or look.
const LOSSES: [Loss; 2] = [
    |proxy| proxy.drop_reply(Matcher::any_of(&["SET", "EVALSHA"]).once()),
    |proxy| proxy.reset_after(Matcher::any_of(&["SET", "EVALSHA"]).once()),
];

/// Only the waiter goes through the proxy.
fn somebody_else_holds(server: &Server, fenced: bool) -> Lease {
    let lock = lock_of(&patient(&server.url()), fenced);
    lock.acquire_timeout(PATIENCE).unwrap()
}

#[test]
fn a_woken_waiter_whose_reply_is_lost_has_the_lock_and_knows_it() {
    let kill = ["CLIENT", "KILL"].map(String::from);
    for fenced in [false, true] {
        for loss in LOSSES {
            let server = Server::start();
            let mut was_taken = false;
            for _ in 0..8 {
                let proxy = Proxy::to(&server);
                let client = settling(&proxy.url());
                let holder = somebody_else_holds(&server, fenced);
                let before = holder.fence();
                let own = lock_of(&client, fenced);
                let waiter = Waiter::of(&client, own, |lock| lock.acquire_timeout(AMPLE));
                wait_until_blocked(&server, 1);
                let lost = loss(&proxy);
                holder.release().unwrap();
                lost.wait();
                let (lease, _) = waiter.lease();
                let stands = server.get(KEY);
                assert_eq!(stands.as_deref(), Some(lease.token().expose()));
                assert!(before < lease.fence() || !fenced);
                assert!(lock(&server.url()).try_acquire().unwrap().is_none());
                assert_eq!(client.stats().unknown_unresolved, 0);
                // What was lost may have been the answer to a look at the end of a sleep.
                let commands = proxy.commands();
                let is_kill = |words: &Vec<String>| words.starts_with(&kill);
                let fenced_off = commands.iter().position(is_kill).unwrap();
                let own = lease.token().expose();
                let is_own = |words: &Vec<String>| words.iter().any(|word| word == own);
                was_taken = commands[..fenced_off].iter().any(is_own);
                assert_eq!(client.stats().unknown_resolved, 1);
                lease.verify().unwrap();
                lease.release().unwrap();
                if was_taken {
                    break;
                }
            }
            assert!(was_taken, "what was lost was never a lock");
        }
    }
}

#[test]
fn a_look_whose_reply_is_lost_is_settled_and_the_wait_goes_on() {
    for loss in LOSSES {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        let client = settling(&proxy.url());
        let holder = somebody_else_holds(&server, false);
        let waiter = Waiter::start(&client, |lock| lock.acquire_timeout(AMPLE));
        wait_until_blocked(&server, 1);
        // The look when its time is over.
        let lost = loss(&proxy);
        lost.wait();
        wait_until_blocked(&server, 1);
        holder.verify().unwrap();
        holder.release().unwrap();
        let (lease, _) = waiter.lease();
        let stats = client.stats();
        assert_eq!((stats.unknown_resolved, stats.unknown_unresolved), (1, 0));
        lease.verify().unwrap();
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
    }
}

/// The wake-up is lost with it, and nothing else.
#[test]
fn a_sleep_whose_end_is_lost_costs_its_time_and_nothing_else() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = settling(&proxy.url());
    let holder = somebody_else_holds(&server, false);
    let lost = proxy.drop_reply(Matcher::command("BLPOP").once());
    let waiter = Waiter::start(&client, |lock| lock.acquire_timeout(AMPLE));
    wait_until_blocked(&server, 1);
    let released = Instant::now();
    holder.release().unwrap();
    lost.wait();
    let (lease, warnings) = waiter.lease();
    let took = released.elapsed();
    assert!(took < ms(1000) + TIMEOUT + SLACK, "{took:?}");
    assert!(warnings.len() <= 1, "{warnings:?}");
    let stats = client.stats();
    assert_eq!(stats.unknown_unresolved, 0);
    lease.release().unwrap();
}

#[test]
fn every_way_to_get_a_lock_one_waits_for_gives_a_larger_fence() {
    let server = Server::start();
    let mut highest = None;
    for links in [32, 0] {
        for end in ["release", "deletion", "expiry", "loss of the counter"] {
            let holder = somebody_else_holds(&server, true);
            assert!(highest < holder.fence());
            highest = holder.fence();
            let client = Client::builder(&server.url())
                .connect_timeout(PATIENCE)
                .command_timeout(PATIENCE)
                .max_waiting_links(links);
            let client = client.build().unwrap();
            let own = lock_of(&client, true);
            let waiter = Waiter::of(&client, own, |lock| lock.acquire());
            waiter.is_waiting();
            match end {
                "release" => holder.release().unwrap(),
                "deletion" => drop(server.cmd(&["DEL", KEY])),
                "expiry" => drop(server.cmd(&["PEXPIRE", KEY, "20"])),
                _ => {
                    server.cmd(&["DEL", FENCE]);
                    server.cmd(&["DEL", KEY]);
                }
            }
            let (lease, _) = waiter.lease();
            assert!(highest < lease.fence(), "after {end}: {lease:?}");
            highest = lease.fence();
            lease.release().unwrap();
        }
    }
}

#[test]
fn a_counter_that_cannot_be_drawn_from_ends_the_wait() {
    let server = Server::start();
    let holder = somebody_else_holds(&server, true);
    let client = patient(&server.url());
    let own = lock_of(&client, true);
    let waiter = Aside::start(move || own.acquire_timeout(AMPLE));
    wait_until_blocked(&server, 1);
    server.cmd(&["SET", FENCE, "not a number"]);
    holder.release().unwrap();
    let error = waiter.value().unwrap_err();
    assert!(error.is_refused(), "{error:?}");
    assert_eq!(server.get(KEY), None);
}
