//! Keys that others have put something into that is not a lock of ours.

use std::time::Instant;

use leasehold::Canceller;

use super::said;
use crate::links::patient;
use crate::support::{PATIENCE, Proxy, Server, eventually, logs, within};
use crate::waiting::Aside;
use crate::wire::records_set;

/// A server on which `order:1` is a list.
fn with_a_list() -> Server {
    let server = Server::start();
    server.cmd(&["RPUSH", "order:1", "a", "b"]);
    server
}

#[track_caller]
fn assert_untouched(server: &Server) {
    let list = server.cmd(&["LRANGE", "order:1", "0", "-1"]);
    let text = |word: &str| redis::Value::BulkString(word.as_bytes().to_vec());
    assert_eq!(list, redis::Value::Array(vec![text("a"), text("b")]));
    assert_eq!(server.pttl("order:1"), -1);
}

#[test]
fn a_key_that_holds_a_list_is_held_for_one_try_and_told_to_whoever_waits_or_looks() {
    let server = with_a_list();
    let client = patient(&server.url());
    let lock = client.lock("order:1").build().unwrap();
    assert_eq!(lock.try_acquire().unwrap().map(drop), None);
    let errors = within(PATIENCE, move || {
        let budget = 3 * PATIENCE;
        let canceller = Canceller::new();
        [
            lock.acquire().unwrap_err(),
            lock.acquire_timeout(budget).unwrap_err(),
            lock.acquire_deadline(Instant::now() + budget).unwrap_err(),
            lock.acquire_cancellable(None, &canceller).unwrap_err(),
            client.inspect("order:1").unwrap_err(),
        ]
    });
    for error in errors {
        assert!(error.is_wrong_type() && !error.is_timeout(), "{error:?}");
        assert_eq!(error.key(), Some("order:1"));
        said(&error);
    }
    assert_untouched(&server);
}

#[test]
fn a_fenced_lock_leaves_a_list_alone_too() {
    let server = with_a_list();
    let client = patient(&server.url());
    let lock = client.lock("order:1").fenced().build().unwrap();
    match lock.try_acquire() {
        Ok(taken) => assert!(taken.is_none()),
        Err(error) => assert!(error.is_wrong_type(), "{error:?}"),
    }
    assert!(lock.acquire_timeout(PATIENCE).unwrap_err().is_wrong_type());
    assert_untouched(&server);
    assert_eq!(server.get("order:1:leasehold:fence"), None);
}

#[test]
fn a_record_that_becomes_a_list_is_not_deleted_by_its_former_holder() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock("order:1").build().unwrap();
    let lease = lock.try_acquire().unwrap().unwrap();
    server.cmd(&["DEL", "order:1"]);
    server.cmd(&["RPUSH", "order:1", "a", "b"]);
    let other = lease.watch();
    assert!(lease.verify().unwrap_err().is_lost());
    assert!(other.check().unwrap_err().is_lost());
    assert!(lease.release().unwrap_err().is_lost());
    assert_untouched(&server);
}

/// A fence counter that is not a number is nobody's fault of this call, and is not repaired.
#[test]
fn a_fence_counter_that_is_no_counter_is_refused_and_stays() {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock("order:1").fenced().build().unwrap();
    for text in [
        "not a number",
        "12.5",
        "0x10",
        "nan",
        "inf",
        "-1e400",
        "9007199254740991",
    ] {
        server.cmd(&["SET", "order:1:leasehold:fence", text]);
        let error = lock.acquire_timeout(PATIENCE).unwrap_err();
        assert!(error.is_refused(), "{text}: {error:?}");
        assert!(said(&error)[0].contains("EVALSHA"), "{error}");
        assert_eq!(server.get("order:1"), None, "{text}");
        assert_eq!(server.get("order:1:leasehold:fence").as_deref(), Some(text));
    }
    server.cmd(&["DEL", "order:1:leasehold:fence"]);
    server.cmd(&["RPUSH", "order:1:leasehold:fence", "x"]);
    let error = lock.acquire_timeout(PATIENCE).unwrap_err();
    assert!(error.is_wrong_type() || error.is_refused(), "{error:?}");
    assert_eq!(server.get("order:1"), None);
}

#[test]
fn a_foreign_record_without_an_expiry_is_logged_once_by_each_wait() {
    let server = Server::start();
    server.cmd(&["SET", "order:for-ever", "a foreign client's"]);
    let proxy = Proxy::to(&server);
    let client = patient(&proxy.url());
    let mark = logs::mark();
    let warnings = || {
        let all = logs::containing(mark, "`order:for-ever`");
        all.iter()
            .filter(|record| record.text.contains("without an expiry"))
            .count()
    };
    for waits in 1..=2 {
        let tries = || records_set(&proxy.commands()).len();
        let before = tries();
        let canceller = Canceller::new();
        let lock = client.lock("order:for-ever").build().unwrap();
        let cancelled = canceller.clone();
        let waiter = Aside::start(move || lock.acquire_cancellable(None, &cancelled));
        // From the second try on each is told of the record; that of the third must not be told
        // again, and it goes on trying.
        eventually("the waiter has tried often", PATIENCE, || {
            before + 4 <= tries()
        });
        canceller.cancel();
        assert!(waiter.value().unwrap().is_none());
        assert_eq!(warnings(), waits);
    }
    assert_eq!(
        server.get("order:for-ever").as_deref(),
        Some("a foreign client's")
    );
    assert_eq!(
        client
            .inspect("order:for-ever")
            .unwrap()
            .unwrap()
            .remaining(),
        None
    );
}

#[test]
fn a_record_with_an_expiry_is_waited_for_without_a_warning() {
    let server = Server::start();
    server.cmd(&["SET", "order:mortal", "a foreign client's", "PX", "200"]);
    let mark = logs::mark();
    let lock = patient(&server.url()).lock("order:mortal").build().unwrap();
    lock.acquire_timeout(PATIENCE).unwrap().release().unwrap();
    assert!(!logs::any_containing(
        mark,
        "`order:mortal` is held by a record without"
    ));
}
