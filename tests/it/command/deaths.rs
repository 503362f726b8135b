//! Nothing of the command runs when somebody else can have the lock, whoever of the three
//! processes has died or stands still.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{
    KEY, Running, assert_nothing_is_left, eventually_dead, is_dead, kill, numbers, parent, run,
    state,
};
use crate::support::{PATIENCE, Server, eventually};

/// The command is asked to end after one second and killed after two, one before the end.
pub(super) const OPTIONS: [&str; 4] = ["--ttl", "3s", "--danger", "2s"];

/// A shell with two children, of which one does not mind SIGTERM.
const FAMILY: &str = "
    sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & deaf=$!
    sh -c 'while :; do sleep 0.05; done' & other=$!
    trap 'echo asked' TERM
    echo $$ $deaf $other
    while :; do wait; done";

/// It runs, with these processes, and its lock is held at least until then.
#[track_caller]
fn family(server: &Server, options: &[&str]) -> (Running, Vec<u32>) {
    let mut running = Running::start(&mut run(server, options, FAMILY));
    let family = numbers(&running.line());
    assert_eq!(family.len(), 3);
    assert!(family.iter().all(|id| !is_dead(*id)));
    (running, family)
}

/// A second before the deadline is the promise; half of it is for the machine.
pub(super) const EARLIER: Duration = Duration::from_millis(500);

/// Where leasehold itself stands still, it is half a second, and a busy machine may need all of it.
pub(super) const WITHOUT_LEASEHOLD: Duration = Duration::ZERO;

/// When the server will let go of a record that nobody renews.
#[track_caller]
pub(super) fn expiry(server: &Server) -> Instant {
    let asked = Instant::now();
    asked + Duration::from_millis(server.pttl(KEY).try_into().expect("it is held"))
}

/// Stops it between two renewals, so that it is known when the record expires.
#[track_caller]
pub(super) fn stop(server: &Server) -> Instant {
    let mut earliest = Instant::now();
    eventually("it was renewed just now", PATIENCE, || {
        earliest = expiry(server);
        Duration::from_millis(2_950) < earliest.saturating_duration_since(Instant::now())
    });
    server.stop();
    earliest
}

#[track_caller]
pub(super) fn assert_dead_before(expiry: Instant, earlier: Duration, family: &[u32]) {
    eventually_dead(family, PATIENCE);
    let left = expiry.saturating_duration_since(Instant::now());
    assert!(earlier < left, "{left:?} before the record expires");
}

#[test]
fn a_server_that_stands_still_is_the_end_of_the_whole_group_before_the_record_expires() {
    let server = Server::start();
    let (running, family) = family(&server, &OPTIONS);
    let expiry = stop(&server);
    assert_dead_before(expiry, EARLIER, &family);
    let ended = running.end();
    assert_eq!((ended.code, ended.out.contains("asked")), (Some(70), true));
    assert!(ended.err.contains("danger"), "{}", ended.err);
    assert!(ended.err.contains("killed"), "{}", ended.err);
    server.cont();
    eventually("the record is gone", PATIENCE, || server.get(KEY).is_none());
    assert_nothing_is_left(&server);
}

/// A shell that minds SIGTERM, and a child that does not. It ends by itself if nobody ends it.
const ORPHAN: &str = "
    sh -c 'trap \"\" TERM; echo $PPID $$; exec sleep 30' &
    wait";

#[test]
fn a_child_that_does_not_mind_sigterm_does_not_outlive_the_shell_that_does() {
    let server = Server::start();
    let mut running = Running::start(&mut run(&server, &OPTIONS, ORPHAN));
    let family = numbers(&running.line());
    let expiry = stop(&server);
    assert_dead_before(expiry, EARLIER, &family);
    assert_eq!(running.end().code, Some(70));
}

#[test]
fn a_child_that_does_not_mind_sigterm_is_dead_when_a_server_that_is_back_gives_the_lock_to_others()
{
    let server = Server::start();
    let mut running = Running::start(&mut run(&server, &OPTIONS, ORPHAN));
    let family = numbers(&running.line());
    let expiry = stop(&server);
    eventually("the shell is dead", PATIENCE, || is_dead(family[0]));
    server.cont();
    eventually("the lock is free", PATIENCE, || server.get(KEY).is_none());
    assert!(is_dead(family[1]));
    assert!(
        Instant::now() < expiry,
        "it was released, and did not expire"
    );
    assert_eq!(running.end().code, Some(70));
}

#[test]
fn when_leasehold_is_killed_the_whole_group_dies_with_it_and_the_record_expires() {
    let server = Server::start();
    let (mut running, mut family) = family(&server, &["--ttl", "20s"]);
    family.push(parent(family[0]));
    running.process.kill();
    // A second is the promise; what is more is for the machine.
    eventually_dead(&family, Duration::from_secs(5));
    assert!(0 < server.pttl(KEY), "nobody is left to release it");
    assert_eq!(running.end().out.matches("asked").count(), 0);
}

#[test]
fn a_command_that_leasehold_has_stopped_dies_with_it_too() {
    let server = Server::start();
    let (mut running, family) = family(
        &server,
        &["--ttl", "20s", "--danger", "16s", "--on-danger", "stop"],
    );
    server.stop();
    eventually("the command is stopped", PATIENCE, || {
        state(family[0]) == 'T'
    });
    running.process.kill();
    eventually_dead(&family, Duration::from_secs(5));
}

#[test]
fn when_leasehold_stands_still_the_group_is_dead_before_the_record_expires() {
    let server = Server::start();
    let (running, family) = family(&server, &OPTIONS);
    running.process.stop();
    assert_dead_before(expiry(&server), WITHOUT_LEASEHOLD, &family);
    eventually("the record expires", PATIENCE, || server.get(KEY).is_none());
    server.cmd(&["SET", KEY, "theirs"]);
    running.process.cont();
    let ended = running.end();
    assert_eq!(ended.code, Some(70), "{}", ended.err);
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
}

#[test]
fn when_the_process_between_stands_still_leasehold_ends_the_group_itself() {
    let server = Server::start();
    let (running, family) = family(&server, &OPTIONS);
    kill(parent(family[0]), Signal::STOP);
    let expiry = stop(&server);
    assert_dead_before(expiry, EARLIER, &family);
    server.cont();
    assert_eq!(running.end().code, Some(70));
}

#[test]
fn when_the_process_between_is_killed_the_command_is_dead_and_the_lock_released() {
    let server = Server::start();
    let (running, family) = family(&server, &["--ttl", "20s"]);
    kill(parent(family[0]), Signal::KILL);
    let ended = running.end();
    assert_eq!(ended.code, Some(128 + 9));
    eventually_dead(&family, Duration::from_secs(5));
    assert_nothing_is_left(&server);
}

#[test]
fn when_the_process_between_is_killed_and_leasehold_cannot_help_the_command_dies_with_it() {
    let server = Server::start();
    let body = "echo $$; exec sleep 30";
    let mut running = Running::start(&mut run(&server, &["--ttl", "20s"], body));
    let command = numbers(&running.line());
    let between = parent(command[0]);
    // Killed as well, it could not help either; but the kernel hangs up for groups whose last
    // parent has died, which would hide whether the command dies by itself.
    running.process.stop();
    kill(between, Signal::KILL);
    eventually_dead(&command, Duration::from_secs(5));
    running.process.kill();
}

#[test]
fn a_group_that_somebody_kills_does_not_hold_the_lock_as_zombies() {
    let server = Server::start();
    let (running, family) = family(&server, &["--ttl", "1m"]);
    let group = Pid::from_raw(parent(family[0]).try_into().unwrap()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    let ended = running.end();
    assert_eq!(ended.code, Some(128 + 9), "{}", ended.err);
    assert_nothing_is_left(&server);
}

#[test]
fn what_a_command_leaves_in_its_group_does_not_hold_the_lock() {
    let server = Server::start();
    // It has closed the streams, for who waits for their end would wait for it.
    let body = "sleep 60 > /dev/null 2>&1 < /dev/null & echo $!; exit 3";
    let mut running = Running::start(&mut run(&server, &[], body));
    let left = numbers(&running.line());
    assert_eq!(running.end().code, Some(3));
    assert_nothing_is_left(&server);
    assert!(!is_dead(left[0]));
    kill(left[0], Signal::KILL);
}
