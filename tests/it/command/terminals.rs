//! At a terminal: `^C`, `^Z` and `fg`, keys that are meant for the command, pipelines.

use std::fs;
use std::process::Command;

use super::{
    FOREVER, KEY, assert_nothing_is_left, beside, is_dead, leasehold, numbers, parent, run, state,
    written,
};
use crate::support::{PATIENCE, Server, Terminal, eventually};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

/// A file gets its number first, for a terminal shows more than that; then it ticks.
const TICKS: &str = "echo $$ > \"$NUMBER\"; trap 'exit 130' INT; i=0; while :; do i=$((i+1)); echo tick-$i; sleep 0.05; done";

/// A shell with job control, in which `$RUN BODY` runs something under the lease.
fn shell(server: &Server, options: &str) -> Terminal {
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "--noediting", "-i"]);
    let program = leasehold(&[]).get_program().to_owned();
    let program = program.to_str().unwrap();
    let line = format!(
        "{program} run --url {} {options} {KEY} -- bash -c",
        server.url()
    );
    shell
        .env("RUN", line)
        .env("TICKS", TICKS)
        .env("LC_ALL", "C");
    shell
        .env("NUMBER", beside(server, "number"))
        .env("DIRECTORY", beside(server, ""));
    // The line of `read` and the like would be added to it.
    shell
        .env("PS1", "ready> ")
        .env_remove("PROMPT_COMMAND")
        .env("HISTFILE", "/dev/null");
    let mut terminal = Terminal::start(&shell);
    terminal.expect("ready> ");
    terminal
}

/// The code of the last command line.
#[track_caller]
fn code(terminal: &mut Terminal) -> String {
    terminal.press("echo co\"\"de=$?.\n");
    terminal.expect("code=");
    terminal.expect(".")
}

#[track_caller]
fn command_of(server: &Server) -> u32 {
    numbers(&written(&beside(server, "number")))[0]
}

#[test]
fn ctrl_c_ends_the_command_and_leaves_nothing_behind() {
    let server = Server::start();
    let traps = "trap 'echo interrupted; exit 5' INT; echo tail; while :; do sleep 0.05; done";
    for (body, wanted) in [(traps, 5), (FOREVER, 130)] {
        let mut terminal = Terminal::start(&run(&server, &[], body));
        terminal.expect("tail");
        terminal.press(CTRL_C);
        assert_eq!(terminal.end(), Some(wanted), "{}", terminal.seen());
        assert!(terminal.seen().matches("interrupted").count() <= 1, "once");
        assert_nothing_is_left(&server);
    }
}

#[test]
fn ctrl_c_ends_the_wait() {
    let server = Server::start();
    server.cmd(&["SET", KEY, "theirs"]);
    let mut terminal = Terminal::start(&run(&server, &["--wait-forever"], "echo runs"));
    eventually("it waits", PATIENCE, || !server.clients().is_empty());
    terminal.press(CTRL_C);
    assert_eq!(terminal.end(), Some(130));
    server.cmd(&["DEL", KEY]);
    assert_nothing_is_left(&server);
}

#[test]
fn what_is_typed_goes_to_the_command() {
    let server = Server::start();
    let mut terminal = shell(&server, "");
    terminal.press("$RUN 'echo th\"\"ere; read -r line < /dev/tty; echo \"<$line>\"; exit 4'\n");
    terminal.expect("there");
    terminal.press("some words\n");
    terminal.expect("<some words>");
    terminal.expect("ready> ");
    assert_eq!(code(&mut terminal), "4");
    assert_nothing_is_left(&server);
}

#[test]
fn what_is_typed_goes_to_a_command_whose_output_goes_to_a_file() {
    let server = Server::start();
    let mut terminal = shell(&server, "");
    let body = "echo th\"\"ere >&2; read -r line < /dev/tty; echo \"<$line>\"";
    terminal.press(&format!(
        "$RUN '{body}' > $DIRECTORY/out; cat $DIRECTORY/out\n"
    ));
    terminal.expect("there");
    terminal.press("some words\n");
    terminal.expect("<some words>");
}

#[test]
fn ctrl_z_stops_the_command_and_gives_the_shell_its_prompt_and_fg_goes_on() {
    let server = Server::start();
    let mut terminal = shell(&server, "");
    terminal.press("$RUN \"$TICKS\"\n");
    terminal.expect("tick-2");
    let command = command_of(&server);
    for _ in 0..2 {
        terminal.press(CTRL_Z);
        terminal.expect("Stopped");
        terminal.expect("ready> ");
        eventually("it is stopped", PATIENCE, || state(command) == 'T');
        terminal.press("echo al\"\"ive\n");
        terminal.expect("alive");
        terminal.press("fg\n");
        terminal.expect("tick-");
    }
    terminal.press(CTRL_C);
    terminal.expect("ready> ");
    assert_eq!(code(&mut terminal), "130");
    assert!(is_dead(command));
    assert_nothing_is_left(&server);
}

#[test]
fn a_command_that_does_not_mind_ctrl_z_is_stopped_all_the_same() {
    let server = Server::start();
    let mut terminal = shell(&server, "");
    terminal.press("$RUN \"trap '' TSTP; $TICKS\"\n");
    terminal.expect("tick-2");
    let command = command_of(&server);
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    eventually("it is stopped", PATIENCE, || state(command) == 'T');
    terminal.press("fg\n");
    eventually("it goes on", PATIENCE, || state(command) != 'T');
    terminal.press(CTRL_C);
    eventually("the command is dead", PATIENCE, || is_dead(command));
}

#[test]
fn a_command_that_tidies_up_on_ctrl_z_has_the_time_for_it_and_for_drawing_itself_again() {
    let server = Server::start();
    let mut terminal = shell(&server, "");
    // Its naps are no processes, which a key would stop as well.
    let body = "
        tidy() {
            read -rt 0.1 -u 3; echo tidied; trap - TSTP; kill -TSTP $$
            trap tidy TSTP; echo redrawn
        }
        trap tidy TSTP; trap 'exit 130' INT
        mkfifo \"$DIRECTORY/fifo\"; exec 3<> \"$DIRECTORY/fifo\"
        echo $$ > \"$NUMBER\"; echo drawn
        while :; do read -rt 0.05 -u 3; done";
    fs::write(beside(&server, "tidies"), body).unwrap();
    terminal.press("$RUN \"$(cat $DIRECTORY/tidies)\"\n");
    terminal.expect("drawn");
    let command = command_of(&server);
    for _ in 0..2 {
        terminal.press(CTRL_Z);
        let before = terminal.expect("Stopped");
        assert!(before.contains("tidied"), "{before}");
        terminal.expect("ready> ");
        eventually("it is stopped", PATIENCE, || state(command) == 'T');
        terminal.press("fg\n");
        let before = terminal.expect("redrawn");
        assert!(!before.contains("tidied"), "{before}");
    }
    terminal.press(CTRL_C);
    terminal.expect("ready> ");
    assert_eq!(code(&mut terminal), "130");
    assert_nothing_is_left(&server);
}

#[test]
fn where_the_background_may_not_write_a_command_in_danger_is_asked_all_the_same() {
    let server = Server::start();
    let mut terminal = shell(&server, "--ttl 5s --danger 3s");
    terminal.press("stty tostop\n");
    terminal.expect("ready> ");
    let body = "trap \"echo as\"\"ked; exit 5\" TERM; echo ru\"\"ns; while :; do sleep 0.05; done";
    terminal.press(&format!("$RUN '{body}'\n"));
    terminal.expect("runs");
    server.stop();
    terminal.expect("asked");
    server.cont();
    let before = terminal.expect("ready> ");
    assert!(!before.contains("Stopped"), "{before}");
    assert_eq!(code(&mut terminal), "5");
    assert!(terminal.seen().contains("danger"), "{}", terminal.seen());
}

#[test]
fn a_command_whose_lease_ran_out_while_it_was_stopped_is_killed_by_fg_and_does_nothing() {
    let server = Server::start();
    let mut terminal = shell(&server, "--ttl 1s --danger 300ms");
    // It never rests, so that it cannot run and leave no trace.
    let count = beside(&server, "count");
    let body = "echo $$ > $NUMBER; while :; do echo >> $DIRECTORY/count; done";
    terminal.press(&format!("$RUN '{body}'\n"));
    let command = command_of(&server);
    eventually("it counts", PATIENCE, || count.exists());
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.expect("ready> ");
    eventually("the record expires", PATIENCE, || server.get(KEY).is_none());
    let counted = fs::metadata(&count).unwrap().len();
    assert!(matches!(state(command), 'T' | 'Z'), "{}", state(command));
    server.cmd(&["SET", KEY, "theirs"]);
    terminal.press("fg\n");
    let between = terminal.expect("ready> ");
    assert_eq!(fs::metadata(&count).unwrap().len(), counted);
    assert!(
        between.contains("leasehold: ") && between.contains("killed"),
        "{between}"
    );
    assert_eq!(code(&mut terminal), "70");
    assert!(is_dead(command));
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
}

#[test]
fn ctrl_z_while_it_waits_gives_the_shell_its_prompt_and_fg_waits_on() {
    let server = Server::start();
    server.cmd(&["SET", KEY, "theirs"]);
    let mut terminal = shell(&server, "--wait-forever");
    terminal.press("$RUN 'echo ru\"\"ns'\n");
    eventually("it waits", PATIENCE, || !server.clients().is_empty());
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.expect("ready> ");
    server.cmd(&["DEL", KEY]);
    assert!(!terminal.seen().contains("runs"));
    terminal.press("fg\n");
    terminal.expect("runs");
    terminal.expect("ready> ");
    assert_eq!(code(&mut terminal), "0");
}

#[test]
fn a_pipeline_works_and_is_ended_and_stopped_as_one() {
    let server = Server::start();
    let mut terminal = shell(&server, "");
    terminal.press("$RUN 'echo one; exit 3' | sed 's/one/o-n-e/'; (exit ${PIPESTATUS[0]})\n");
    terminal.expect("o-n-e\r\n");
    terminal.expect("ready> ");
    assert_eq!(code(&mut terminal), "3");

    terminal.press("$RUN \"$TICKS\" | cat; (exit ${PIPESTATUS[0]})\n");
    terminal.expect("tick-2");
    let command = command_of(&server);
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.expect("ready> ");
    eventually("the command is stopped", PATIENCE, || state(command) == 'T');
    terminal.press("fg\n");
    terminal.expect("tick-");
    terminal.press(CTRL_C);
    terminal.expect("ready> ");
    eventually("the command is dead", PATIENCE, || is_dead(command));
    eventually("the lock is free", PATIENCE, || server.get(KEY).is_none());
}

#[test]
fn in_the_background_it_runs_and_leaves_the_terminal_alone() {
    let server = Server::start();
    let mut terminal = shell(&server, "");
    terminal.press("$RUN \"$TICKS\" > /dev/null &\n");
    let command = command_of(&server);
    terminal.press("echo al\"\"ive\n");
    terminal.expect("alive");
    assert!(matches!(state(command), 'S' | 'R'));
    terminal.press("fg\n");
    let leasehold = parent(parent(command));
    eventually("it is in the foreground", PATIENCE, || {
        terminal.foreground() == Some(leasehold)
    });
    terminal.press(CTRL_C);
    eventually("the command is dead", PATIENCE, || is_dead(command));
    eventually("the lock is free", PATIENCE, || server.get(KEY).is_none());
    terminal.press("echo ba\"\"ck\n");
    terminal.expect("back");
}

/// A script without job control: a command under the lease, and another.
fn script(shell: &str, server: &Server, body: &str) -> Terminal {
    let mut script = Command::new(shell);
    let run = run(server, &[], body);
    script.args(["-c", "\"$@\"; echo \"ne\"xt=$?", "bash"]);
    script.arg(run.get_program()).args(run.get_args());
    Terminal::start(&script)
}

#[test]
fn ctrl_c_ends_the_script_that_has_started_it_too() {
    let server = Server::start();
    // One wants to be told of the key, another to see that who was told has ended by it.
    for shell in ["sh", "bash"] {
        let mut terminal = script(shell, &server, FOREVER);
        terminal.expect("tail");
        terminal.press(CTRL_C);
        assert_eq!(terminal.end(), Some(130), "{}", terminal.seen());
        assert!(!terminal.seen().contains("next"), "{}", terminal.seen());
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_command_that_ends_with_130_by_itself_ends_no_script() {
    let server = Server::start();
    for shell in ["sh", "bash"] {
        let mut terminal = script(shell, &server, "exit 130");
        terminal.expect("next=130");
        assert_eq!(terminal.end(), Some(0));
    }
}

#[test]
fn the_scripts_terminal_is_its_own_again_afterwards() {
    let server = Server::start();
    let mut script = Command::new("bash");
    let run = run(&server, &[], "read -r line; echo \"one <$line>\"");
    script.args(["-c", "\"$@\"; read -r line; echo \"two <$line>\"", "bash"]);
    script.arg(run.get_program()).args(run.get_args());
    let mut terminal = Terminal::start(&script);
    terminal.press("first\nsecond\n");
    terminal.expect("one <first>");
    terminal.expect("two <second>");
    assert_eq!(terminal.end(), Some(0));
}
