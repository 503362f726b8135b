//! The signals that `leasehold run` is sent.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use super::{
    FOREVER, KEY, Running, assert_nothing_is_left, beside, children, leasehold, run, run_at,
};
use crate::support::{PATIENCE, Proxy, Server, eventually};

const FORWARDED: [(&str, Signal); 7] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("WINCH", Signal::WINCH),
];

/// Says that it runs, and each signal; ends with 3 when it is told to.
const LISTENS: &str = "
    ulimit -c 0
    for name in HUP INT QUIT TERM USR1 USR2 WINCH; do trap \"echo got $name\" $name; done
    echo runs
    while [ ! -e \"$DONE\" ]; do sleep 0.05; done
    exit 3";

/// Waits for a lock that others hold.
#[track_caller]
fn waiting(server: &Server, command: &mut Command) -> Running {
    server.cmd(&["SET", KEY, "theirs"]);
    let running = Running::start(command);
    // Its handlers stand by the time it has a link.
    eventually("it waits", PATIENCE, || !server.clients().is_empty());
    running
}

#[test]
fn signals_go_to_the_command_once_each_and_its_code_counts() {
    let server = Server::start();
    let done = beside(&server, "done");
    let mut running = Running::start(run(&server, &[], LISTENS).env("DONE", &done));
    assert_eq!(running.line(), "runs");
    let mut expected = String::from("runs\n");
    for (name, signal) in FORWARDED {
        running.process.signal(signal);
        assert_eq!(running.line(), format!("got {name}"));
        expected += &format!("got {name}\n");
    }
    fs::write(done, "").unwrap();
    let ended = running.end();
    assert_eq!((ended.code, ended.out), (Some(3), expected));
    // The shell tells of the naps that were cut short.
    assert!(!ended.err.contains("leasehold"), "{}", ended.err);
    assert_nothing_is_left(&server);
}

#[test]
fn a_command_that_a_forwarded_signal_ends_is_128_and_its_number() {
    let server = Server::start();
    for (name, signal) in FORWARDED {
        if name == "WINCH" {
            // It ends nobody.
            continue;
        }
        let body = format!("ulimit -c 0; {FOREVER}");
        let mut running = Running::start(&mut run(&server, &[], &body));
        assert_eq!(running.line(), "tail");
        running.process.signal(signal);
        let ended = running.end();
        assert_eq!(ended.code, Some(128 + signal.as_raw()), "{name}");
        assert_eq!(ended.err, "", "the lease has nothing to do with it");
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_signal_that_comes_while_the_command_is_being_started_is_not_lost() {
    let server = Server::start();
    for round in 0..40 {
        let mut command = leasehold(&["run", "--url", &server.url(), KEY, "--"]);
        let running = Running::start(command.args(["tail", "-f", "/dev/null"]));
        let id = running.process.id();
        eventually("it starts a process", PATIENCE, || !children(id).is_empty());
        if round % 2 == 1 {
            // Later, by the time that it takes to read a few files.
            (0..round).for_each(|_| drop(children(id)));
        }
        running.process.signal(Signal::TERM);
        let ended = running.end();
        assert_eq!(ended.code, Some(128 + 15), "{}", ended.err);
        assert_nothing_is_left(&server);
    }
}

#[test]
fn while_it_waits_the_ending_ones_end_the_wait_and_leave_nothing_behind() {
    let server = Server::start();
    for (name, signal) in &FORWARDED[..4] {
        for options in [&["--wait", "1m"][..], &["--wait-forever", "--fenced"]] {
            let running = waiting(&server, &mut run(&server, options, "echo runs"));
            running.process.signal(*signal);
            let ended = running.end();
            assert_eq!(ended.code, Some(128 + signal.as_raw()), "{name}");
            assert_eq!(ended.out, "");
            assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
            server.cmd(&["DEL", KEY]);
            assert_nothing_is_left(&server);
        }
    }
}

#[test]
fn a_signal_while_the_server_does_not_answer_ends_it_within_its_timeouts() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    server.cmd(&["SET", KEY, "theirs"]);
    let attempt = proxy.swallow("SET");
    let options = ["--wait-forever"];
    let running = Running::start(&mut run_at(&proxy.url(), &options, "echo runs"));
    attempt.wait();
    proxy.swallow_everything();
    running.process.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(128 + 15), ""));
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
}

#[test]
fn while_it_waits_the_others_do_not_end_the_wait() {
    let server = Server::start();
    let command = &mut run(&server, &["--wait-forever"], "echo runs; exit 3");
    let running = waiting(&server, command);
    for (_, signal) in &FORWARDED[4..] {
        running.process.signal(*signal);
    }
    server.cmd(&["DEL", KEY]);
    let ended = running.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), "runs\n"));
}

#[test]
fn what_was_ignored_when_it_was_started_stays_ignored() {
    // As with `nohup`, and with INT and QUIT behind a script's `&`.
    let server = Server::start();
    let done = beside(&server, "done");
    let body = "echo runs; while [ ! -e \"$DONE\" ]; do sleep 0.05; done; exit 3";
    let inner = run(&server, &["--wait-forever"], body);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"]);
    command
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("DONE", &done);
    let mut running = waiting(&server, &mut command);
    let send = |running: &Running| {
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT] {
            running.process.signal(signal);
        }
    };
    send(&running);
    server.cmd(&["DEL", KEY]);
    assert_eq!(running.line(), "runs");
    send(&running);
    fs::write(done, "").unwrap();
    let ended = running.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(3), ""));
}
