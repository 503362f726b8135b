//! What leaves the group that the command was started in (`timeout`, `setsid`, daemons) is ended
//! with it all the same.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid};

use super::deaths::{EARLIER, OPTIONS, WITHOUT_LEASEHOLD, assert_dead_before, expiry, stop};
use super::{KEY, Running, children, eventually_dead, is_dead, numbers, run};
use crate::support::{PATIENCE, Server, eventually};

/// Does not mind SIGTERM, but ends by itself if nobody ends it.
const DEAF: &str = "trap '' TERM; echo $$; exec sleep 30";

/// The command itself leaves, or a child of it, or one that has no parent any more.
const WAYS: [&str; 3] = [
    "exec timeout 100 sh -c \"$LEAVER\"",
    "setsid sh -c \"$LEAVER\" & wait",
    "(setsid sh -c \"$LEAVER\" &); exec sleep 30",
];

/// For each of the ways; none waits for another, for each takes seconds.
fn in_each_way(check: impl Fn(Server, &'static str) + Sync) {
    thread::scope(|scope| {
        for way in WAYS {
            scope.spawn(|| check(Server::start(), way));
        }
    });
}

/// It runs, and this process of it has left.
#[track_caller]
fn leave(server: &Server, options: &[&str], way: &str, leaver: &str) -> (Running, Vec<u32>) {
    let mut running = Running::start(run(server, options, way).env("LEAVER", leaver));
    let left = numbers(&running.line());
    let between = children(running.process.id());
    let group = |id: u32| getpgid(Pid::from_raw(id.try_into().unwrap())).unwrap();
    assert_ne!(group(left[0]), group(between[0]), "{way}");
    (running, left)
}

#[test]
fn what_has_left_the_group_is_dead_before_the_record_expires() {
    in_each_way(|server, way| {
        let (running, left) = leave(&server, &OPTIONS, way, DEAF);
        let expiry = stop(&server);
        assert_dead_before(expiry, EARLIER, &left);
        assert_eq!(running.end().code, Some(70), "{way}");
    });
}

#[test]
fn what_has_left_the_group_is_dead_before_the_record_expires_when_leasehold_stands_still() {
    in_each_way(|server, way| {
        let (running, left) = leave(&server, &OPTIONS, way, DEAF);
        running.process.stop();
        assert_dead_before(expiry(&server), WITHOUT_LEASEHOLD, &left);
        eventually("the record expires", PATIENCE, || server.get(KEY).is_none());
        running.process.cont();
        assert_eq!(running.end().code, Some(70), "{way}");
    });
}

#[test]
fn what_has_left_the_group_dies_when_leasehold_is_killed() {
    in_each_way(|server, way| {
        let (mut running, left) = leave(&server, &["--ttl", "20s"], way, DEAF);
        running.process.kill();
        eventually_dead(&left, Duration::from_secs(5));
    });
}

#[test]
fn what_has_left_the_group_is_sent_the_signals_that_leasehold_is_sent() {
    let leaver = "
        trap 'echo asked; exit 6' TERM
        echo $$
        i=0; while [ $i -lt 600 ]; do i=$((i+1)); sleep 0.05; done";
    in_each_way(|server, way| {
        let (mut running, left) = leave(&server, &[], way, leaver);
        running.process.signal(Signal::TERM);
        assert_eq!(running.line(), "asked", "{way}");
        eventually_dead(&left, Duration::from_secs(5));
        assert_ne!(running.end().code, None, "{way}");
    });
}

#[test]
fn a_daemon_outlives_a_command_that_ends_by_itself() {
    let server = Server::start();
    let way = "(setsid sh -c \"$LEAVER\" &); read -r line; exit 3";
    let leaver = "echo $$; exec sleep 30 > /dev/null 2>&1 < /dev/null";
    let (running, left) = leave(&server, &[], way, leaver);
    assert_eq!(running.end().code, Some(3));
    assert!(!is_dead(left[0]));
    super::kill(left[0], Signal::KILL);
}
