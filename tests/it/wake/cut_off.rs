//! What happens to those asleep: links that end, servers that go, change their role or fill up.

use std::time::Instant;

use super::{
    KEY, NOTICED, WAITING, WAKE, WAYS, Waiter, blocked, hold, id_of_the_blocked, let_pass, ms,
    wait_until_blocked,
};
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually};
use crate::waiting::SLACK;

/// Returns when so many more tries have been made.
#[track_caller]
fn tries_on(proxy: &Proxy, count: usize) {
    let tries = || proxy.count("SET") + proxy.count("EVALSHA");
    let before = tries();
    eventually("it tries on", PATIENCE, || before + count <= tries());
}

/// What ends in the very moment in which somebody has fallen asleep is taken for a refusal to let
/// anybody sleep.
#[track_caller]
fn wait_until_fast_asleep(server: &Server) -> String {
    let id = id_of_the_blocked(server);
    let_pass(ms(20));
    id
}

#[test]
fn whoever_is_unblocked_by_hand_waits_on() {
    let server = Server::start();
    for how in ["ERROR", "TIMEOUT"] {
        waits_on_in_every_way(&server, |id| server.cmd(&["CLIENT", "UNBLOCK", id, how]));
    }
}

#[test]
fn whoever_is_cut_off_while_asleep_waits_on_over_another_link() {
    let server = Server::start();
    waits_on_in_every_way(&server, |id| server.cmd(&["CLIENT", "KILL", "ID", id]));
}

/// Whoever is disturbed three times, by what is done to the client of that id, waits on and is woken.
#[track_caller]
fn waits_on_in_every_way<T>(server: &Server, disturb: impl Fn(&str) -> T) {
    for way in WAYS {
        let holder = hold(server);
        let waiter = Waiter::start(&patient(&server.url()), way);
        for _ in 0..3 {
            disturb(&wait_until_fast_asleep(server));
        }
        wait_until_blocked(server, 1);
        let released = Instant::now();
        holder.release().unwrap();
        let (lease, warnings) = waiter.lease();
        assert!(released.elapsed() < NOTICED + SLACK);
        assert!(warnings.len() <= 1, "{warnings:?}");
        lease.release().unwrap();
    }
}

#[test]
fn whoever_is_reset_while_asleep_waits_on_over_another_link() {
    let server = Server::start();
    for way in WAYS {
        let proxy = Proxy::to(&server);
        let holder = hold(&server);
        let waiter = Waiter::start(&patient(&proxy.url()), way);
        wait_until_fast_asleep(&server);
        proxy.reset_all();
        proxy.wait_for("BLPOP", 2);
        holder.release().unwrap();
        let (lease, warnings) = waiter.lease();
        assert!(warnings.len() <= 1, "{warnings:?}");
        lease.release().unwrap();
    }
}

#[test]
fn a_server_that_is_started_again_is_waited_for() {
    let server = Server::start();
    let _holder = hold(&server);
    let waiter = Waiter::start(&patient(&server.url()), WAYS[1]);
    wait_until_fast_asleep(&server);
    server.restart();
    // It has forgotten the holder.
    let (lease, warnings) = waiter.lease();
    assert!(warnings.len() <= 1, "{warnings:?}");
    lease.release().unwrap();
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_primary_that_becomes_a_replica_is_waited_for_until_it_is_a_primary_again() {
    let server = Server::start();
    let _holder = hold(&server);
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let waiter = Waiter::start(&client, WAYS[1]);
    wait_until_blocked(&server, 1);
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    tries_on(&proxy, 3);
    assert_eq!(blocked(&server).len(), 0);
    server.cmd(&["REPLICAOF", "NO", "ONE"]);
    server.cmd(&["DEL", KEY]);
    let (lease, warnings) = waiter.lease();
    assert!(warnings.len() <= 1, "{warnings:?}");
    lease.release().unwrap();
}

/// It is not waited for who cannot be asked.
#[test]
fn a_wait_without_a_budget_ends_where_there_is_only_a_replica() {
    let server = Server::start();
    let _holder = hold(&server);
    let waiter = Waiter::start(&patient(&server.url()), WAYS[0]);
    wait_until_blocked(&server, 1);
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    let (taken, _) = waiter.outcome.value();
    let error = taken.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

/// Nobody can be announced there, and nobody is woken.
#[test]
fn a_server_whose_memory_is_full_is_polled_while_the_lock_is_held() {
    let server = Server::with(&["maxmemory-policy noeviction"]);
    for way in WAYS {
        let holder = hold(&server);
        let proxy = Proxy::to(&server);
        let waiter = Waiter::start(&patient(&proxy.url()), way);
        wait_until_blocked(&server, 1);
        server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        eventually("it polls", PATIENCE, || {
            proxy.count("BLPOP") + 10 < proxy.count("EVALSHA")
        });
        assert_eq!(blocked(&server).len(), 0);
        let begun = Instant::now();
        tries_on(&proxy, 10);
        // At most one in 25 ms, which is what its pauses are at the least.
        assert!(ms(150) < begun.elapsed(), "{:?}", begun.elapsed());
        server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
        wait_until_blocked(&server, 1);
        holder.release().unwrap();
        let (lease, warnings) = waiter.lease();
        assert!(warnings.is_empty(), "{warnings:?}");
        lease.release().unwrap();
    }
}

/// What is held can be given back there, and what is free cannot be taken.
#[test]
fn a_server_whose_memory_is_full_is_waited_for_until_there_is_room() {
    let server = Server::with(&["maxmemory-policy noeviction"]);
    let holder = hold(&server);
    let proxy = Proxy::to(&server);
    let waiter = Waiter::start(&patient(&proxy.url()), WAYS[1]);
    wait_until_blocked(&server, 1);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    holder.release().unwrap();
    tries_on(&proxy, 3);
    assert_eq!(server.get(KEY), None);
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    let freed = Instant::now();
    let (lease, warnings) = waiter.lease();
    assert!(freed.elapsed() < NOTICED + SLACK, "{:?}", freed.elapsed());
    assert!(warnings.len() <= 1, "{warnings:?}");
    lease.release().unwrap();
}

/// Somebody else's list or flag stands where ours belong.
#[test]
fn siblings_of_another_type_are_no_reason_to_give_up() {
    let server = Server::start();
    for (key, command) in [(WAKE, "SET"), (WAITING, "LPUSH")] {
        let put = || {
            server.cmd(&["DEL", key]);
            server.cmd(&[command, key, "of another type"]);
        };
        put();
        let holder = hold(&server);
        let waiter = Waiter::start(&patient(&server.url()), WAYS[0]);
        waiter.is_waiting();
        // Whoever waits has overwritten the flag.
        put();
        let released = Instant::now();
        holder.release().unwrap();
        let (lease, warnings) = waiter.lease();
        let took = released.elapsed();
        assert!(took < NOTICED + SLACK, "{took:?}");
        assert!(warnings.len() <= 1, "{warnings:?}");
        lease.release().unwrap();
    }
}
