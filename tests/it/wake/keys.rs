//! What waiting leaves on the server, and who is told of it.

use leasehold::{Client, Lock};
use redis::Value;

use super::{AMPLE, FENCE, KEY, Waiter, hold, let_pass, lock, lock_of, ms, wait_until_blocked};
use crate::links::patient;
use crate::support::{Monitor, PATIENCE, Server, eventually};
use crate::waiting::Aside;

/// By then what was written for waiters has gone, and some more for a busy machine.
const GONE: std::time::Duration = ms(3000);

fn keys(server: &Server) -> Vec<String> {
    let Value::Array(keys) = server.cmd(&["KEYS", "*"]) else {
        panic!("KEYS did not answer with a list");
    };
    keys.into_iter()
        .map(|key| match key {
            Value::BulkString(key) => String::from_utf8(key).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// What is written for waiters in any of the scripts' steps.
fn written_for_waiters(monitor: &Monitor<'_>) -> usize {
    let of_scripts = monitor.commands_of_scripts();
    let writes = of_scripts
        .iter()
        .filter(|words| matches!(&*words[0], "SET" | "LPUSH") && words[1].contains(":leasehold:w"));
    writes.count()
}

#[test]
fn where_nobody_waits_no_sibling_is_ever_made() {
    let server = Server::start();
    let monitor = Monitor::on(&server);
    let client = patient(&server.url());
    for fenced in [false, true] {
        let build = client.lock(KEY);
        let build = if fenced { build.fenced() } else { build };
        let own = build.build().unwrap();
        for _ in 0..20 {
            let lease = own.acquire_timeout(AMPLE).unwrap();
            // Who does not wait is not to be woken.
            assert!(lock(&server.url()).try_acquire().unwrap().is_none());
            let none = lock(&server.url()).acquire_timeout(ms(0));
            assert!(none.unwrap_err().is_timeout());
            lease.release().unwrap();
        }
        let expected: &[&str] = if fenced { &[FENCE] } else { &[] };
        assert_eq!(keys(&server), expected);
    }
    assert_eq!(written_for_waiters(&monitor), 0);
}

#[test]
fn soon_after_the_last_waiter_only_the_fence_counter_is_left() {
    let server = Server::start();
    let monitor = Monitor::on(&server);
    let fenced = |client: &Client| client.lock(KEY).fenced().build().unwrap();
    let cycles = |lock: Lock| {
        Aside::start(move || {
            for _ in 0..10 {
                let lease = lock.acquire_timeout(AMPLE).unwrap();
                let_pass(ms(1));
                lease.release().unwrap();
            }
        })
    };
    // Some of one client, and some of clients of their own; and one that gives up.
    let client = patient(&server.url());
    let mut all: Vec<_> = (0..4).map(|_| cycles(fenced(&client))).collect();
    all.extend((0..4).map(|_| cycles(fenced(&patient(&server.url())))));
    let impatient = fenced(&patient(&server.url()));
    let impatient = Aside::start(move || impatient.acquire_timeout(ms(130)).map(drop));
    for one in all {
        one.value();
    }
    let _ = impatient.value();
    assert!(0 < written_for_waiters(&monitor));
    eventually("only the counter is left", GONE, || {
        keys(&server) == [FENCE]
    });
}

#[test]
fn what_was_written_for_a_waiter_that_gave_up_goes_by_itself() {
    let server = Server::start();
    let holder = hold(&server);
    let error = lock(&server.url()).acquire_timeout(ms(300)).unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(keys(&server).len(), 2, "{:?}", keys(&server));
    // Its wake-up is for nobody.
    holder.release().unwrap();
    assert_eq!(keys(&server).len(), 2, "{:?}", keys(&server));
    eventually("nothing is left", GONE, || keys(&server).is_empty());
}

#[test]
fn a_holder_is_known_to_be_waited_for_while_somebody_waits() {
    let rights = "+set +eval +evalsha +get +del +pexpire +pttl +script +role +client +exists";
    let server = Server::with(&[&format!("user app on >secret ~{KEY} {rights}")]);
    let client = patient(&server.url());
    let waited_for = |client: &Client| {
        let holder = client.inspect(KEY).unwrap().expect("it is held");
        holder.is_waited_for()
    };
    assert!(client.inspect(KEY).unwrap().is_none());
    let holder = hold(&server);
    assert_eq!(waited_for(&client), Some(false));
    // A try is no wait.
    assert!(lock_of(&client).try_acquire().unwrap().is_none());
    assert_eq!(waited_for(&client), Some(false));
    let canceller = leasehold::Canceller::new();
    let (own, other) = (canceller.clone(), lock(&server.url()));
    let waiter = Aside::start(move || other.acquire_cancellable(None, &own));
    wait_until_blocked(&server, 1);
    // For as long as it waits.
    for _ in 0..25 {
        assert_eq!(waited_for(&client), Some(true));
        let_pass(ms(100));
    }
    let app = patient(&server.url_as("app", "secret"));
    assert_eq!(waited_for(&app), None);
    canceller.cancel();
    assert!(waiter.value().unwrap().is_none());
    eventually("nobody waits", GONE, || waited_for(&client) == Some(false));
    let again = Waiter::start(&patient(&server.url()), |lock| lock.acquire());
    wait_until_blocked(&server, 1);
    holder.release().unwrap();
    let (lease, _) = again.lease();
    lease.release().unwrap();
    eventually("the lock is free", PATIENCE, || {
        client.inspect(KEY).unwrap().is_none()
    });
}
