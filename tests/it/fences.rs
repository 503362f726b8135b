//! Fences: they only grow, and there is no fenced lock without one.

use std::sync::Mutex;
use std::thread;

use leasehold::{Client, FenceGate, Lock};

use crate::links::patient;
use crate::support::{PATIENCE, Server};
use crate::wire::take;

const KEY: &str = "order:1";
const COUNTER: &str = "order:1:leasehold:fence";
const THIRTY_DAYS: i64 = 30 * 24 * 60 * 60 * 1000;

fn fenced(client: &Client) -> Lock {
    client.lock(KEY).fenced().build().unwrap()
}

/// Takes the lock and gives it back: its fence.
#[track_caller]
fn draw(lock: &Lock) -> u64 {
    let lease = take(lock);
    let fence = lease.fence().expect("a fenced lease has a fence");
    lease.release().unwrap();
    fence
}

#[test]
fn fences_grow_from_one_holder_to_the_next_whoever_it_is() {
    let server = Server::start();
    let drawn = Mutex::new(Vec::new());
    let gate = FenceGate::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            let lock = patient(&server.url()).lock(KEY).fenced().build().unwrap();
            let (drawn, gate) = (&drawn, &gate);
            scope.spawn(move || {
                for _ in 0..20 {
                    let lease = lock.acquire_timeout(PATIENCE).unwrap();
                    let fence = lease.fence().unwrap();
                    gate.admit(fence).expect("it is the newest holder");
                    drawn.lock().unwrap().push(fence);
                    lease.release().unwrap();
                }
            });
        }
    });
    let drawn = drawn.into_inner().unwrap();
    assert_eq!(drawn.len(), 80);
    assert!(drawn.is_sorted_by(|one, next| one < next), "{drawn:?}");
}

#[test]
fn fences_grow_on_after_their_counter_was_lost() {
    let server = Server::start();
    let lock = fenced(&patient(&server.url()));
    let mut last = draw(&lock);
    let losses: [&[&str]; 4] = [
        &["DEL", COUNTER],
        &["FLUSHALL"],
        &["PEXPIRE", COUNTER, "1"],
        &["SET", COUNTER, "3"],
    ];
    for loss in losses {
        server.cmd(loss);
        let fence = draw(&lock);
        assert!(last < fence, "{last} and then {fence} after {loss:?}");
        last = fence;
    }
    server.restart();
    assert!(last < lock.acquire_timeout(PATIENCE).unwrap().fence().unwrap());
}

#[test]
fn a_counter_ahead_of_the_servers_time_grows_by_one() {
    let server = Server::start();
    let lock = fenced(&patient(&server.url()));
    server.cmd(&["SET", COUNTER, "9007199254740988"]);
    assert_eq!(draw(&lock), 9_007_199_254_740_989);
    assert_eq!(draw(&lock), 9_007_199_254_740_990);
    assert_eq!(draw(&lock), 9_007_199_254_740_991);
    assert_eq!(
        server.get(COUNTER).as_deref(),
        Some("9007199254740991"),
        "digits, and no exponent"
    );
}

#[test]
fn the_counter_is_a_sibling_key_that_lives_for_thirty_days_after_each_acquisition() {
    let server = Server::start();
    let lock = fenced(&patient(&server.url()));
    for _ in 0..2 {
        let lease = take(&lock);
        let fence = lease.fence().unwrap().to_string();
        assert_eq!(server.get(COUNTER), Some(fence.clone()));
        let left = server.pttl(COUNTER);
        assert!(THIRTY_DAYS - 60_000 < left && left <= THIRTY_DAYS, "{left}");
        lease.renew().unwrap();
        lease.release().unwrap();
        assert_eq!(server.get(COUNTER), Some(fence), "it outlives the lease");
        server.cmd(&["PEXPIRE", COUNTER, "60000"]);
    }
    // A user whose rights cover the lock's pattern covers it.
    let plain = patient(&server.url()).lock(KEY).build().unwrap();
    assert_eq!(take(&plain).fence(), None);
}

#[test]
fn an_attempt_at_a_held_lock_does_not_move_the_counter() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = fenced(&client);
    let holder = take(&lock);
    let counted = server.get(COUNTER);
    assert_eq!(counted, holder.fence().map(|fence| fence.to_string()));
    for _ in 0..3 {
        assert!(lock.try_acquire().unwrap().is_none());
    }
    assert_eq!(server.get(COUNTER), counted);
    holder.release().unwrap();
    // Nor does it make one where somebody holds the lock without a fence.
    server.cmd(&["DEL", COUNTER]);
    let _plain = take(&client.lock(KEY).build().unwrap());
    assert!(lock.try_acquire().unwrap().is_none());
    assert_eq!(server.get(COUNTER), None);
}

#[test]
fn a_counter_that_cannot_grow_is_refused_and_takes_no_lock() {
    let server = Server::start();
    let lock = fenced(&patient(&server.url()));
    for text in [
        "9007199254740991",
        "9007199254740992",
        "9223372036854775807",
        "99999999999999999999999",
        "nonsense",
        "",
        "1.5",
        "0x10",
        "1e3",
        "nan",
        "-nan",
        "inf",
        "-inf",
        " 7",
        "7 ",
        "07",
        "+7",
    ] {
        server.cmd(&["SET", COUNTER, text]);
        for outcome in [
            lock.try_acquire(),
            lock.acquire().map(Some),
            lock.acquire_timeout(PATIENCE).map(Some),
        ] {
            let error = outcome.expect_err(text);
            assert!(error.is_refused(), "{text:?}: {error:?}");
            assert_eq!(error.key(), Some(KEY));
        }
        assert_eq!(server.get(KEY), None);
        assert_eq!(server.get(COUNTER).as_deref(), Some(text));
    }
    server.cmd(&["DEL", COUNTER]);
    draw(&lock);
}

#[test]
fn a_counter_of_another_type_is_refused_and_the_lock_is_not_blamed() {
    let server = Server::start();
    let lock = fenced(&patient(&server.url()));
    server.cmd(&["RPUSH", COUNTER, "a list"]);
    let error = lock.try_acquire().unwrap_err();
    assert!(error.is_refused() && !error.is_wrong_type(), "{error:?}");
    assert_eq!(server.get(KEY), None);
}

#[test]
fn a_lock_of_another_type_is_said_to_be_one_and_draws_no_fence() {
    let server = Server::start();
    let lock = fenced(&patient(&server.url()));
    server.cmd(&["RPUSH", KEY, "a list"]);
    for outcome in [
        lock.try_acquire(),
        lock.acquire().map(Some),
        lock.acquire_timeout(PATIENCE).map(Some),
    ] {
        let error = outcome.unwrap_err();
        assert!(error.is_wrong_type(), "{error:?}");
        assert_eq!(error.key(), Some(KEY));
    }
    assert_eq!(server.get(COUNTER), None);
}
