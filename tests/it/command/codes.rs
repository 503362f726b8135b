//! What `leasehold run` ends with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{FOREVER, KEY, Running, assert_nothing_is_left, beside, end, leasehold, run, run_at};
use crate::support::{PATIENCE, Server, eventually};

/// Its one line, which the command's output is not mixed with.
#[track_caller]
fn assert_one_line(said: &str) {
    assert!(said.starts_with("leasehold: "), "{said:?}");
    assert_eq!(said.lines().count(), 1, "{said:?}");
}

#[test]
fn it_ends_with_the_commands_own_code() {
    let server = Server::start();
    for code in [0, 1, 7, 64, 75, 255] {
        let ended = end(&mut run(&server, &[], &format!("exit {code}")));
        assert_eq!(ended.code, Some(code));
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_signal_that_ends_the_command_is_added_to_128() {
    let server = Server::start();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("USR1", 10), ("INT", 2)] {
        let ended = end(&mut run(&server, &[], &format!("kill -{name} $$")));
        assert_eq!(ended.code, Some(128 + number), "{name}");
        assert_eq!(ended.err, "");
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_be_run_126() {
    let server = Server::start();
    let plain = beside(&server, "plain");
    fs::write(&plain, "true").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let (plain, folder) = (plain.to_str().unwrap(), std::env::temp_dir());
    for (program, code) in [
        ("leasehold-no-such-program", 127),
        ("/no/such/program", 127),
        (plain, 126),
        ("echo hi", 127),
        (folder.to_str().unwrap(), 126),
    ] {
        let ended = end(&mut leasehold(&[
            "run",
            "--url",
            &server.url(),
            KEY,
            "--",
            program,
        ]));
        assert_eq!(ended.code, Some(code), "{program}");
        assert_one_line(&ended.err);
        assert!(ended.err.contains(program), "{}", ended.err);
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_script_that_names_no_interpreter_is_run_by_the_shell() {
    let server = Server::start();
    // Written by another process: one that this one had open might be inherited by a child of
    // another test, and then it cannot be run.
    let name = "leasehold-test-script";
    let script = beside(&server, name);
    let write = "echo 'echo \"<$1> <$0>\"; exit 3' > \"$0\"; chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(&script).status();
    assert!(written.unwrap().success());
    let path = script.to_str().unwrap();
    for program in [path, name] {
        let mut command = leasehold(&["run", "--url", &server.url(), KEY, "--", program, "a b"]);
        let folders = format!("/usr/bin:/bin:{}", script.parent().unwrap().display());
        let ended = end(command.env("PATH", folders));
        assert_eq!(ended.out, format!("<a b> <{path}>\n"), "{}", ended.err);
        assert_eq!((ended.code, ended.err.as_str()), (Some(3), ""));
        assert_nothing_is_left(&server);
    }
}

#[test]
fn where_the_signal_of_a_childs_end_was_ignored_the_code_is_the_commands_own() {
    let server = Server::start();
    for (body, code) in [("exit 3", 3), ("exit 0", 0), ("kill -TERM $$", 143)] {
        let inner = run(&server, &[], body);
        let mut command = Command::new("bash");
        command.args(["-c", "trap '' CHLD; exec \"$@\"", "bash"]);
        command.arg(inner.get_program()).args(inner.get_args());
        let ended = end(&mut command);
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""));
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_lock_of_others_is_75_or_the_busy_code_and_the_command_is_not_started() {
    let server = Server::start();
    let theirs = "0123456789abcdef0123456789abcdef01234567 host-a";
    server.cmd(&["SET", KEY, theirs, "PX", "60000"]);
    let options: [(&[&str], i32); 4] = [
        (&[], 75),
        (&["--no-wait"], 75),
        (&["--wait", "300ms"], 75),
        (&["--busy-code", "9", "--wait", "50ms"], 9),
    ];
    for (options, code) in options {
        let ended = end(&mut run(&server, options, "echo runs"));
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""));
        assert_one_line(&ended.err);
        assert!(ended.err.contains("host-a"), "{}", ended.err);
        assert_eq!(server.get(KEY).as_deref(), Some(theirs));
    }
    let ended = end(&mut run(&server, &["--quiet"], "echo runs"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(75), ""));
}

#[test]
fn where_busy_is_no_failure_nothing_is_said_of_it() {
    let server = Server::start();
    server.cmd(&["SET", KEY, "theirs"]);
    let options = ["--busy-code", "0"];
    let ended = end(&mut run(&server, &options, "echo runs"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""));
    assert_eq!(ended.err, "");
    let loud = end(&mut run(&server, &["--busy-code", "0", "-v"], "echo runs"));
    assert!(loud.err.contains("held by another"), "{}", loud.err);
    server.kill();
    let away = end(&mut run(&server, &options, "echo runs"));
    assert_eq!(away.code, Some(69));
    assert_one_line(&away.err);
}

#[test]
fn a_key_that_is_no_lock_is_64_and_not_busy_for_ever() {
    let server = Server::start();
    server.cmd(&["LPUSH", KEY, "an element"]);
    for options in [&[][..], &["--wait", "1m"], &["--wait-forever", "--fenced"]] {
        let ended = end(&mut run(&server, options, "echo runs"));
        assert_eq!((ended.code, ended.out.as_str()), (Some(64), ""));
        assert_one_line(&ended.err);
    }
    server.cmd(&["DEL", KEY]);
    assert_nothing_is_left(&server);
}

#[test]
fn it_waits_for_the_lock_as_long_as_it_is_told() {
    let server = Server::start();
    for options in [&["--wait", "30s"][..], &["--wait-forever"]] {
        server.cmd(&["SET", KEY, "theirs", "PX", "60000"]);
        let mut running = Running::start(&mut run(&server, options, "echo runs; exit 3"));
        eventually("it waits", PATIENCE, || !server.clients().is_empty());
        server.cmd(&["DEL", KEY]);
        assert_eq!(running.line(), "runs");
        assert_eq!(running.end().code, Some(3));
        assert_nothing_is_left(&server);
    }
}

#[test]
fn what_cannot_be_used_is_64_and_nothing_is_started() {
    let server = Server::start();
    let url = server.url();
    let at = ["run", "--url", &url];
    let body = [KEY, "--", "echo", "runs"];
    let cases: [&[&str]; 11] = [
        &["--wait", "30"],
        &["--ttl", "soon"],
        &["--wait", "1s", "--no-wait"],
        &["--wait-forever", "--no-wait"],
        &["--ttl", "1s", "--danger", "1s"],
        &["--ttl", "1ms"],
        &["--max-hold", "1s", "--danger", "2s"],
        &["--on-danger", "panic"],
        &["--busy-code", "256"],
        &["--label", "two\nlines"],
        &["--no-such-option"],
    ];
    for options in cases {
        let ended = end(leasehold(&at).args(options).args(body));
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(64), ""),
            "{options:?}"
        );
        assert_one_line(&ended.err);
    }
    let hint = end(leasehold(&at).args(["--wait", "30"]).args(body)).err;
    assert!(hint.contains("30s") && hint.contains("30ms"), "{hint}");
    let forgotten = end(leasehold(&at).args([KEY, "echo", "runs"]));
    assert_eq!((forgotten.code, forgotten.out.as_str()), (Some(64), ""));
    assert!(forgotten.err.contains(" -- "), "{}", forgotten.err);
    for options in [["-q", "--wait=30"], ["--quiet", "--verbose"]] {
        let quiet = end(leasehold(&at).args(options).args(body));
        assert_eq!((quiet.code, quiet.err.as_str()), (Some(64), ""));
        assert_eq!(quiet.out, "");
    }
    let bare: [&[&str]; 5] = [&[], &["run"], &["run", KEY], &["run", KEY, "--"], &["ran"]];
    for words in bare {
        assert_eq!(end(&mut leasehold(words)).code, Some(64), "{words:?}");
    }
    assert_nothing_is_left(&server);
}

#[test]
fn a_url_that_cannot_be_used_is_64_and_one_line() {
    for url in [
        "",
        "127.0.0.1",
        "http://127.0.0.1:6379",
        "redis://:hidden@host:port",
        "redis://h/x",
    ] {
        let ended = end(&mut run_at(url, &[], "echo runs"));
        assert_eq!((ended.code, ended.out.as_str()), (Some(64), ""), "{url}");
        assert_one_line(&ended.err);
        assert!(!ended.err.contains("hidden"), "{}", ended.err);
    }
}

#[test]
fn a_server_that_is_away_or_refuses_is_69_and_one_line() {
    let server = Server::with(&[
        "requirepass open-sesame",
        "user guest on >hidden ~* &* +@connection +info",
    ]);
    let (port, away) = (server.port(), Server::start());
    away.kill();
    let urls = [
        away.url(),
        String::from("redis://no-such-host.invalid:6379"),
        String::from("redis+unix:///no/such/socket"),
        format!("redis://:hidden@127.0.0.1:{port}"),
        format!("redis://127.0.0.1:{port}"),
        server.url_as("guest", "hidden"),
    ];
    for url in urls {
        for options in [&[][..], &["--wait", "100ms"]] {
            let ended = end(&mut run_at(&url, options, "echo runs"));
            assert_eq!((ended.code, ended.out.as_str()), (Some(69), ""), "{url}");
            assert_one_line(&ended.err);
            assert!(!ended.err.contains("hidden"), "{}", ended.err);
        }
        let ended = end(&mut run_at(&url, &["--quiet"], "echo runs"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(69), ""), "{url}");
    }
    assert_nothing_is_left(&server);
}

#[test]
fn a_lock_that_others_have_taken_ends_the_command_with_70() {
    let server = Server::start();
    let mut running = Running::start(&mut run(&server, &["--ttl", "600ms"], FOREVER));
    assert_eq!(running.line(), "tail");
    server.cmd(&["SET", KEY, "theirs"]);
    let ended = running.end();
    assert_eq!(ended.code, Some(70));
    assert!(ended.err.contains("killed"), "{}", ended.err);
    assert_eq!(server.get(KEY).as_deref(), Some("theirs"));
}

#[test]
fn a_command_that_lasts_longer_than_the_ttl_keeps_the_lock() {
    let server = Server::start();
    let body = "echo runs; sleep 1.5; exit 3";
    let mut running = Running::start(&mut run(
        &server,
        &["--ttl", "500ms", "--danger", "150ms"],
        body,
    ));
    assert_eq!(running.line(), "runs");
    let record = server.get(KEY).expect("it is held");
    eventually("it has ended", PATIENCE, || {
        let held = server.get(KEY);
        assert!(held.is_none() || held.as_ref() == Some(&record));
        held.is_none()
    });
    let ended = running.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(3), ""));
}
