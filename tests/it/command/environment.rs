//! What the command sees, and what others see of it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{KEY, Running, assert_nothing_is_left, end, leasehold, run, state};
use crate::support::Server;

/// Longer than any of the tests' machines stands still.
const SLACK: Duration = Duration::from_secs(20);

/// What `env` prints of ours.
fn variables(text: &str) -> HashMap<&str, &str> {
    let ours = text
        .lines()
        .filter_map(|line| line.strip_prefix("LEASEHOLD_"));
    ours.filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn the_command_sees_the_key_and_the_first_deadline_and_no_token() {
    let server = Server::start();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let before = now();
    let mut command = run(&server, &["--ttl", "1m"], "env");
    // A run within a run must not take the outer one's for its own.
    let ended = end(command
        .env("LEASEHOLD_TOKEN", "outer")
        .env("LEASEHOLD_FENCE", "7"));
    let seen = variables(&ended.out);
    let mut names: Vec<_> = seen.keys().copied().collect();
    names.sort_unstable();
    assert_eq!(names, ["DEADLINE_MS", "KEY"]);
    assert_eq!(seen["KEY"], KEY);
    let deadline = Duration::from_millis(seen["DEADLINE_MS"].parse().unwrap());
    let ttl = Duration::from_secs(60);
    let allowance = ttl / 100 + Duration::from_millis(20);
    assert!(
        before + ttl - allowance <= deadline,
        "{before:?} {deadline:?}"
    );
    assert!(deadline <= now() + ttl, "{deadline:?}");
    assert!(deadline <= before + ttl + SLACK);
}

#[test]
fn the_token_is_given_only_to_who_asks_and_is_in_no_process_list() {
    let server = Server::start();
    for (options, exports) in [
        (&["--verbose"][..], false),
        (&["--verbose", "--export-token"], true),
    ] {
        let body = "echo \"token ${LEASEHOLD_TOKEN-none}\"; read -r line; exit 3";
        let mut running = Running::start(&mut run(&server, options, body));
        let line = running.line();
        let record = server.get(KEY).expect("it is held");
        assert_eq!(line == format!("token {record}"), exports, "{line}");
        assert_eq!(line == "token none", !exports, "{line}");
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&words).contains(&record));
        }
        running.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let ended = running.end();
        assert_eq!(ended.code, Some(3));
        assert!(
            !ended.err.is_empty() && !ended.err.contains(&record),
            "{}",
            ended.err
        );
        assert_nothing_is_left(&server);
    }
}

#[test]
fn the_fence_grows_from_one_holder_to_the_next() {
    let server = Server::start();
    let mut last = 0;
    for _ in 0..3 {
        let ended = end(&mut run(&server, &["--fenced"], "echo $LEASEHOLD_FENCE"));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let fence: u64 = ended.out.trim().parse().unwrap();
        assert!(last < fence, "{fence} after {last}");
        last = fence;
        assert_nothing_is_left(&server);
    }
}

#[test]
fn standard_input_output_and_error_are_the_commands_own() {
    let server = Server::start();
    let mut running = Running::start(&mut run(&server, &[], "cat; echo told >&2; exit 4"));
    let text = "a line\n\nand another\n";
    running
        .stdin
        .as_mut()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let ended = running.end();
    assert_eq!(ended.code, Some(4));
    assert_eq!((ended.out.as_str(), ended.err.as_str()), (text, "told\n"));
}

#[test]
fn no_shell_stands_between() {
    let server = Server::start();
    let words = ["$HOME", "a  b", "*", "--flag", "", "'"];
    let mut command = leasehold(&[
        "run",
        "--url",
        &server.url(),
        KEY,
        "--",
        "printf",
        "<%s>\\n",
    ]);
    let ended = end(command.args(words));
    let shown = words.map(|word| format!("<{word}>\n"));
    assert_eq!(ended.out, shown.concat());
}

#[test]
fn a_command_behind_a_pipe_that_nobody_reads_any_more_ends_as_it_would() {
    let server = Server::start();
    // It is killed by SIGPIPE, which those between must not have taken from it.
    let body = "yes | head -1; grep '^Sig[IB]' /proc/self/status";
    let without = end(Command::new("bash").args(["-c", body])).out;
    assert!(without.starts_with("y\n") && without.lines().count() == 3);
    assert_eq!(end(&mut run(&server, &[], body)).out, without);
}

#[test]
fn the_label_and_the_url_come_from_where_they_are_given() {
    let (server, other) = (Server::start(), Server::start());
    let body = "echo held; read -r line";
    let words = ["run", "--label", "host a", KEY, "--", "bash", "-c", body];
    // What is set to nothing is not set.
    let urls = [
        (Some(server.url()), Some(other.url())),
        (None, Some(server.url())),
        (Some(String::new()), Some(server.url())),
    ];
    for (own, general) in urls {
        let mut command = leasehold(&words);
        let given = [("LEASEHOLD_URL", own), ("REDIS_URL", general)];
        for (name, url) in given {
            url.into_iter().for_each(|url| _ = command.env(name, url));
        }
        let mut running = Running::start(&mut command);
        running.line();
        assert!(server.get(KEY).unwrap().ends_with(" host a"));
        assert_eq!(other.get(KEY), None);
        assert_ne!(state(running.process.id()), 'Z');
        assert_eq!(running.end().code, Some(1), "`read` finds the end");
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_url_that_is_no_text_is_64_and_does_not_give_way_to_the_next() {
    let server = Server::start();
    for name in ["LEASEHOLD_URL", "REDIS_URL"] {
        let mut command = leasehold(&["run", KEY, "--", "echo", "runs"]);
        command.env("REDIS_URL", server.url());
        let ended = end(command.env(name, OsStr::from_bytes(b"redis://:hidden@h\xff:1")));
        assert_eq!((ended.code, ended.out.as_str()), (Some(64), ""));
        assert!(ended.err.contains(name), "{}", ended.err);
        assert!(!ended.err.contains("hidden"), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn without_a_label_the_record_tells_of_the_host_and_the_process() {
    let server = Server::start();
    for (options, has_label) in [(&[][..], true), (&["--label", ""], false)] {
        let mut running = Running::start(&mut run(&server, options, "echo held; read -r line"));
        running.line();
        let record = server.get(KEY).unwrap();
        let label = record.split_once(' ').map(|(_, label)| label.to_owned());
        let process = format!(":{}", running.process.id());
        assert_eq!(label.is_some(), has_label, "{record}");
        assert!(label.is_none_or(|label| label.ends_with(&process)));
        running.end();
    }
}
