//! What is done when the lease is in danger, and when it recovers.

use std::fs;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;

use super::{
    FOREVER, KEY, Lines, Running, assert_nothing_is_left, beside, children, end, eventually_dead,
    is_dead, numbers, run, run_at, state, written,
};
use crate::support::{Matcher, PATIENCE, Process, Proxy, RuleHandle, Server, eventually};

/// The danger zone is long, so that a recovery in it is one on a starved machine too.
const OPTIONS: [&str; 4] = ["--ttl", "5s", "--danger", "2500ms"];

/// Says its number; ends with 3 when it is told to, and with 5 when it is asked to.
const POLITE: &str = "
    trap 'echo asked; exit 5' TERM
    echo $$
    while [ ! -e \"$DONE\" ]; do sleep 0.05; done
    exit 3";

struct Scene {
    server: Server,
    proxy: Proxy,
}

impl Scene {
    fn set() -> Self {
        let server = Server::start();
        let proxy = Proxy::to(&server);
        Self { server, proxy }
    }

    fn run(&self, options: &[&str], body: &str) -> Command {
        let options = [&OPTIONS[..], options].concat();
        let mut command = run_at(&self.proxy.url(), &options, body);
        command.env("DONE", beside(&self.server, "done"));
        command
    }

    /// No renewal is confirmed, and no release, until the rule is ended.
    fn trouble(&self) -> RuleHandle {
        let busy = "-LOADING Redis is loading the dataset in memory\r\n";
        self.proxy.answer(Matcher::evalsha(), busy)
    }

    fn done(&self) {
        fs::write(beside(&self.server, "done"), "").unwrap();
    }
}

#[test]
fn a_command_in_danger_is_asked_to_end_and_may_end_with_a_code_of_its_own() {
    let scene = Scene::set();
    let mut running = Running::start(&mut scene.run(&[], POLITE));
    running.line();
    let trouble = scene.trouble();
    // The shell may have said before that its child was ended.
    assert!(running.word().contains("danger"));
    assert_eq!(running.line(), "asked");
    trouble.end();
    assert_eq!(running.end().code, Some(5));
    assert_nothing_is_left(&scene.server);
}

#[test]
fn a_command_that_is_ended_in_danger_is_70() {
    let scene = Scene::set();
    let mut running = Running::start(&mut scene.run(&[], FOREVER));
    running.line();
    let trouble = scene.trouble();
    assert!(running.word().contains("danger"));
    trouble.end();
    let ended = running.end();
    assert_eq!(ended.code, Some(70));
    assert_nothing_is_left(&scene.server);
}

#[test]
fn a_child_has_its_time_to_tidy_up_also_when_the_shell_above_it_has_ended_at_once() {
    let scene = Scene::set();
    let child =
        "trap 'sleep 0.5; echo tidied; exit 5' TERM; echo runs; while :; do sleep 0.05; done";
    let mut command = scene.run(&[], "bash -c \"$CHILD\"; echo next");
    let mut running = Running::start(command.env("CHILD", child));
    running.line();
    let trouble = scene.trouble();
    assert_eq!(running.line(), "tidied");
    trouble.end();
    let ended = running.end();
    assert_eq!((ended.code, ended.out.contains("next")), (Some(70), false));
    assert_nothing_is_left(&scene.server);
}

/// Says its number and that it was asked, and minds it the next time only.
const NOTES: &str = "
    trap 'echo asked; trap - TERM' TERM
    echo $$
    while :; do sleep 0.05; done";

#[test]
fn a_command_that_an_operator_ends_when_the_lease_has_recovered_is_143() {
    let scene = Scene::set();
    let mut running = Running::start(&mut scene.run(&[], NOTES));
    running.line();
    let trouble = scene.trouble();
    assert_eq!(running.line(), "asked");
    trouble.end();
    eventually("it has recovered", PATIENCE, || {
        running.word().contains("recovered")
    });
    running.process.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(128 + 15));
    assert_nothing_is_left(&scene.server);
}

/// A pipe that has room for nothing more.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 1]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
fn a_standard_error_that_nobody_reads_holds_nothing_up() {
    let scene = Scene::set();
    for (body, wanted) in [(POLITE, 5), (FOREVER, 70)] {
        let (_reader, writer) = full_pipe();
        let body = format!("exec 2> /dev/null; {body}");
        let mut command = scene.run(&["--verbose"], &body);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(writer);
        let mut process = Process::start(&mut command, None).unwrap();
        let mut out = Lines::of(process.take_stdout().unwrap());
        out.next();
        if wanted == 5 {
            let trouble = scene.trouble();
            assert_eq!(out.next(), "asked");
            trouble.end();
        } else {
            scene.server.cmd(&["SET", KEY, "theirs"]);
        }
        assert_eq!(process.wait(PATIENCE).code(), Some(wanted));
    }
}

#[test]
fn a_command_that_is_stopped_in_danger_goes_on_when_the_lease_recovers() {
    let scene = Scene::set();
    let mut running = Running::start(&mut scene.run(&["--on-danger", "stop"], POLITE));
    let command = numbers(&running.line())[0];
    for _ in 0..2 {
        let trouble = scene.trouble();
        eventually("it is stopped", PATIENCE, || state(command) == 'T');
        assert!(running.word().contains("danger"));
        trouble.end();
        eventually("it goes on", PATIENCE, || state(command) != 'T');
        assert!(running.word().contains("recovered"));
    }
    scene.done();
    let ended = running.end();
    assert_eq!((ended.code, ended.out.contains("asked")), (Some(3), false));
    assert_nothing_is_left(&scene.server);
}

#[test]
fn a_command_that_is_stopped_and_whose_lease_does_not_recover_is_killed() {
    let scene = Scene::set();
    let options = ["--on-danger", "stop", "--danger", "1s", "--ttl", "1500ms"];
    let command = &mut run(&scene.server, &options, POLITE);
    let mut running = Running::start(command);
    let command = numbers(&running.line());
    scene.server.stop();
    eventually("it is stopped", PATIENCE, || state(command[0]) == 'T');
    eventually_dead(&command, PATIENCE);
    let ended = running.end();
    assert_eq!((ended.code, ended.out.contains("asked")), (Some(70), false));
}

#[test]
fn with_none_a_command_is_told_nothing_and_killed_in_the_end() {
    let scene = Scene::set();
    let options = ["--on-danger", "none", "--danger", "400ms", "--ttl", "1s"];
    let mut running = Running::start(&mut run(&scene.server, &options, POLITE));
    let command = numbers(&running.line());
    scene.server.stop();
    eventually_dead(&command, PATIENCE);
    scene.server.cont();
    let ended = running.end();
    assert_eq!((ended.code, ended.out.contains("asked")), (Some(70), false));
}

#[test]
fn a_command_of_its_own_can_be_run_in_danger() {
    let scene = Scene::set();
    let mark = beside(&scene.server, "mark");
    let line = "echo \"$LEASEHOLD_KEY ${LEASEHOLD_TOKEN-none}\" >> \"$MARK\"";
    let options = ["--on-danger", "none", "--danger-exec", line];
    let mut running = Running::start(scene.run(&options, POLITE).env("MARK", &mark));
    running.line();
    assert!(!mark.exists());
    let trouble = scene.trouble();
    assert_eq!(written(&mark), format!("{KEY} none\n"));
    trouble.end();
    running.word();
    assert!(running.word().contains("recovered"));
    scene.done();
    assert_eq!(running.end().code, Some(3));
    assert_eq!(written(&mark), format!("{KEY} none\n"), "once");
    assert_nothing_is_left(&scene.server);
}

#[test]
fn the_commands_that_are_run_in_danger_do_not_gather_as_zombies() {
    let scene = Scene::set();
    let mark = beside(&scene.server, "mark");
    let line = "echo $$ >> \"$MARK\"";
    let options = ["--on-danger", "none", "--danger-exec", line];
    let mut running = Running::start(scene.run(&options, POLITE).env("MARK", &mark));
    running.line();
    let id = running.process.id();
    let mut ran = Vec::new();
    for _ in 0..3 {
        let trouble = scene.trouble();
        eventually("it runs", PATIENCE, || {
            ran = numbers(&fs::read_to_string(&mark).unwrap_or_default());
            ran.last().is_some_and(|last| is_dead(*last))
        });
        trouble.end();
        eventually("it has recovered", PATIENCE, || {
            running.word().contains("recovered")
        });
        fs::rename(&mark, beside(&scene.server, "marked")).unwrap();
    }
    // The last is waited for when there is a next.
    let zombies = children(id).into_iter().filter(|child| is_dead(*child));
    let zombies = zombies.collect::<Vec<_>>();
    assert!(zombies.len() <= 1, "{zombies:?}");
    scene.done();
    assert_eq!(running.end().code, Some(3));
}

#[test]
fn quiet_says_nothing_of_danger_and_loss_either() {
    let server = Server::start();
    let options = ["--quiet", "--ttl", "600ms", "--danger", "200ms"];
    let mut running = Running::start(&mut run(&server, &options, FOREVER));
    running.line();
    server.cmd(&["SET", KEY, "theirs"]);
    let ended = running.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(70), ""));
}

#[test]
fn a_command_that_has_held_the_lock_for_long_enough_is_ended_and_the_lock_free() {
    let server = Server::start();
    let options = ["--ttl", "1s", "--danger", "300ms", "--max-hold", "1200ms"];
    let ended = end(&mut run(&server, &options, FOREVER));
    assert_eq!(ended.code, Some(70));
    assert!(ended.err.contains("danger"), "{}", ended.err);
    assert_nothing_is_left(&server);
    // It had been renewed until then, and lived longer than one ttl; another does not come near.
    let ended = end(&mut run(&server, &["--max-hold", "1m"], "exit 3"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(3), ""));
}
