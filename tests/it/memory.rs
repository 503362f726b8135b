//! Servers that are up and cannot run a command now: memory full, too few replicas, busy.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, LeaseState, Lock};

use crate::links::patient;
use crate::support::{Matcher, PATIENCE, Proxy, Server, eventually};
use crate::wire::take;

const KEY: &str = "order:1";
const COUNTER: &str = "order:1:leasehold:fence";

/// From now on every command that needs memory is refused, for more is used than is allowed.
fn fill_memory(server: &Server) {
    server.cmd(&["CONFIG", "SET", "maxmemory", "100kb"]);
    let error = server.try_cmd(&["SET", "filler", "1"]).unwrap_err();
    assert!(error.starts_with("OOM"), "{error}");
}

fn free_memory(server: &Server) {
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
}

fn plain_and_fenced(url: &str) -> [Lock; 2] {
    let client = patient(url);
    let plain = client.lock(KEY).build().unwrap();
    [plain, client.lock(KEY).fenced().build().unwrap()]
}

/// No way of acquiring waits for nothing or takes it for "held".
#[track_caller]
fn assert_unavailable(lock: &Lock) {
    let budget = Duration::from_millis(100);
    let begun = Instant::now();
    let waited = lock.acquire_timeout(budget).map(Some);
    assert!(
        budget <= begun.elapsed(),
        "it goes on until the budget ends"
    );
    for outcome in [lock.try_acquire(), lock.acquire().map(Some), waited] {
        assert!(
            outcome.as_ref().is_err_and(Error::is_unavailable),
            "{outcome:?}"
        );
        assert_eq!(outcome.unwrap_err().key(), Some(KEY));
    }
}

#[test]
fn with_memory_full_a_lease_can_be_renewed_and_released() {
    let server = Server::with(&["maxmemory-policy noeviction"]);
    for lock in plain_and_fenced(&server.url()) {
        let lease = take(&lock);
        let dropped = lock.clone();
        fill_memory(&server);
        server.cmd(&["PEXPIRE", KEY, "10000"]);
        lease.renew().unwrap();
        assert!(20_000 < server.pttl(KEY));
        lease.verify().unwrap();
        lease.release().unwrap();
        assert_eq!(server.get(KEY), None);
        free_memory(&server);
        let lease = take(&dropped);
        fill_memory(&server);
        drop(lease);
        assert_eq!(server.get(KEY), None);
        free_memory(&server);
    }
}

#[test]
fn with_memory_full_nothing_can_be_acquired_and_nothing_is_left_behind() {
    let server = Server::with(&["maxmemory-policy noeviction"]);
    for links_are_open in [true, false] {
        let locks = plain_and_fenced(&server.url());
        if links_are_open {
            locks.iter().for_each(|lock| take(lock).release().unwrap());
        }
        server.cmd(&["DEL", COUNTER]);
        server.cmd(&["SCRIPT", "FLUSH"]);
        fill_memory(&server);
        for lock in &locks {
            assert_unavailable(lock);
            assert_eq!((server.get(KEY), server.get(COUNTER)), (None, None));
        }
        free_memory(&server);
        for lock in &locks {
            take(lock).release().unwrap();
        }
    }
}

#[test]
fn a_wait_outlives_full_memory() {
    let server = Server::with(&["maxmemory-policy noeviction"]);
    let proxy = Proxy::to(&server);
    let locks = plain_and_fenced(&proxy.url());
    for (lock, name) in locks.into_iter().zip(["SET", "EVALSHA"]) {
        fill_memory(&server);
        let already = proxy.count(name);
        let attempt = thread::spawn(move || lock.acquire_timeout(PATIENCE));
        proxy.wait_for(name, already + 3);
        free_memory(&server);
        attempt.join().unwrap().unwrap().release().unwrap();
    }
}

#[test]
fn a_primary_with_too_few_replicas_is_unavailable_and_a_release_waits_for_them() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for lock in plain_and_fenced(&proxy.url()) {
        server.cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        assert_unavailable(&lock);
        server.cmd(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        let lease = take(&lock);
        server.cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        assert!(lease.renew().unwrap_err().is_unavailable());
        assert_eq!(lease.state(), LeaseState::Held);
        let already = proxy.count("EVALSHA");
        let release = thread::spawn(move || lease.release());
        proxy.wait_for("EVALSHA", already + 2);
        server.cmd(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        release.join().unwrap().unwrap();
        assert_eq!(server.get(KEY), None);
    }
}

#[test]
fn a_server_that_is_busy_with_a_script_is_unavailable_until_it_is_killed() {
    let server = Server::with(&["lua-time-limit 50"]);
    let proxy = Proxy::to(&server);
    let [plain, fenced] = plain_and_fenced(&proxy.url());
    let lease = take(&plain);
    thread::scope(|scope| {
        let busy = scope.spawn(|| server.try_cmd(&["EVAL", "while true do end", "0"]));
        eventually("the server is busy", PATIENCE, || {
            let answer = server.try_cmd(&["GET", KEY]);
            answer.is_err_and(|error| error.starts_with("BUSY"))
        });
        for lock in [&plain, &fenced] {
            let error = lock.try_acquire().unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
        }
        assert!(lease.verify().unwrap_err().is_unavailable());
        assert!(lease.renew().unwrap_err().is_unavailable());
        assert_eq!(lease.state(), LeaseState::Held);
        let already = proxy.count("EVALSHA");
        let release = thread::spawn(move || lease.release());
        proxy.wait_for("EVALSHA", already + 2);
        server.cmd(&["SCRIPT", "KILL"]);
        busy.join().unwrap().unwrap_err();
        release.join().unwrap().unwrap();
    });
    assert_eq!(server.get(KEY), None);
    take(&plain).release().unwrap();
}

#[test]
fn whatever_means_not_now_is_unavailable() {
    let server = Server::start();
    for reply in [
        "OOM command not allowed when used memory > 'maxmemory'.",
        "READONLY You can't write against a read only replica.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist",
        "NOREPLICAS Not enough good replicas to write.",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN Hash slot not served",
        "ERR max number of clients reached",
        // As Redis 6.2 buries it, where a script met it.
        "ERR Error running script (call to f_00): @user_script:30: @user_script: 30: -MISCONF no",
    ] {
        let proxy = Proxy::to(&server);
        let locks = plain_and_fenced(&proxy.url());
        let rule = proxy.answer(
            Matcher::any_of(&["SET", "EVALSHA"]),
            &format!("-{reply}\r\n"),
        );
        for lock in &locks {
            let error = lock.try_acquire().unwrap_err();
            assert!(error.is_unavailable(), "{reply}: {error:?}");
        }
        rule.end();
        for lock in &locks {
            take(lock).release().unwrap();
        }
    }
}
