//! Threads that the system refuses: that is an error of the acquisition, and no silence later.
//!
//! What is refused is the memory for their stacks, which are made large here, so that only so many
//! fit into what the process may have. A limit on the number of threads would be no limit for
//! root, and would count those of other processes.

use std::error::Error as _;
use std::fs;

use leasehold::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{CALL, RENEW, WATCH, alone, names};
use crate::danger::{Gate, OpenedAtLast, block, heard, ms, soon_in_danger};
use crate::links::patient;
use crate::support::{PATIENCE, Server, eventually, logs};
use crate::wire::take;

/// 256 MiB for each, of which next to nothing is used.
const STACK: u64 = 256 << 20;

/// Lets the process start so many threads more.
fn allow(threads: u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = size.unwrap().trim().strip_suffix(" kB").unwrap();
    let used = size.parse::<u64>().unwrap() << 10;
    let most = used + threads * STACK + STACK / 2;
    limit(Some(most));
}

fn limit(current: Option<u64>) {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current, maximum }).unwrap();
}

fn name_of_the_refused(error: &Error) -> String {
    let cause = error.source().expect("its cause");
    let source = cause.source().expect("what the system said");
    assert!(!source.to_string().is_empty());
    cause.to_string()
}

/// Lets only so many of the threads start that a lease needs, in a process that has had none: a
/// stack that was freed may be kept for the next.
fn is_refused(allowed: u64, refused: &str) {
    let server = Server::start();
    let client = patient(&server.url());
    let lock = client.lock("order:1").ttl(ms(60_000));
    let lock = lock.on_danger(|_| {}).on_lost(|_| {}).build().unwrap();
    client.ping().unwrap();
    allow(allowed);
    let error = lock.try_acquire().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let cause = name_of_the_refused(&error);
    assert!(cause.contains(refused), "{cause}");
    assert_eq!(server.get("order:1"), None);
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.released, stats.lost), (0, 0, 0));

    // The next one finds what it needs.
    limit(None);
    let lease = take(&lock);
    eventually("all are there", PATIENCE, || {
        names() == [CALL, RENEW, WATCH]
    });
    lease.release().unwrap();
    drop((lock, client));
    eventually("all have ended", PATIENCE, || names().is_empty());
}

#[test]
fn a_first_callback_thread_that_cannot_be_started_is_an_error_and_leaves_no_record() {
    let stack = STACK.to_string();
    alone(&[("RUST_MIN_STACK", &stack)], || is_refused(0, CALL));
}

#[test]
fn a_watching_thread_that_cannot_be_started_is_an_error_and_leaves_no_record() {
    let stack = STACK.to_string();
    alone(&[("RUST_MIN_STACK", &stack)], || is_refused(1, WATCH));
}

#[test]
fn a_renewing_thread_that_cannot_be_started_is_an_error_and_leaves_no_record() {
    let stack = STACK.to_string();
    alone(&[("RUST_MIN_STACK", &stack)], || is_refused(2, RENEW));
}

#[test]
fn an_adoption_that_finds_no_thread_is_an_error_and_leaves_no_record() {
    let stack = STACK.to_string();
    alone(&[("RUST_MIN_STACK", &stack)], || {
        let server = Server::start();
        let client = patient(&server.url());
        let lock = client.lock("order:1").ttl(ms(60_000));
        let unkept = lock.without_renewal().build().unwrap();
        let kept = client.lock("order:1").build().unwrap();
        allow(0);
        // A lease that needs no thread is taken without one.
        take(&unkept).release().unwrap();
        let token = take(&unkept).detach();
        let error = kept.adopt(token).unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        let cause = name_of_the_refused(&error);
        assert!(cause.contains(RENEW), "{cause}");
        assert_eq!(server.get("order:1"), None);
        limit(None);
    });
}

#[test]
fn callbacks_that_find_no_thread_wait_for_one_that_is_there_and_the_log_says_so() {
    let stack = STACK.to_string();
    alone(&[("RUST_MIN_STACK", &stack)], || {
        let server = Server::start();
        let client = patient(&server.url());
        let mark = logs::mark();
        let gate = Gate::default();
        let opened = OpenedAtLast(gate.clone());
        let blocked = block(&client, 1, &gate);
        allow(0);
        let (lock, ear) = heard(soon_in_danger(&client, "order:1"));
        let lease = take(&lock.build().unwrap());
        eventually("it is in danger", PATIENCE, || client.stats().danger == 2);
        opened.0.open();
        ear.next().danger();
        eventually("the log says so", PATIENCE, || {
            logs::any_containing(mark, CALL)
        });
        limit(None);
        drop((lease, blocked));
    });
}
